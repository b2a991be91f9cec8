--- Counts: the result of a measurement.
--
-- A measurement should cost no more than two reads, so its result is only a block of 64-bit words (struct pf_counts of
-- csrc/core/counts/meter.h) and the number of a layout, which describes the words. Entries, scaled values and text are made when
-- they are used. There are two representations with the same behaviour:
--
--   packed   the words: a cdata on LuaJIT, a userdata on Lua 5.2 and later
--   plain    a table of entries: for results of arithmetic (perf.counts.arithmetic), and for everything on Lua 5.1, whose ipairs
--            accepts only tables
--
-- A first measurement needs none of this, so this module is loaded when a program first uses Counts (perf.counts.class).
-- @module perf.counts
local argument = require "perf.base.argument"
local core = require "perf.core"
local late = require "perf.base.late"
local interned = require "perf.counts.layouts"
local pairs_of = require "perf.base.pairs"
local readings = require "perf.counts.readings"

local setmetatable = setmetatable
local base_name, layouts = interned.base_name, interned.all
local word, layout_of, reset_of = readings.word, readings.layout, readings.reset_ns

local M = { layout = interned.layout, describe = interned.describe, is_packed = readings.is_packed }

--- The result of a measurement. `counts[label]` is the count, scaled to the whole time if the event shared its counter; nil if it
-- never counted. The label is the requested name; a modifier may be left off if that is unambiguous. ipairs gives an entry for
-- each event, in the requested order: `label`; `value`, `raw` (not scaled), in `unit` ("ns" for times); `enabled_ns`,
-- `running_ns`; `id`; `why`: the reason if there is no value, or what it leaves out.
--
-- `a - b`, `a + b` (of the same events), `c * n`, `c / n`, `-c` and `==` work on raw counts and times, and scale once at the end;
-- a sum can begin with 0 (`*`, `-c` and `==` since 0.2.0). tostring gives a table like that of perf stat.
-- @type Counts
local methods = {}

-- Entries -------------------------------------------------------------------------------------------------------------

-- The `why` of a measurement that the parent began before a fork, in the child; and the time that marks it in packed Counts: see
-- PF_METER_INHERITED in csrc/core/counts/meter.h. (Half of that value, since two such times may have been added to others.)
M.forked = "a fork happened during the measurement, and this is the child: the events count the parent process"
local FORKED = 2 ^ 51

local floor = math.floor
local tointeger = math.tointeger or function(v) return v end

-- The estimate for the whole time, from the part of it that was counted.
local function scaled(raw, enabled, running)
  if running == enabled then return raw end
  local v = tonumber(raw) / running * enabled
  v = v < 0 and -floor(0.5 - v) or floor(v + 0.5) -- so that a - b == -(b - a)
  return tointeger(v) or v
end
M.scaled = scaled

-- The raw count of a difference that is unknown, because the count was lower at the end (PF_COUNT_FELL).
local fallen = core.count_fell
local fallen_cdata = type(fallen) == "cdata"
local fallen_plain = not fallen_cdata and fallen -- quick paths compare with it without a call

local function has_fallen(raw)
  if fallen_cdata then return type(raw) == "cdata" and raw == fallen end
  return raw == fallen
end

-- The `why` of that count.
M.FELL = "the count fell while it was measured: the event or another of its group was reset, or its counter wrapped around"

-- The difference of two raw counts.
function M.since(from, to) return to < from and fallen or to - from end

-- The `why` of an event that was enabled but never got a counter. It names this program's events that may use the counters.
local function no_counter_reason()
  local own = interned.enabled_hardware()
  return "it never got a counter: other events used all of them"
    .. (own[1] and "; this program has these enabled: " .. table.concat(own, ", ") or "")
end

-- These modules are loaded when a program prints a result or computes with it.
local function format() return late "perf.base.format" end
local arithmetic

local function operation(name)
  return function(a, b)
    arithmetic = arithmetic or late "perf.counts.arithmetic"(M)
    return arithmetic[name](a, b)
  end
end

local Entry = { __name = "perf.Entry", __tostring = function(e) return format().entry(e) end }
local Metrics = { __name = "perf.Metrics", __tostring = function(m) return format().metrics(m) end }
M.Entry, M.Metrics = Entry, Metrics

