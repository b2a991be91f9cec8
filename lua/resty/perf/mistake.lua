-- Mistakes of who calls resty.perf, raised at his line and in the name of the function that he called.
local blame = require "perf.base.argument"

local M = {}

-- What is wrong, without where it was found: "x: unknown event" of "file.lua:7: bad argument #1 to 'y' (x: unknown event)".
M.reason = blame.words

-- Call f(...). What it raises is a mistake in the first argument of a public function.
-- @param level whom it is for, as for error
-- @param name the public function's
-- @return three results of f
function M.checked(level, name, f, ...)
  local ok, a, b, c = pcall(f, ...)
  if not ok then error(("bad argument #1 to '%s' (%s)"):format(name, M.reason(a)), level + 1) end
  return a, b, c
end

return M
