-- The changes from one snapshot to a later one: by type, and by path. A path of one snapshot is followed in the other one, step
-- by step. So places are compared, even if they have other objects now. If the other snapshot does not have the place, the object
-- may have moved from another place, so it is searched by its address.
local path = require "perf.heap.path"
local printed = require "perf.base.printed"
local report = require "perf.heap.report"
local rows = require "perf.heap.rows"

local M = {}

--- The changes from one `Heap` to a later one; prints as tables.
-- @type HeapDifference
local HeapDifference = {}
HeapDifference.__index = HeapDifference
HeapDifference.__name = "perf.HeapDifference"

local function by(amount)
  return function(a, b)
    local x, y = amount(a.bytes), amount(b.bytes)
    if x ~= y then return x > y end
    return (a.path or a.type) < (b.path or b.type)
  end
end

-- The rows are those with the largest changes. What grew comes first: a large fall is often memory that is still there, but
-- that is held by two paths now, so neither retains it alone.
local largest_change, growth_first = by(math.abs), by(function(bytes) return bytes end)

local function types(new, old)
  local list, by_type = {}, {}
  local function add(heap, sign)
    for _, row in ipairs(heap:types()) do
      local sum = by_type[row.type]
      if not sum then
        sum = { type = row.type, bytes = 0 }
        by_type[row.type], list[#list + 1] = sum, sum
      end
      sum.bytes = sum.bytes + sign * row.bytes
      if row.count then sum.count = (sum.count or 0) + sign * row.count end
    end
  end
  add(new, 1)
  add(old, -1)
  for k = #list, 1, -1 do
    if list[k].bytes == 0 and (list[k].count or 0) == 0 then table.remove(list, k) end
  end
  table.sort(list, growth_first)
  return list
end

-- Shared memory does not count: it moves from one path to another when a shorter one appears.
local function size(snapshot, i)
  local _, _, retained = snapshot:object(i)
  return retained
end

local LOOKED_AT = 2000 -- the largest objects of each snapshot

-- Add the rows of the largest objects of one snapshot, with the change to the same place in the other snapshot.
-- @param sign -1 if the other snapshot is the later one
-- @param seen the paths that have been compared. An upvalue has the path of its value, so its name gets an addition
-- @param list the rows
-- @param known objects of `one` that have been compared already, since they were found by their addresses
-- @return the objects of `other` that were found by their addresses
local function changes(one, other, sign, seen, list, known)
  local of, change, moved = {}, {}, {}
  for _, i in ipairs(rows.chosen(one, one:choose(LOOKED_AT))) do
    local name, steps = path.of(one, i)
    if one:object(i) == "upvalue" then name = name .. " > its upvalue" end
    if not seen[name] and not known[i] then
      seen[name] = true
      local there = path.follow(one, steps, other)
      if not there then
        there = one:same(i, other)
        if there then moved[there] = true end
      end
      local here, before = size(one, i), there and size(other, there) or 0
      if here ~= before then
        of[#of + 1], change[i] = i, sign * (here - before)
      end
    end
  end
  for _, i in ipairs(rows.without_passages(one, of, function(i) return change[i] end)) do
    local row = rows.row(one, i)
    local here, there = row.retained, row.retained - sign * change[i]
    list[#list + 1] = { path = row.path, type = row.type, what = row.what, bytes = change[i],
      before = sign == 1 and there or here, after = sign == 1 and here or there }
  end
  return moved
end

function M.new(new, old, n)
  local list, seen = {}, {}
  local moved = changes(new.snapshot, old.snapshot, 1, seen, list, {})
  changes(old.snapshot, new.snapshot, -1, seen, list, moved)
  table.sort(list, largest_change)
  for k = #list, n + 1, -1 do list[k] = nil end
  table.sort(list, growth_first)
  return setmetatable({ total = new.total - old.total, types = printed.rows(types(new, old)), paths = printed.rows(list) },
    HeapDifference)
end

function HeapDifference:__tostring() return report.difference(self) end

return M
