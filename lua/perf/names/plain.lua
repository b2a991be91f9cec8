-- Resolves the kernel's own names of events without perf.names, which takes 180 KB of memory with its tables.
local core = require "perf.core"
local late = require "perf.base.late"

local HARDWARE = 0

-- @param name any value
-- @return the same as names.resolve, without kind and description; nil for any value that is not such a name. On a CPU with cores
-- of several kinds, also nil for a hardware event, since its configs then contain the numbers of PMUs
return function(name)
  if type(name) ~= "string" then return nil end
  local kind, config, unit = core.generic(name)
  if not kind or kind == HARDWARE and not late "perf.kernel.uniform_cores"() then return nil end
  return { label = name, unit = unit, attrs = { { type = kind, config = config } } }
end
