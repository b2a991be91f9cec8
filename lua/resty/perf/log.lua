-- Lines of the error log, in which no byte of a request stands as it came: a newline would begin a line of the client's own, and
-- an escape sequence would reach the terminal. The form is that of nginx's access log: "\x0A".
local M = {}

local after = ngx.timer.at -- not the wrapped one, whose callbacks are counted

local function escape(c) return ("\\x%02X"):format(c:byte()) end

-- Write a line to the error log.
function M.write(level, ...) ngx.log(level, (table.concat { ... }:gsub('[^ -~]', escape))) end

local waiting = {} -- {level, text}

-- Write the lines that wait.
function M.flush()
  local lines = waiting
  waiting = {}
  for _, line in ipairs(lines) do M.write(line[1], line[2]) end
end

-- Write a line outside of the request: nginx adds the request's first line, with the query string, to any that is written within.
function M.later(level, text)
  waiting[#waiting + 1] = { level, text }
  if #waiting == 1 then after(0, M.flush) end -- refused: perf's timer writes it
end

return M
