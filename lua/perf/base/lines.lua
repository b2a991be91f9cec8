-- The metatable of an array that prints as its elements, one on each line; of a long one, as the first of them.
local format = require "perf.base.format"

local MOST = 100 -- lines

return {
  __tostring = function(array)
    local lines = {}
    for i = 1, math.min(#array, MOST) do lines[i] = tostring(array[i]) end
    if #array > MOST then lines[#lines + 1] = ("... and %s"):format(format.count(#array - MOST, "other")) end
    return table.concat(lines, "\n")
  end,
}
