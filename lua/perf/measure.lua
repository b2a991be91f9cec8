--- perf.measure: what a function costs, in events.
--
-- The events of a list are opened on its first use and stay open; later measurements find them by one look-up and
-- cost two reads. They count the thread that opened them, so they are kept by thread, and a fork starts anew.
-- @module perf.measure
local core = require "perf.core"
local fast = require "perf.fast"
local kernel_group = require "perf.group"
local meters = require "perf.meter"
local open = require "perf.open"

local M = {}

local begin, finish, thread_token = fast.begin, fast.finish, fast.thread_token

local MOST_SETS = 64 -- lists kept open in one thread: a program that invents names must not run out of descriptors

local DEFAULT = {} -- the key of the default list

local by_thread, generation = {}, core.fork_generation()
local current_token, sets, tables -- the calling thread's

local function new_thread(token)
  local g = core.fork_generation()
  if g ~= generation then
    -- The child of a fork: what the parent opened counts the parent. Dropped, not closed, since a measurement that the
    -- fork happened in may still hold it.
    by_thread, generation = {}, g
  end
  local mine = by_thread[token]
  if not mine then
    mine = { sets = {}, order = {}, tables = setmetatable({}, { __mode = "k" }) }
    by_thread[token] = mine
  end
  current_token, sets, tables = token, mine.sets, mine.tables
end

local function remember(key, set)
  local order = by_thread[current_token].order
  if #order >= MOST_SETS then sets[table.remove(order, 1)] = nil end
  order[#order + 1] = key
  sets[key] = set
  return set
end

local function resolve_list(list)
  local names = require "perf.names"
  local specs = {}
  for i, event in ipairs(list) do
    local spec, message, code = names.resolve(event)
    if not spec then return nil, message, code end
    specs[i] = spec
  end
  return specs
end

local function open_list(key, list)
  if #list == 0 then error("bad argument #1 to 'measure' (the list has no event)", 0) end
  if #list > 256 then error(("bad argument #1 to 'measure' (%d events; a list has at most 256)"):format(#list), 0) end
  local specs, message, code = resolve_list(list)
  if not specs then return nil, message, code end
  local set
  set, message, code = meters.open(specs)
  if not set then return nil, message, code end
  return remember(key, set)
end

local function same(a, b)
  for k, v in pairs(a) do
    if b[k] ~= v then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

-- A table's set, as long as the table says what it said when it was first seen. (A field changed within an attr of an array
-- is not noticed: put another table in its place.)
local function find_table(list)
  local known = tables[list]
  if known and same(known.copy, list) then return known.set end
  local copy, items, plain = open.copy(list), {}, #list > 0
  for i = 1, #list do
    items[i] = list[i]
    plain = plain and type(list[i]) == "string"
  end
  if #list == 0 and next(list) ~= nil then items[1] = copy end -- one event's attr
  local key = plain and table.concat(items, ",") or copy
  local set, message, code = sets[key]
  if not set then set, message, code = open_list(key, items) end
  if not set then return nil, message, code end
  tables[list] = { copy = copy, set = set }
  return set
end

--- The open set of a list of events: meter, layout, words, groups.
-- @param[opt] events nil for the default list, a string or a table
-- @return set; or nil, message, code when the machine refuses it. Raises for an unknown event.
function M.lookup(events)
  local token = thread_token()
  if token ~= current_token then new_thread(token) end
  if events == nil then events = DEFAULT end
  if sets[events] then return sets[events] end
  if type(events) == "string" then return open_list(events, kernel_group.events_of(events)) end
  if events == DEFAULT then
    local set, message, code = meters.open_default()
    if not set then return nil, message, code end
    return remember(DEFAULT, set)
  end
  if type(events) == "table" then return find_table(events) end
  error(("bad argument #1 to 'measure' (list of events or function expected, got %s)"):format(type(events)), 0)
end

-- The same for measuring, which raises: the code stands at the end, so that who catches it can tell EACCES from ENOENT.
local function find(events)
  if thread_token() == current_token then
    local set = sets[events]
    if set then return set end
  end
  local set, message, code = M.lookup(events)
  if not set then error(("%s [%s]"):format(message, code), 0) end
  return set
end

local function check_function(fn)
  if type(fn) ~= "function" then
    local mt = getmetatable(fn)
    if not (type(mt) == "table" and mt.__call) then
      error(("bad argument #2 to 'measure' (function expected, got %s)"):format(type(fn)), 4)
    end
  end
  return fn
end

local function measure_default(fn, ...)
  local set = find(DEFAULT)
  local meter = set.meter
  return finish(meter, begin(meter, set.layout, set.words), fn(...))
end

local function measure_list(events, fn, ...)
  if type(fn) ~= "function" then check_function(fn) end
  if events == nil then error("bad argument #1 to 'measure' (list of events or function expected, got nil)", 3) end
  local set = find(events)
  local meter = set.meter
  return finish(meter, begin(meter, set.layout, set.words), fn(...))
end

--- Count events while a function runs.
-- @param[opt] events a string "cycles:u,page-faults", or an array of names and attr tables. Without it: cycles, instructions,
-- branches, branch-misses, cache-references and cache-misses where the machine counts them, and task-clock, page-faults,
-- context-switches and cpu-migrations; where `perf_event_open` is refused, the latter from the kernel's accounting.
-- @param fn the function; it may yield, and what else the thread runs meanwhile is counted with it
-- @param ... its arguments
-- @return Counts, then the function's results. Raises the function's error unchanged, and raises when an event is unknown or
-- the machine refuses it.
function M.measure(...)
  local first = ...
  if type(first) == "function" then return measure_default(...) end
  return measure_list(...)
end

--- Close the lists that the calling thread has open; the next use opens them again.
function M._release()
  for _, set in pairs(sets or {}) do
    for _, group in ipairs(set.groups) do group:close() end
  end
  by_thread, current_token, sets, tables = {}, nil, nil, nil
end

return M