-- Make an entry from its numbers. Decides whether the event has a value.
-- @param row {label=, unit=, scale=, why=, note=, bound=, pinned=}: bound if it counts one task on one CPU
-- @return {label=, value=, raw=, enabled_ns=, running_ns=, unit=, id=, why=}: `why` is the reason if there is no value; or, if
-- there is one, what it leaves out
function M.entry(row, raw, enabled, running, id)
  if running == enabled and running and running ~= 0 and not (row.scale or row.bound or row.why) and raw ~= fallen_plain
    and not (fallen_cdata and has_fallen(raw)) then
    -- Most readings: the event always had its counter. Event:read makes the same table by itself.
    return setmetatable({ label = row.label, value = raw, raw = raw, enabled_ns = enabled, running_ns = running, unit = row.unit,
      id = id, why = row.note }, Entry)
  end
  local e = { label = row.label, unit = row.unit, raw = raw, enabled_ns = enabled, running_ns = running, id = id }
  if row.scale or row.bound then e.scale, e.bound = row.scale, row.bound end -- arithmetic needs them
  if running and enabled and running - enabled >= FORKED then
    e.raw, e.enabled_ns, e.running_ns, e.why = nil, nil, nil, M.forked
  elseif row.why and (not raw or raw == 0) then -- unless it was counted after all
    e.why = row.why
  elseif running == 0 then
    -- A pinned event that gets no counter is disabled by the kernel, and has no times.
    e.why = enabled ~= 0 and row.bound and "its task did not run on this CPU"
      or enabled ~= 0 and no_counter_reason()
      or row.pinned and "it is pinned and found no counter free, which disables it; or it was not enabled"
      or "not enabled, or its task did not run"
  elseif has_fallen(raw) then
    e.raw, e.why = nil, M.FELL
  else
    -- A task's event on one CPU does not run while the task runs on another CPU: that must not be extrapolated.
    e.value = enabled and running and not row.bound and scaled(raw, enabled, running) or raw
    if row.scale then e.value = tonumber(e.value) * row.scale end -- arithmetic with a 64-bit cdata would truncate the scale
    e.why = row.note
  end
  return setmetatable(e, Entry)
end

-- The words of slot s of a packed Counts: raw count, enabled, running, id. c: the Counts and `word`, or all words and rawget.
local function slot_words(c, layout, s, get)
  local times, values = 1 + 2 * s[1], 1 + 2 * (layout.ngroups == 0 and 1 or layout.ngroups) + s[2]
  local id
  if layout.source ~= "rusage" then id = get(c, values + layout.nvalues) end
  if id == 0 then id = nil end -- an event that is not the kernel's
  return get(c, values), get(c, times), get(c, times + 1), id
end

local function unpack_entry(c, layout, i, get)
  get = get or word
  local row = layout.rows[i]
  local slots = row.slots
  if not slots[1] then return M.entry(row) end -- it was not counted
  local raw, enabled, running, id = slot_words(c, layout, slots[1], get)
  for k = 2, #slots do
    -- The same event on the core types of a hybrid CPU: it ran on either of them.
    local more, en, run = slot_words(c, layout, slots[k], get)
    raw, running = (has_fallen(raw) or has_fallen(more)) and fallen or raw + more, running + run
    if en > enabled then enabled = en end
  end
  return M.entry(row, raw, enabled, running, id)
end

-- The array of all entries, of either representation.
local function entries(c)
  if type(c) == "table" then return c end
  local layout, list, get = layouts[layout_of(c)], {}, word
  if word == core.word then c, get = core.words(c), rawget end
  for i = 1, #layout.rows do list[i] = unpack_entry(c, layout, i, get) end
  return list
end

-- The values without a table for each entry.
-- @param c Counts of either kind
-- @param values filled: values[i] is a count, or false if there is none
-- @return an array whose elements have label, unit and why
function M.values(c, values)
  if type(c) == "table" then
    for i, e in ipairs(c) do values[i] = e.value or false end
    return c
  end
  local layout = layouts[layout_of(c)]
  local rows = layout.rows
  for i = 1, #rows do
    local row = rows[i]
    local slot, another = row.slots[1], row.slots[2]
    local times = slot and 1 + 2 * slot[1]
    local enabled = slot and word(c, times)
    if slot and not another and not row.why and not row.scale and enabled == word(c, times + 1) and enabled ~= 0 then
      local value = word(c, 1 + 2 * (layout.ngroups == 0 and 1 or layout.ngroups) + slot[2])
      values[i] = not has_fallen(value) and value
    else
      values[i] = unpack_entry(c, layout, i).value or false
    end
  end
  return rows
end

-- Plain Counts --------------------------------------------------------------------------------------------------------

local Plain = interned.plain

-- Counts from entries.
function M.plain(list, wall_ns, source)
  for _, e in ipairs(list) do setmetatable(e, Entry) end
  list.wall_ns, list.source = wall_ns, source
  return setmetatable(list, Plain)
end

