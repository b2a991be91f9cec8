--- An open event: a counter, and after `map` a source of records. See doc/record.md. tostring gives its name and its target; on
-- Lua 5.4 `local ev <close>` closes it.
-- @classmod Event
local copy = require "perf.base.copy"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local compiled = require "perf.base.compiled"
local core = require "perf.core"
local counts = require "perf.counts"
local uncounted = require "perf.event.uncounted"

local Event = core.Event.__index
assert(core.Record) -- opens all parts of perf.core, of which some add methods to Event
-- The methods in C, of which this module replaces some. They are kept in core.Event, since this module may be loaded again.
local in_c = core.Event.in_c or copy(Event)
core.Event.in_c = in_c
local entry, Entry, setmetatable = counts.entry, counts.Entry, setmetatable

local explain = require "perf.event.refusal"
local idle = require "perf.event.idle"
local reading = require "perf.event.reading"
-- Modules that are needed when an event is opened or refused are loaded here, while there are descriptors.
require "perf.base.mistake"
require "perf.event.cgroup"
require "perf.event.user_only"
require "perf.event.user_read"
require "perf.event.watch"
require "perf.event.refusal.causes"

local function check(ev, method) return argument.check_object(ev, core.Event, "Event", method) end

local function check_open(ev, method)
  if not check(ev, method):is_open() then argument.raise_in_method(method, "Event is closed", 1) end
  if ev:is_inherited() then argument.raise_in_method(method, core.inherited "Event", 1) end
end

--- The name by which the event was requested.
-- @treturn string
function Event:label() return check(self, "label"):info().label end

--- The attr fields that the event was opened with.
-- @treturn table perf_event_attr fields
function Event:attr() return printed.table(copy(check(self, "attr"):info().attr)) end

--- The kernel's attr of the event. If the event writes records, its read_format also has "lost" if the kernel supports that, and
-- "id" if it has "group"; `read` and Records still show what you requested. Use this attr to decode the bytes of `drain` and
-- `read_raw`.
-- @treturn table perf_event_attr fields
-- @since 0.2.0
function Event:kernel_attr()
  local attr = copy(check(self, "kernel_attr"):info().attr)
  attr.read_format = self:format()
  return printed.table(attr)
end

-- The checks of the options of methods in C are loaded by the first call that has options.
setmetatable(core.mistakes, { __index = function(all, name)
  late "perf.record.limits"
  return rawget(all, name)
end })

local map, set_filter, modify, scan_of, records = in_c.map, in_c.set_filter, in_c.modify, in_c.scan, in_c.records
local lost_of = in_c.lost
local check_map -- made by the first call

--- Map the ring that records are read from. Map before you enable: records that are written without a ring are lost.
-- @tparam[opt] table options
-- @treturn Event the event
-- @treturn integer the number of pages
-- @treturn ?string the reason if these are fewer than requested: the allowance of locked memory
-- @fails "EPERM" if not even one page may be locked
-- @raise for an unknown option, and if the event is mapped already
function Event:map(opts)
  if compiled.ffi then late "perf.record.cdata" end -- it must be loaded before the first record
  check_open(self, "map")
  check_map = check_map or late "perf.api.check".options "Event:map"
  opts = check_map(opts, 2)
  local ev, pages, code = idle.map(argument.call_as_method, "map", map, self, opts)
  if ev and code then return ev, pages, code end
  if ev then return ev, pages end
  local info = self:info()
  return explain.mmap(opts.aux_pages or opts.pages, pages, code,
    { label = info.label, attr = info.attr, cpu = info.cpu, aux = opts.aux_pages ~= nil })
end

--- Iterate over the records, without damaged ones. The loop also ends when the watched process has ended or the reader is woken.
-- @tparam[opt] table options
-- @treturn function iterator of Records
-- @raise for an unknown option, and if the event is not mapped
function Event:records(opts)
  local next_record = argument.call_as_method("records", records, self, opts) -- checks the arguments
  if opts == nil or opts.max == nil and opts.duration == nil then return next_record end
  return late "perf.record.limits".records(opts, self.read_record, self)
