-- Closing the idle lists of perf.measure when another open needs their resources.
--
-- A list is idle when no measurement of it runs, in any coroutine, and nothing holds it (perf.bench between its runs, a paused
-- span). The meter counts the measurements that have begun but not ended, which costs the measurement nothing. But a measurement
-- that an error ended stays in that count. So if no list is idle by the count, the garbage collector decides: a running
-- measurement has a reference to its meter, on its stack or in its span, while the caches of perf.measure drop their references.
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"

local M = {}

local weak_keys, weak_values, weak_both = { __mode = "k" }, { __mode = "v" }, { __mode = "kv" }

local holders = setmetatable({}, weak_keys) -- meter, which the copies of a set share -> {holder = true}, if it ever had a holder

-- Keep a list open even while nothing measures it: until `drop`, or until the holder is collected.
-- @param set returned by perf.measure's `lookup`
-- @param holder a table
function M.hold(set, holder)
  local all = holders[set.meter] or setmetatable({}, weak_keys)
  holders[set.meter], all[holder] = all, true
end

-- The holder no longer needs the list.
function M.drop(set, holder)
  local all = holders[set.meter]
  if all then all[holder] = nil end
end

local function is_held(set)
  local all = holders[set.meter]
  return all ~= nil and next(all) ~= nil
end

-- Remove a list from the caches of its thread; it is closed when nothing refers to it any more.
local function forget(mine, key, released)
  local sets, order = mine.sets, mine.order
  local lists = sets[key].lists
  if lists then
    for list in pairs_of(lists) do
      if released and sets[list] then sets[list].released = true end
      sets[list] = nil
    end
  end
  sets[key] = nil
  for i = #order, 1, -1 do
    if order[i] == key then
      table.remove(order, i)
      break
    end
  end
end

M.forget = forget

-- Close groups event by event: the method Group:close is in perf.event.group, which cannot be loaded without a free descriptor.
local function close_groups(groups)
  for _, group in ipairs(groups) do
    if getmetatable(group) == core.Group then
      local events = group:members()
      for i = #events, 1, -1 do events[i]:close() end
    else
      group:close()
    end
  end
end

-- Close a list. Its set, which callers may still have, gets `released`.
-- @param mine {sets=, order=} of its thread
-- @param key its key in both
function M.close(mine, key)
  local set = mine.sets[key]
  forget(mine, key, true)
  set.released = true
  set.meter:forget() -- a measurement that still runs raises
  close_groups(set.groups)
end

-- Close the idle list that was used least recently.
-- @param threads array or map of {sets=, order=}
-- @param what the resource that the list must hold: a key of set.takes
-- @return whether there was one
function M.close_oldest(threads, what)
  local oldest, where, which
  for _, mine in pairs_of(threads) do
    for _, key in ipairs(mine.order) do
      local set = mine.sets[key]
      local running, at = set.meter:used()
      if running == 0 and set.takes[what] and not is_held(set) and (not oldest or at < oldest) then
        oldest, where, which = at, mine, key
      end
    end
  end
  if not oldest then return false end
  M.close(where, which)
  return true
end

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
  for _, g in ipairs(gone) do forget(g.mine, g.key) end
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

-- Close the lists whose measurements will never end. Collects garbage.
-- @param threads as for close_oldest
-- @param what as for close_oldest
-- @param complete function(set, key): add to a new set what perf.measure needs besides its meter
-- @return whether there was one
function M.close_abandoned(threads, what, complete)
  local gone = let_go(threads, what)
  if not gone[1] then return false end
  collectgarbage()
  collectgarbage() -- frees what the first one finalized
  local closed = false
  for _, g in ipairs(gone) do
    if g.alive.meter then
      take_back(g, complete)
    else
      close_groups(g.fields.groups)
      closed = true
    end
  end
  return closed
end

return M
