-- Closing the lists of perf.measure whose measurements will never end.
--
-- A meter counts the measurements that have begun but not ended. If an error ends a measurement, the measurement stays in that
-- count. So if no list is idle by the count, the garbage collector decides: a running measurement has a reference to its meter,
-- on its stack or in its span, while the caches of perf.measure drop their references.
local idle_lists = require "perf.measure.idle_lists"
local pairs_of = require "perf.base.pairs"

local M = {}

local weak_keys, weak_values, weak_both = { __mode = "k" }, { __mode = "v" }, { __mode = "kv" }

-- Remove the lists whose measurements have not ended from the caches, and keep what is needed to put them back. This is a
-- separate function so that no reference to them stays on the stack.
local function let_go(threads, what)
  local gone = {}
  for _, mine in pairs_of(threads) do
    for _, key in ipairs(mine.order) do
      local set = mine.sets[key]
      if set.meter:used() > 0 and set.takes[what] then
        local g = { mine = mine, key = key, fields = {}, terms = setmetatable({}, weak_keys),
          alive = setmetatable({ meter = set.meter, set = set }, weak_values), copies = setmetatable({}, weak_both) }
        for field, v in pairs_of(set) do
          if field ~= "meter" and field ~= "measure" then g.fields[field] = v end
        end
        for list in pairs_of(set.lists or {}) do
          local copy = mine.sets[list]
          if copy then g.copies[list], g.terms[list] = copy, { items = copy.items, fields = copy.fields } end
        end
        gone[#gone + 1] = g
      end
    end
  end
  for _, g in ipairs(gone) do idle_lists.forget(g.mine, g.key) end
  return gone
end

local function take_back(g, complete)
  local function whole(set, fields)
    for field, v in pairs_of(fields) do set[field] = v end
    set.meter = g.alive.meter
    return complete(set, g.key)
  end
  if g.mine.sets[g.key] then return end -- a finalizer has opened it again
  local set = g.alive.set or whole({}, g.fields)
  g.mine.sets[g.key] = set
  g.mine.order[#g.mine.order + 1] = g.key
  for list, terms in pairs_of(g.terms) do
    local copy = g.copies[list]
    if not copy then
      copy = whole({}, g.fields)
      copy.items, copy.fields = terms.items, terms.fields
    end
    g.mine.sets[list] = copy
  end
end

-- Close the lists whose measurements will never end. This collects garbage.
-- @param threads as for idle_lists.close_oldest
-- @param what as for idle_lists.close_oldest
-- @param complete function(set, key): add to a new set what perf.measure needs besides its meter
-- @return whether there was one
function M.close(threads, what, complete)
  local gone = let_go(threads, what)
  if not gone[1] then return false end
  collectgarbage()
  collectgarbage() -- frees what the first one finalized
  local closed = false
  for _, g in ipairs(gone) do
    if g.alive.meter then
      take_back(g, complete)
    else
      idle_lists.close_groups(g.fields.groups)
      closed = true
    end
  end
  return closed
end

return M