end

local function with_parts(n, parts) return n, printed.table(parts) end

-- Its docstring is beside the method in C.
function Event:lost() return with_parts(argument.call_as_method("lost", lost_of, self)) end

--- Iterate over the records of one type that are in the ring now: their fields as plain values, without a Record for each.
-- @function Event:each
-- @tparam string type a Record's type: "sample", "mmap2" ...
-- @tparam string field the name of a field whose value is one number or string: "ip", "pid", "time" ...
-- @tparam any ... more fields; then optionally a table of options
-- @treturn function iterator of a number that counts from 1, and the fields, which may be nil
-- @raise for an unknown type or field, and if the event is not mapped
-- @usage for i, ip, time in ev:each("sample", "ip", "time", {duration = 1}) do ... end

--- Give the event a filter: on a tracepoint's fields ("fd > 2 && count == 10"), or on addresses if the PMU supports that.
-- @tparam string text
-- @treturn boolean true @fails "EINVAL" if the kernel does not understand it
function Event:set_filter(text)
  local ok, message, code = argument.call_as_method("set_filter", set_filter, self, text)
  if ok then return true end
  local info = self:info()
  return explain.filter(info.label or "event", text, message, code, info.attr)
end

-- Whether two attrs differ only in the fields of a breakpoint that can be modified.
local function breakpoint_alone(has, wanted)
  for field, value in pairs_of(wanted) do
    if not field:find "^bp_" and field ~= "disabled" and has[field] ~= value then return false end
  end
  return true
end

--- Change the address, length or access of a breakpoint.
-- @tparam string|table event as for `perf.open`; fields that a table lacks keep their values, and an enabled event stays enabled
-- @treturn boolean true @fails "EOPNOTSUPP" if it is not a breakpoint
function Event:modify(attr)
  check_open(self, "modify")
  local fields, label = attr, nil
  if type(attr) == "string" or type(attr) == "table" and attr.event ~= nil then
    local spec, message, code = argument.call_as_argument_of_method("modify", 2, late "perf.names".resolve, attr)
    if not spec then return nil, message, code end
    fields, label = spec.attrs[1], spec.label
  end
  if type(fields) ~= "table" or argument.is_perf(fields) then
    argument.raise_in_method("modify", "event name or table expected, got " .. argument.kind(fields), 2)
  end
  local info = self:info()
  local all = copy(info.attr)
  for field, value in pairs_of(fields) do all[field] = value end
  if fields.disabled == nil then all.disabled = self:is_off() end
  local ok, message, code = argument.call_as_method("modify", modify, self, all)
  if ok then
    info.attr, info.label = all, label or fields.label or late "perf.names".resolve(all).label
    return true
  end
  if code == "EINVAL" and breakpoint_alone(info.attr, fields) then
    return explain(info.label, all, "modify: Invalid argument", code)
  end
  return nil, message, code
end

-- The entry of an event without a count; the reasons for it follow.
local function without(info, why, raw)
  local e = entry(info, raw, 0, 0, nil)
  e.why = why
  return e
end

local OFF = "it is pinned and found no counter free, which disables it until it is enabled again" -- a read returns no data then
local NO_IDS = 'its read_format has "group" without "id", so that its count cannot be distinguished from the others'

-- The index of an event's own count in its reading: with "group" in its read_format, every member reads the counts of the whole
-- group, the leader's first. nil if they have no ids that tell them apart.
local function own_place(ev, info, scan)
  if not scan[2] or not (scan[1].id or info.leader) then return 1 end
  local id = ev:id()
  for i, v in ipairs(scan) do
    if v.id == id then return i end
  end
end

-- The result of read(2): see csrc/binding/event/event.c.
function Event:scan(own)
  local scan, message, code = scan_of(self, own)
  if not (scan or message) then check_open(self, "scan") end
  return scan, message, code
end

