-- Calls a function of one argument, such as one that opens a list of events, so that running measurements do not count its system
-- calls (core/counts/own_calls.h).
local core = require "perf.core"

local function leave_section(ok, ...)
  core.own_section(false)
  if not ok then error((...), 0) end
  return ...
end

-- @return what fn returns; its error passes through
return function(fn, arg)
  if not core.own_section(true) then return fn(arg) end
  return leave_section(pcall(fn, arg))
end
