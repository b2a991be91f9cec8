--- The events of a list are opened on its first use and stay open; later measurements find them by one look-up and cost two
-- reads. They count the thread that opened them, so they are kept for each thread, and a fork starts anew.
-- @module perf.measure
local late = require "perf.base.late"
local core = require "perf.core"
local errors = require "perf.base.errors"
local counts_read = require "perf.counts.read"
local idle_lists = require "perf.measure.idle_lists"
local lists = require "perf.measure.open_list"
local prewarm = require "perf.event.prewarm"
local reclaim = require "perf.base.reclaim"
local uncounted = require "perf.event.uncounted"

local M = {}

local begin, try, finish, thread_token = counts_read.begin, counts_read.try, counts_read.finish, counts_read.thread_token
local measurer = counts_read.measurer

local MOST_SETS = 64 -- lists kept open in one thread: a program that generates names must not run out of descriptors

local DEFAULT = {} -- the key of the default list
local weak_keys = { __mode = "k" }

local by_thread, generation = {}, core.fork_generation()
local current_token -- the thread that measured last
local sets = {} -- its open lists: by text, by the table that was passed, and the default one
local opened, many = {}, 0 -- text, or DEFAULT -> the set of that list when it was last opened, in any thread

local function new_thread(token)
  local g = core.fork_generation()
  if g ~= generation then
    -- In the child of a fork, the parent's events count the parent. They are dropped, not closed, since a measurement during
    -- which the fork happened may still use them.
    by_thread, generation = {}, g
  end
  local mine = by_thread[token]
  if not mine then
    mine = { sets = setmetatable({}, weak_keys), order = {} }
    by_thread[token] = mine
  end
  current_token, sets = token, mine.sets
end

local measure_slowly

local function complete(set, key)
  if measurer then set.measure = measurer(set.meter, set.layout, key == DEFAULT and 1 or 2, measure_slowly) end
  return set
end

reclaim.register(function(what)
  return idle_lists.close_oldest(by_thread, what) or idle_lists.close_abandoned(by_thread, what, complete)
end, true)

