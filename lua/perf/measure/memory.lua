-- The events lua-alloc-bytes and lua-alloc-blocks in a list of perf.measure.
local core = require "perf.core"

local M = {}

local MOST = 128 -- events of one reader

-- Open readers of the counts of this Lua state's allocator, as the last groups.
-- @param wanted array of {row=, field=} for these events
-- @param members the groups; appended to
-- @param value the number of their first value
function M.open(wanted, members, value)
  for first = 1, #wanted, MOST do
    local fields = {}
    for i = first, math.min(first + MOST - 1, #wanted) do
      fields[#fields + 1], wanted[i].row.slots[1] = wanted[i].field, { #members, value + i - 1 }
    end
    local blocks, message, code = core.blocks(fields)
    if not blocks then return nil, ("%s: %s"):format(wanted[first].row.label, message), code end
    members[#members + 1] = blocks
  end
  return true
end

return M
