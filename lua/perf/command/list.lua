-- luaperf list: the events of this machine.
local kinds = require "perf.names.list".kinds

local M = {}

M.about = "list the events of this machine"
M.usage = "luaperf list [PATTERN]"
M.text = "Lists the events that have a name. PATTERN is part of a name, a glob over the whole name, or a kind:\n"
  .. table.concat(kinds, ", ") .. ".\nluaperf record -e also takes alloc and heap, the memory of Lua, for a script."
M.mixed = true
M.options = {}

-- Run the command. @return exit status; or nil, message, code
function M.run(_, words)
  if #words > 1 then return nil, "luaperf list takes one pattern", "USAGE" end
  local rows, message, code = require "perf".list(words[1])
  if #rows == 0 then
    local pattern = words[1] or ""
    if message and (pattern:find ":" or pattern:lower() == "tracepoint") then return nil, pattern .. ": " .. message, code end
    if pattern == "alloc" or pattern == "heap" then
      local what = "%s: Lua's memory, not an event of the kernel: luaperf record -e %s script.lua"
      return nil, what:format(pattern, pattern), "ENOENT"
    end
    return nil, ("no event matches '%s'%s%s"):format(pattern, require "perf.base.suggest".hint(pattern, kinds),
      message and "; " .. message or ""), "ENOENT"
  end
  local ok
  ok, message, code = require "perf.command.terminal".write(tostring(rows) .. "\n")
  return ok and 0, message, code
end

return M
