-- The samples of a profile in the order of their times, as a tree for the flame graph: a node is a call that lasts over
-- consecutive samples, so one caller may have several nodes with the same frame, one after the other.
local text = require "perf.profile.report.frame_names"

local M = {}

-- Make the tree, whose nodes are numbered in preorder; node 1 is the root.
-- @param prof a Profile with a timeline
-- @func id_of the number of a frame
-- @func id_of_zone the number of a zone
-- @func pause called now and then
-- @treturn table arrays by node: `frame` (its number), `depth`, `own` (weight), `count` (samples), `gap` (the weight
-- of its caller alone, between the call before it and this one)
function M.tree(prof, id_of, id_of_zone, pause)
  local frame, depth, own, count, gap = { 0 }, { 0 }, { 0 }, { 0 }, { 0 }
  local open, deep, n = { [0] = 1 }, 0, 1 -- open[d]: the node of the last sample at depth d
  local told = { 0 } -- by node: the part of its weight that is the gap of a call
  for moment in prof:timeline() do
    local stack, at, same = moment.stack, 0, true
    local function step(id)
      at = at + 1
      same = same and at <= deep and frame[open[at]] == id
      if same then return end
      n = n + 1
      local caller = open[at - 1]
      open[at], frame[n], depth[n], own[n], count[n], told[n] = n, id, at, 0, 0, 0
      gap[n], told[caller] = own[caller] - told[caller], own[caller]
    end
    if moment.zone then step(id_of_zone(moment.zone)) end
    for i = #stack, 1, -1 do step(id_of(stack[i])) end
    deep = at
    local node = open[at]
    own[node], count[node] = own[node] + text.number(moment.weight), count[node] + 1
    pause()
  end
  return { n = n, frame = frame, depth = depth, own = own, count = count, gap = gap }
end

return M
