--- The statistics of a candidate of perf.bench, for specs of its pages.
local statistics = require "perf.bench.statistics"

-- @param values the runs
-- @param[opt] fields replace those that the values have
return function(values, fields)
  local v = statistics.summary(values)
  v.values = values
  for k, x in pairs(fields or {}) do v[k] = x end
  return v
end
