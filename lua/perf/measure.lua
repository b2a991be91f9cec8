--- perf.measure: what a function costs, in events.
--
-- The events of a list are opened on its first use and stay open; later measurements find them by one look-up and
-- cost two reads. They count the thread that opened them, so they are kept by thread, and a fork starts anew.
--
-- A list becomes as few kernel groups as possible: one for each PMU, split again where the counters do not suffice, so that
-- every event gets its turn and those of one group are compared over the same instants.
-- @module perf.measure
local core = require "perf.core"
local counts = require "perf.counts"
local fast = require "perf.fast"
local kernel_group = require "perf.group"
local open = require "perf.open"

local M = {}

local begin, finish, thread_token = fast.begin, fast.finish, fast.thread_token

local HARDWARE = { "cycles", "instructions", "branches", "branch-misses", "cache-references", "cache-misses" }
local SOFTWARE = { "task-clock", "page-faults", "context-switches", "cpu-migrations" }
local MOST_SETS = 64 -- lists kept open in one thread: a program that invents names must not run out of descriptors

---------------------------------------------------------------------------------------------------------------------
-- Opening a list

-- Events of one key may share a kernel group: the software ones all together, a PMU's own among themselves.
local function group_key(attr)
  if not open.is_hardware(attr) then return "software" end
  local kind = attr.type
  if kind == "hardware" or kind == "hw_cache" or kind == 0 or kind == 3 then
    local _, pmu = core.halves(attr.config or 0)
    return pmu ~= 0 and pmu or "cpu"
  end
  return (kind == "raw" or kind == 4) and "cpu" or kind
end

local function open_member(spec, attr, leader)
  local a = open.copy(attr)
  -- The leader waits until its group is complete. Linux 6.18 leaves a clock that joins a running group of another
  -- software PMU unscheduled until the next context switch: it would count nothing.
  a.read_format, a.disabled = kernel_group.format, leader == nil
  return open.attr(spec, a, { group = leader })
end

