--- Prints the CPU time in nanoseconds of loading the module, and with "measure" also that of the first measurement; with "memory"
-- the bytes of Lua memory that remain.
local function memory()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count" * 1024
end

local clock = arg[2] == "memory" and memory or function() return os.clock() * 1e9 end
local start = clock()
local perf = require "perf"
if arg[1] == "measure" then perf.measure(function() end) end
print(("%.0f"):format(clock() - start))
