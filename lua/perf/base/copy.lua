-- A shallow copy of one or more tables: later ones override earlier ones, and nil is an empty table.
local pairs_of = require "perf.base.pairs"

return function(...)
  local copy = {}
  for i = 1, select("#", ...) do
    for key, value in pairs_of(select(i, ...) or {}) do copy[key] = value end
  end
  return copy
end