local function record(mine, key, set)
  mine.sets[key] = set
  mine.order[#mine.order + 1] = key
end

local function remember(key, set)
  local mine = by_thread[current_token]
  if #mine.order >= MOST_SETS and not idle_lists.close_oldest({ mine }, "any") then idle_lists.forget(mine, mine.order[1]) end
  local ok, err = pcall(record, mine, key, complete(set, key))
  if not ok then -- out of memory; a set in only one of the two tables would never be closed
    sets[key] = nil
    error(err, 0)
  end
  return set
end

M.hold, M.drop = idle_lists.hold, idle_lists.drop

-- Open a list that was opened before, without resolving its names.
local function open_again(key)
  local set = opened[key] and lists.reopen(opened[key])
  return set and remember(key, set)
end

local function note(key, set)
  if set.plan and (type(key) == "string" or key == DEFAULT) then
    if many >= 4 * MOST_SETS then opened, many = {}, 0 end
    opened[key] = { words = set.words, layout = set.layout, plan = set.plan }
    many = many + 1
  end
  return remember(key, set)
end

-- Whether an array is unchanged. There is no loop for short arrays: LuaJIT would compile it separately from a loop of the caller.
local function same_items(items, list)
  if items[1] ~= list[1] or items[2] ~= list[2] or items[3] ~= list[3] or items[4] ~= list[4] or items[5] ~= list[5] then
    return false
  end
  for i = 6, items[5] == nil and 5 or #items + 1 do
    if items[i] ~= list[i] then return false end
  end
  return true
end

-- The set of a list that is open and unchanged, by one look-up without a call.
local function known_set(events)
  local set = sets[events]
  if set and not set.fields and (not set.items or same_items(set.items, events)) then return set end
end

local function requested() return late "perf.measure.requested" end

local function open_any(events)
  local known = open_again(events)
  if known then return known end
  if type(events) == "string" then return requested().of_text(events, note) end
  if events == DEFAULT then
    local set, message, code = lists.open_default()
    if not set then return nil, message, code end
    return note(DEFAULT, set)
  end
  if type(events) == "table" then return requested().of_table(events, sets, open_again, note) end
  errors.raise("list of events expected, got " .. type(events))
end

-- The open set of a list of events: meter, layout, words, groups.
-- @param[opt] events nil for the default list, a string or a table
-- @return set; or nil, message, code when the machine refuses it. Raises for an unknown event.
function M.lookup(events)
  local token = thread_token()
  if token ~= current_token then new_thread(token) end
  if events == nil then events = DEFAULT end
  local known = known_set(events)
  if known then return known end
  return uncounted(open_any, events)
end

-- The same for M.measure, which raises. The message ends with the code, so that a caller can tell EACCES from ENOENT.
local function find(events)
  local set, message, code = M.lookup(events)
  if not set then error(("%s [%s]"):format(message, code), 0) end
  return set
end

local function call(fn, ...) return fn(...) end

-- Called with all arguments, since `(...)` is wrong in some traces of LuaJIT (spec/regress/measure/first_vararg_spec.lua), and
-- LuaJIT does not compile a call that passes all of them on.
local function check_arguments(first, fn)
  if first ~= nil and first == package.loaded.perf then errors.raise_colon() end
  if type(first) ~= "string" and type(first) ~= "table" then
    errors.raise("list of events or function expected, got " .. type(first))
  end
  if not errors.is_callable(fn) then errors.raise("function expected, got " .. type(fn), 2, "measure") end
end

-- The slow path of M.measure: lists that are not open in this thread, callable objects, mistakes.
function measure_slowly(first, ...)
  if errors.is_callable(first) then
    local set = find(DEFAULT)
    return finish(set.meter, begin(set.meter, set.layout, set.words), first(...))
  end
  check_arguments(first, ...)
  local set = find(first)
  return finish(set.meter, begin(set.meter, set.layout, set.words), call(...))
end

errors.public_names[measure_slowly] = "measure" -- M.measure calls it in tail position

--- Run a function; return its Counts, then its results. They count the events that the function causes, without the system calls
-- by which this measurement and those within it read.
-- @function perf.measure
-- @tparam[opt] string|table events "cycles:u,page-faults", or an array of names and attr tables. Without it: cycles,
-- instructions, branches, branch-misses, cache-references and cache-misses if the machine counts them, and task-clock,
-- page-faults, context-switches and cpu-migrations; if `perf_event_open` is refused, the latter from the kernel's accounting.
-- @tparam function fn it may yield; other work of the thread in that time is then counted too
-- @tparam any ... its arguments
-- @treturn Counts then the function's results
-- @raise the function's error unchanged; and for an unknown event, or if the machine refuses one
M.measure = measurer and function(first, ...)
  -- There are only look-ups here: set.measure checks that the set belongs to this thread, and the function. A function is never
  -- a key of `sets`, so a key that is found is a list.
  local set = sets[first]
  if not set then
    set = sets[DEFAULT]
    if set then return set.measure(first, ...) end
  elseif not set.fields then
    local items = set.items
    -- Most lists are short: this saves a call.
    if not items or items[1] == first[1] and items[2] == first[2] and items[3] == first[3] and items[4] == first[4]
      and items[5] == nil and first[5] == nil or same_items(items, first) then return set.measure(first, ...) end
  end
  return measure_slowly(first, ...)
end or function(first, ...) -- the same by two calls
  local set = sets[first]
  if not set then
    set = sets[DEFAULT]
    local c = set and try(set.meter, set.layout, set.words, first)
    if c then return finish(set.meter, c, first(...)) end
  elseif not set.fields and (not set.items or same_items(set.items, first)) then
    local c = try(set.meter, set.layout, set.words, (...))
    if c then return finish(set.meter, c, call(...)) end
  end
  return measure_slowly(first, ...)
end

-- Close the open lists of the calling thread; the next use opens them again.
function M._release()
  local mine = by_thread[current_token]
  if not mine then return end
  while mine.order[1] do idle_lists.close(mine, mine.order[#mine.order]) end
  by_thread = { [current_token] = mine }
end

--- Close the events that stay open between calls: the lists that the calling thread has measured, and one event of each kind.
-- They are opened again when they are needed.
-- @function perf.release
function M.release()
  M._release()
  prewarm._release()
end

return M
