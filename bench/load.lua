--- Prints the CPU time in nanoseconds of loading the module, and with "measure" also that of the first measurement.
local clock = os.clock
local start = clock()
local perf = require "perf"
if arg[1] == "measure" then perf.measure(function() end) end
print(("%.0f"):format((clock() - start) * 1e9))
