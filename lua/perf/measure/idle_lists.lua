-- Closing the idle lists of perf.measure when another open needs their resources.
--
-- A list is idle when no measurement of it runs, in any coroutine, and nothing holds it (perf.bench between its runs, a paused
-- span). The meter counts the measurements that have begun but not ended, which costs the measurement nothing.
local core = require "perf.core"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"

local M = {}

local weak_keys = { __mode = "k" }

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
function M.close_groups(groups)
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
  M.close_groups(set.groups)
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

-- Close the lists whose measurements will never end: see perf.measure.abandoned.
function M.close_abandoned(...) return late "perf.measure.abandoned".close(...) end

return M
