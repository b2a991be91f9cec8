--- A contestant's process: it is started, asked for samples, and ended. Plain Lua has pipes in one direction only, so a child
-- reads its input from a named pipe.
local M = {}

local Child = {}
Child.__index = Child

--- Start a command.
-- @param dir an existing directory for the named pipe and the log of errors
-- @return child; or nil and the reason why it does not take part
function M.start(dir, name, command)
  local fifo, log = dir .. "/" .. name .. ".in", dir .. "/" .. name .. ".log"
  os.remove(fifo)
  if not os.execute(("mkfifo '%s'"):format(fifo)) then error("mkfifo failed: " .. fifo) end
  local out = assert(io.popen(("exec %s <'%s' 2>'%s'"):format(command, fifo, log), "r"))
  local input = assert(io.open(fifo, "w"))
  input:setvbuf "line"
  local self = setmetatable({ out = out, input = input, fifo = fifo, log = log }, Child)
  local line = out:read "*l"
  if line == "ready" then
    self.alive = true
    return self
  end
  local why = line and line:match "^none (.*)" or self:complaint() or "it ended at once"
  self:stop()
  return nil, why
end

-- The last line that it wrote to stderr.
function Child:complaint()
  local last
  local f = io.open(self.log)
  if f then
    for line in f:lines() do
      if line:find "%S" then last = line end
    end
    f:close()
  end
  return last
end

--- A sample of n repetitions.
-- @return their duration, or nil and the reason
function Child:sample(n)
  self.input:write(("%d\n"):format(n))
  self.input:flush()
  local line = self.out:read "*l"
  local value = line and tonumber(line)
  self.alive = value ~= nil
  if not value then return nil, self:complaint() or line or "it ended" end
  return value
end

-- Not by closing its input: children that were started later hold copies of that descriptor.
function Child:stop()
  if self.alive then self.input:write "0\n" end
  self.input:close()
  self.out:close()
  os.remove(self.fifo)
  os.remove(self.log)
end

return M
