-- The keys of one or more tables as a sorted array.
local pairs_of = require "perf.base.pairs"

return function(...)
  local list = {}
  for i = 1, select("#", ...) do
    for key in pairs_of((select(i, ...))) do list[#list + 1] = key end
  end
  table.sort(list)
  return list
end