-- Open all parts of one key as groups. parts: {{spec=, attr=, row=, slot=}, ...}. Appends to groups the arrays of parts with
-- .event set. Returns true, or nil, message, code, part.
local function open_groups(parts, groups, most)
  local current
  for _, part in ipairs(parts) do
    local ev, message, code
    if current and #current < most then
      ev = open_member(part.spec, part.attr, current[1].event)
    end
    if not ev then
      -- It does not fit beside the others, or not at all: a group of its own tells.
      ev, message, code = open_member(part.spec, part.attr, nil)
      if not ev then return nil, message, code, part end
      current = {}
      groups[#groups + 1] = current
    end
    part.event = ev
    current[#current + 1] = part
  end
  return true
end

local function close_group(group)
  for i = #group, 1, -1 do
    if group[i].event then group[i].event:close() end
    group[i].event = nil
  end
end

-- A kernel may accept a group that its counters cannot hold together; it then never runs. Such a group is opened again
-- in halves.
local function starves(group)
  if #group < 2 or not open.is_hardware(group[1].attr) then return false end
  local leader = group[1].event
  leader:enable()
  local scan = leader:scan()
  leader:disable()
  return scan and scan[1] and scan.running_ns == 0 and scan.enabled_ns ~= 0
end

local function split_starving(groups)
  local i = 1
  while i <= #groups do
    local group = groups[i]
    if starves(group) then
      close_group(group)
      table.remove(groups, i)
      local ok, message, code = open_groups(group, groups, math.ceil(#group / 2))
      if not ok then return nil, message, code end
    else
      i = i + 1
    end
  end
  return true
end

-- specs: what names.resolve gives. Returns a set, or nil, message, code.
local function open_set(specs, source)
  local keys, parts, groups, rows = {}, {}, {}, {}
  for i, spec in ipairs(specs) do
    rows[i] = { label = spec.label, unit = spec.unit, scale = spec.scale, slots = {}, why = spec.why }
    for _, attr in ipairs(spec.attrs) do
      local key = group_key(attr)
      if not parts[key] then
        parts[key] = {}
        keys[#keys + 1] = key
      end
      table.insert(parts[key], { spec = spec, attr = attr, row = rows[i] })
    end
  end
  local function abandon(message, code)
    for _, group in ipairs(groups) do close_group(group) end
    return nil, message, code
  end
  for _, key in ipairs(keys) do
    local ok, message, code = open_groups(parts[key], groups, 128)
    if not ok then return abandon(message, code) end
  end
  local ok, message, code = split_starving(groups)
  if not ok then return abandon(message, code) end

  local members, value = {}, 0
  for g, group in ipairs(groups) do
    local events = {}
    for i, part in ipairs(group) do
      events[i] = part.event
      part.row.why = part.row.why or part.event:info().why
      table.insert(part.row.slots, { g - 1, value })
      value = value + 1
    end
    members[g] = kernel_group.gather(events, true)
    source = source or (open.source(events) == "hardware" and "hardware") or nil
  end
  local meter = core.meter(members)
  return { meter = meter, words = meter:words(), layout = counts.layout(rows, #groups, source or "software"),
    groups = members }
end

---------------------------------------------------------------------------------------------------------------------
-- The default list

local refused = { EPERM = true, EACCES = true, ENOSYS = true }

-- The kernel's accounting: the order of the values is that of csrc/core/usage.h.
local function usage_set()
  local rows = {
    { label = "task-clock", unit = "ns", slots = { { 0, 0 } } },
    { label = "page-faults", slots = { { 0, 1 } } },
    { label = "context-switches", slots = { { 0, 2 } } },
    { label = "cpu-migrations", slots = { { 0, 2 } }, why = "the kernel's accounting of a thread does not have it" },
  }
  local meter = core.meter {}
  return { meter = meter, words = meter:words(), layout = counts.layout(rows, 0, "rusage"), groups = {} }
end

local function open_default()
  local resolve = require "perf.names".resolve
  local user_only = false
  -- Open and close, to learn what this machine counts; in user space alone where that is all that is allowed.
  local function probe(spec)
    local attrs = {}
    for i, attr in ipairs(spec.attrs) do
      local a = open.copy(attr)
      if user_only then a.exclude_kernel = true end
      attrs[i] = a
      local ev, message, code = core.open(a, 0, -1)
      if not ev and code == "EACCES" and not user_only then
        a.exclude_kernel = true
        ev, message, code = core.open(a, 0, -1)
        user_only = ev ~= nil
      end
      if not ev then return nil, message, code end
      ev:close()
    end
    local copy = open.copy(spec)
    copy.attrs = attrs
    return copy
  end

  local specs = {}
  local software, message, code = probe(resolve(SOFTWARE[1]))
  if not software then
    if refused[code] then return usage_set() end
    return nil, message, code
  end
  for _, name in ipairs(HARDWARE) do
    local spec = probe(resolve(name))
    if not spec and name == "cycles" then break end -- a machine that cannot count cycles counts none of them
    specs[#specs + 1] = spec
  end
  local source = #specs > 0 and "hardware" or "software"
  for _, name in ipairs(SOFTWARE) do
    specs[#specs + 1] = probe(resolve(name))
  end
  return open_set(specs, source)
end

---------------------------------------------------------------------------------------------------------------------
-- Finding a list again

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

local function fail(message, code)
  -- The code is at the end so that a caller who catches it can tell EACCES from ENOENT.
  error(("%s [%s]"):format(message, code), 0)
end

local function open_list(key, list)
  if #list == 0 then error("bad argument #1 to 'measure' (the list has no event)", 4) end
  if #list > 256 then error(("bad argument #1 to 'measure' (%d events; a list has at most 256)"):format(#list), 4) end
  local specs, message, code = resolve_list(list)
  local set
  if specs then set, message, code = open_set(specs) end
  if not set then fail(message, code) end
  return remember(key, set)
end

-- A table's set, as long as the table says what it said when it was first seen.
local function find_table(list)
  local known = tables[list]
  if known and #known.items == #list then
    local same = true
    for i = 1, #list do same = same and known.items[i] == list[i] end
    if same then return known.set end
  end
  local items, set = {}
  for i = 1, #list do items[i] = list[i] end
  local names, plain = {}, true
  for i, v in ipairs(items) do
    plain = plain and type(v) == "string"
    names[i] = v
  end
  if plain and #names > 0 then
    local key = table.concat(names, ",")
    set = sets[key] or open_list(key, items)
  else
    set = open_list(list, items)
  end
  tables[list] = { items = items, set = set }
  return set
end

--- The open set of a list of events: meter, layout, words, groups.
-- @param events nil, a string or a table
function M.find(events)
  local token = thread_token()
  if token ~= current_token then new_thread(token) end
  local set = sets[events]
  if set then return set end
  if type(events) == "string" then return open_list(events, kernel_group.events_of(events)) end
  if type(events) == "table" and events ~= DEFAULT then return find_table(events) end
  if events ~= DEFAULT then
    error(("bad argument #1 to 'measure' (list of events or function expected, got %s)"):format(type(events)), 3)
  end
  local default, message, code = open_default()
  if not default then fail(message, code) end
  return remember(DEFAULT, default)
end

local find = M.find

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

--- Like `measure`'s look-up, for those who bracket by hand: the default list's set.
function M.default() return find(DEFAULT) end

return M
