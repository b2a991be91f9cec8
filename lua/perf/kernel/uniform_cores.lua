-- Whether all cores of the CPU are of one kind. If a PMU is named "cpu", the cores have no other PMU (see Pmus:cores). So on most
-- x86 machines perf.kernel.pmu is not loaded. It takes 70 KB of memory, with what it keeps about the PMUs.
local late = require "perf.base.late"
local reclaim = require "perf.base.reclaim"

local named_cpu = false

return function()
  if named_cpu then return true end
  local file = reclaim.open_file "/sys/bus/event_source/devices/cpu/type"
  if not file then return #late "perf.kernel.pmu".here:cores() == 1 end
  file:close()
  named_cpu = true
  return true
end