-- The item with a label; the modifier may be left off if that is unambiguous.
-- @param list array of tables with `label`
local function find(list, key)
  local found, several
  for _, e in ipairs(list) do
    if e.label == key then return e end
    if base_name(e.label) == key then found, several = e, found end
  end
  return not several and found or nil
end
M.find = find

function Plain.__index(t, key)
  local method = methods[key]
  if method ~= nil or type(key) ~= "string" then return method end
  local found = find(t, key)
  return found and found.value
end

-- Packed Counts -------------------------------------------------------------------------------------------------------

-- The __index of both kinds of packed Counts; word 0 is the wall time.
local function packed_index(c, key)
  local method = methods[key]
  if method then return method end
  local layout = layouts[layout_of(c)]
  if key == "wall_ns" then return word(c, 0) end
  if key == "source" then return layout.source end
  if key == "cumulative" then return layout.cumulative end
  if key == "epoch" then return layout.cumulative and reset_of(c) or nil end
  if type(key) == "number" then return layout.rows[key] and unpack_entry(c, layout, key) end
  local i = layout.index[key] -- false: the name is ambiguous
  if i then return unpack_entry(c, layout, i).value end
end

local function packed_len(c) return #layouts[layout_of(c)].rows end

local function step(c, i)
  i = i + 1
  local layout = layouts[layout_of(c)]
  if layout.rows[i] then return i, unpack_entry(c, layout, i) end
end

-- Iterates like `next` over plain Counts, which are tables.
local function next_of(c, key)
  if type(key) == "number" or key == nil then
    local i, entry = step(c, key or 0)
    if i then return i, entry end
    return "wall_ns", c.wall_ns
  elseif key == "wall_ns" then
    return "source", c.source
  end
end

local packed_class = {
  __index = packed_index,
  __len = packed_len,
  __ipairs = function(c) return step, c, 0 end,
  __pairs = function(c) return next_of, c, nil end,
}

-- Convert Counts of either kind to plain ones.
function M.unpack(c)
  if type(c) == "table" or word ~= core.word then
    local list = M.plain(entries(c), c.wall_ns, c.source)
    list.cumulative, list.epoch = c.cumulative, c.epoch
    return list
  end
  local words, id = core.words(c)
  local layout = layouts[id]
  local list = { wall_ns = words[0], source = layout.source, cumulative = layout.cumulative,
    epoch = layout.cumulative and reset_of(c) or nil }
  for i = 1, #layout.rows do list[i] = unpack_entry(words, layout, i, rawget) end
  return setmetatable(list, Plain)
end

-- Public functions ----------------------------------------------------------------------------------------------------

local function is_counts(v)
  if type(v) == "table" then return getmetatable(v) == Plain end
  return M.is_packed(v)
end

-- Whether a value is Counts, of either kind.
M.is = is_counts

local function check_self(v, method)
  if is_counts(v) then return v end
  argument.raise_in_method(method, ("Counts expected, got %s"):format(type(v)), 1)
end

--- Ratios that the counted events allow, such as ipc.
-- @treturn table with those of the following that can be computed: `ipc` (instructions per cycle), `branch_miss_rate` and
-- `cache_miss_rate` (0 to 1), `cpus_utilized` (CPU time by wall time), `ghz` (cycles by CPU time), and `per_second`, a table of
-- each event's rate by label, relative to the CPU time if that was counted, otherwise to the wall time
-- @function Counts:metrics
methods.metrics = operation "metrics"

--- Everything as plain tables.
-- @treturn table `{wall_ns=, source=, counts={[label]=value}, events={entry, ...}}`
function methods:totable()
  check_self(self, "totable")
  local t = { wall_ns = self.wall_ns, source = self.source, counts = {}, events = {} }
  for i, e in ipairs(entries(self)) do
    t.events[i] = e
    t.counts[e.label] = e.value
  end
  return t
end

--- The table of `totable` as JSON text; integers keep all their digits.
-- @treturn string
function methods:json()
  return late "perf.base.json".encode(methods.totable(check_self(self, "json")))
end

M.entries = entries

-- Add up Counts of different events: an entry of only one side is kept as it is.
-- @function merge
M.merge = operation "merge"

local operators = {}
for name in ("add sub mul div unm eq"):gmatch "%a+" do operators["__" .. name] = operation("__" .. name) end

for _, class in ipairs { Plain, packed_class } do
  function class.__tostring(self)
    return format().counts(entries(self), self.wall_ns, self.source, methods.metrics(self))
  end
  for name, f in pairs_of(operators) do class[name] = f end
end

M.packed_class = packed_class
if word == core.word then
  for name, f in pairs_of(packed_class) do core.Counts[name] = f end
end

return M
