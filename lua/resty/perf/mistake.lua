-- Mistakes of resty.perf's callers, raised at the caller's line and in the name of the public function.
local blame = require "perf.base.argument"

local M = {}

-- The reason in a message, without the place: "x: unknown event" of "file.lua:7: bad argument #1 to 'y' (x: unknown event)".
M.reason = blame.words

-- Call f(...). An error that it raises is a mistake in the first argument of a public function.
-- @param level of the caller, as for error
-- @param name the public function's
-- @return three results of f
function M.checked(level, name, f, ...)
  local ok, a, b, c = pcall(f, ...)
  if not ok then error(("bad argument #1 to '%s' (%s)"):format(name, M.reason(a)), level + 1) end
  return a, b, c
end

return M