-- Readings in other formats than that of an event by name, of pinned events without a counter, and mistakes.
local function read_slowly(ev)
  local info = check(ev, "read"):info()
  local scan, message, code = scan_of(ev)
  if not scan then
    if not message then check_open(ev, "read") end -- raises
    return nil, message, code
  end
  if not scan[1] then return without(info, OFF, 0) end
  local v = scan[own_place(ev, info, scan)]
  local e = v and entry(info, v.value, scan.enabled_ns, scan.running_ns, v.id or ev:id()) or without(info, NO_IDS)
  e.lost = v and v.lost
  if scan[2] then e.members = scan end
  return e
end

local infos = setmetatable({}, { __mode = "k" }) -- the results of ev:info(), without the call into C

local function info_of(ev)
  local info = ev:info()
  infos[ev] = info
  return info
end

local take = reading.take

--- The count, with the times for which it was enabled and running. An event that counts read(2) also counts this call, and those
-- of measurements.
-- @treturn table `{label=, value=, raw=, enabled_ns=, running_ns=, unit=, id=, why=}`, as far as its read_format has them: an
-- entry of `Counts`; an event that reads its whole group has the others' counts in `members`
-- @fails
-- @raise if the event is closed
function Event:read()
  local value, enabled, running, id, info = take(self)
  if info then -- as `entry` makes it, without its call
    return setmetatable({ label = info.label, value = value, raw = value, enabled_ns = enabled, running_ns = running,
      unit = info.unit, id = id }, Entry)
  end
  if value then return entry(infos[self] or info_of(self), value, enabled, running, id) end
  if enabled then return nil, enabled, running end -- message, code
  return read_slowly(self)
end

-- The slow path, for events whose caller chose another read_format.
local function finish_scan(ev, before, ...)
  if ev:is_inherited() then return without(ev:info(), counts.forked), ... end
  local after, message = scan_of(ev, true)
  if not after then argument.raise(message or "Event is closed", 0) end
  local info = ev:info()
  if not (before[1] and after[1]) then return without(info, OFF, 0), ... end
  local i = own_place(ev, info, after)
  local a, b = before[i], after[i]
  if not b then return without(info, NO_IDS), ... end
  local function diff(x, y) return x and y and y - x end
  return entry(info, counts.since(a.value - before.own, b.value - after.own), diff(before.enabled_ns, after.enabled_ns),
    diff(before.running_ns, after.running_ns), b.id or uncounted(ev.id, ev)), ...
end

local function measure_by_scan(ev, fn, ...)
  check_open(ev, "measure")
  local ok, message = uncounted(ev.enable, ev)
  if not ok then argument.raise(message, 0) end
  local before
  before, message = ev:scan(true)
  if not before then argument.raise(message, 0) end
  return finish_scan(ev, before, fn(...))
end

local finish = reading.finish(function(ev, value, enabled, running, id, ...)
  local info = infos[ev] or info_of(ev)
  if value == nil then return enabled == "ECHILD" and without(info, counts.forked) or without(info, OFF, 0), ... end
  return entry(info, value, enabled, running, id), ...
end)
local begin = reading.begin

--- Count while a function runs; return the count, then the function's results. Enables the event, which stays enabled.
-- @tparam function fn called with the other arguments; its error is raised again unchanged
-- @tparam any ... its arguments
-- @treturn table a reading as from `Event:read`, of that time only; then the function's results
function Event:measure(fn, ...)
  if not argument.is_callable(fn) then
    check(self, "measure")
    argument.raise_in_method("measure", ("function expected, got %s"):format(type(fn)), 2)
  end
  local start, enabled, running = begin(self)
  if start == nil then return measure_by_scan(self, fn, ...) end
  return finish(self, start, enabled, running, fn(...))
end

core.Event.__name = "perf.Event"

function core.Event.__tostring(ev)
  local info = ev:info()
  if not ev:is_open() then return ("Event(%s, closed)"):format(info.label) end
  if ev:is_inherited() then return ("Event(%s, of the parent process)"):format(info.label) end
  local e, message = ev:read()
  if not e then return ("Event(%s, %s)"):format(info.label, message) end
  local disabled = not e.value and e.why:find "^not enabled"
  return ("Event(%s)"):format(disabled and info.label .. ": not enabled yet" or tostring(e))
end

strict.class(Event, "Event")

return Event
