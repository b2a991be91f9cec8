-- Resolves the kernel's own names of events. perf.names, which takes 180 KB of memory with its tables, is not loaded for them.
local core = require "perf.core"
local late = require "perf.base.late"

local HARDWARE = 0

-- @param name any value
-- @return the same as names.resolve, without kind and description; nil for everything but a generic name. On a CPU with several
-- kinds of cores it is also nil for a hardware event, which then has the numbers of PMUs in its configs
return function(name)
  if type(name) ~= "string" then return nil end
  local kind, config, unit = core.generic(name)
  if not kind or kind == HARDWARE and not late "perf.kernel.uniform_cores"() then return nil end
  return { label = name, unit = unit, attrs = { { type = kind, config = config } } }
end
