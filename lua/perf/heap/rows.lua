-- The rows of a Heap's tables.
local pairs_of = require "perf.base.pairs"
local path = require "perf.heap.path"
local printed = require "perf.base.printed"

local M = {}

local parts = { state = "(state)", strings = "(table of strings)", buffer = "(string buffer)", compiler = "(JIT compiler)",
  ctypes = "(C types)", pointers = "(light userdata)", unknown = "(unknown)" }

local function larger(a, b)
  if a.bytes ~= b.bytes then return a.bytes > b.bytes end
  return a.type < b.type
end

function M.types(sums)
  local rows = {}
  for kind, sum in pairs_of(sums.types) do rows[#rows + 1] = { type = kind, count = sum[1], bytes = sum[2] } end
  for part, bytes in pairs_of(sums.parts) do rows[#rows + 1] = { type = parts[part], bytes = bytes } end
  if sums.dead_objects > 0 then rows[#rows + 1] = { type = "(garbage)", count = sums.dead_objects, bytes = sums.dead } end
  table.sort(rows, larger)
  return printed.rows(rows)
end

-- The row of an object.
function M.row(snapshot, i)
  local kind, bytes, retained, shared = snapshot:object(i)
  return printed.table { path = (path.of(snapshot, i)), type = kind, what = path.what(snapshot, i), bytes = bytes,
    retained = retained, shared = shared, object = i }
end

local MOST_OF = 0.8 -- an object that leads to one which has this share of it says nothing more
local NEAREST = 64 -- steps of a path that are looked at

-- Leave out each object that leads to an object with most of its size or change.
-- @param list the numbers of objects
-- @tparam function size_of of an object; may be negative
-- @param[opt] pause called after each object
function M.without_passages(snapshot, list, size_of, pause)
  local best, kept = {}, {}
  for _, i in ipairs(list) do
    if pause then pause() end
    local size, at, steps = math.abs(size_of(i)), i, 0
    local _, _, _, _, _, edge = snapshot:object(at)
    while edge and at ~= 0 and steps < NEAREST do
      at = snapshot:edge(edge)
      best[at] = math.max(best[at] or 0, size)
      steps, _, _, _, _, _, edge = steps + 1, snapshot:object(at)
    end
  end
  for _, i in ipairs(list) do
    if (best[i] or 0) < MOST_OF * math.abs(size_of(i)) then kept[#kept + 1] = i end
    if pause then pause() end
  end
  return kept
end

local function size(snapshot, i)
  local _, _, retained, shared = snapshot:object(i)
  return retained + shared
end

local WORK, ALL = 2e4, 2 ^ 50 -- between two pauses, 0.2 ms; without pauses

-- The n largest objects, the largest first.
-- @param choice a result of snapshot:choose
-- @param[opt] pause called now and then
function M.chosen(snapshot, choice, pause)
  local list
  repeat
    list = snapshot:go_on(choice, pause and WORK or ALL)
    if pause then pause() end
  until list
  return list
end

-- The rows of the n paths that lead to the most memory.
-- @param[opt] pause called now and then
function M.paths(snapshot, n, pause)
  local list = M.chosen(snapshot, snapshot:choose(n * 4 + 100), pause)
  list = M.without_passages(snapshot, list, function(i) return size(snapshot, i) end, pause)
  local rows = {}
  for k = 1, math.min(n, #list) do
    rows[k] = M.row(snapshot, list[k])
    if pause then pause() end
  end
  return printed.table(rows)
end

local HOLDERS = 20

function M.who(snapshot, i)
  local row = M.row(snapshot, i)
  row.holders = {}
  for _, edge in ipairs(snapshot:holders(i, HOLDERS)) do
    row.holders[#row.holders + 1] = path.through(snapshot, edge, i)
  end
  return row
end

return M
