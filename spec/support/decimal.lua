--- Converts a 64-bit value of the module to the digits of an unsigned number.
local core = require "perf.core"

return function(v)
  local lo, hi = core.halves(v)
  local out = {}
  repeat
    -- Long division by 10^6, whose remainder times 2^32 a double holds exactly.
    local q = math.floor(hi / 1e6)
    local rest = (hi - q * 1e6) * 4294967296 + lo
    hi = q
    lo = math.floor(rest / 1e6)
    table.insert(out, 1, ("%06.0f"):format(rest - lo * 1e6))
  until hi == 0 and lo == 0
  return (table.concat(out):gsub("^0+(%d)", "%1"))
end
