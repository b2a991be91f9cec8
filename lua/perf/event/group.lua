--- Events that the kernel counts over the same instants. `#group` and `group[i]` are its Events, the leader first; it prints as a
-- list of them. On Lua 5.4 `local g <close>` closes it.
-- @classmod Group
local argument = require "perf.base.argument"
local copy = require "perf.base.copy"
local late = require "perf.base.late"
local strict = require "perf.api.strict"
local attempt = require "perf.base.attempt"
local core = require "perf.core"
local counts = require "perf.counts"
local counts_read = require "perf.counts.read"
local readings = require "perf.counts.readings"
local open = require "perf.event.open"
local read_records = require "perf.event.read_records"

local M = {}

local function names() return late "perf.names" end

local begin, begin_own, finish, snap = counts_read.begin, counts_read.try, counts_read.finish, readings.snap
local try, refuse, catch = attempt.try, attempt.refuse, attempt.catch
local in_c = core.Meter.__index -- a Group's methods in C are those of a Meter
local Group, Event = copy(in_c), core.Event.__index
local enable_leader = in_c.enable

-- Group -> its events: the result of g:members(), without the call into C, which LuaJIT would not compile.
local members = setmetatable({}, { __mode = "k" })

local group_of = setmetatable({}, { __mode = "kv" }) -- Event -> its Group
local meter_of = setmetatable({}, { __mode = "kv" }) -- Group -> the Meter that reads it, if it is part of one
local resets = setmetatable({}, { __mode = "k" }) -- Event -> the number of its resets, without those of its Group

local function check_group(g, method) return argument.check_object(g, core.Group, "Group", method):members() end

local function check_open(g, method)
  local events = check_group(g, method)
  for _, ev in ipairs(events) do
    if not ev:is_open() then argument.raise_in_method(method, core.closed_group, 1) end
    if ev:is_inherited() then argument.raise_in_method(method, core.inherited "Group", 1) end
  end
  return events
end

-- The slow path of Group:measure: mistakes and callable objects.
local function measure_slowly(g, fn, ...)
  local events = check_group(g, "measure")
  argument.check_callable(fn, 1, "measure")
  return finish(g, begin(g, events.layout, events.words), fn(...))
end

-- Build a Group of opened events.
-- @param events Events, the leader first
-- @param[opt] since the time by core.wall_ns when it began to count, if it counts already or will begin by itself
-- @return Group
function M.build(events, since)
  local rows = {}
  for i, ev in ipairs(events) do
    local info = ev:info()
    rows[i] = { label = info.label, unit = info.unit, scale = info.scale, why = info.why, note = info.note,
      bound = info.bound, pinned = info.attr.pinned, slots = { { 0, i - 1 } } }
  end
  local g = core.group(events, since)
  events.layout = counts.layout(rows, 1, open.source(events))
  events.reading = counts.layout(rows, 1, open.source(events), true)
  events.words = g:words()
  events.measure = counts_read.measurer and counts_read.measurer(g, events.layout, 2, measure_slowly)
  members[g] = events
  for _, ev in ipairs(events) do group_of[ev] = g end
  return g
end

-- Declare that some Groups are read together.
-- @param groups array
-- @param meter core.meter's
function M.joined(groups, meter)
  for _, g in ipairs(groups) do meter_of[g] = meter end
end

-- The number of times that an Event was reset separately.
function M.resets(ev) return resets[ev] or 0 end

-- The events of a list in text, without its braces: "{a,b}:u,c" is a:u, b:u and c.
function M.events_of(text)
  local list = {}
  for _, group in ipairs(names().expand(text)) do
    for _, event in ipairs(group) do
      if type(event) == "table" then -- modifiers of the braces: the label has them after the name
        local name = event.event
        local joint = (name:find "/$" or name:find ":[%a]+$") and "" or ":"
        event.label = name .. joint .. event.modifiers
      end
      list[#list + 1] = event
    end
  end
  return list
end

-- Open the events of a list, the leader first, into an array, and make a Group of them.
local function open_members(events, list, opts)
  local since, on
  for i, event in ipairs(list) do
    local spec = try(names().resolve(event))
    if #spec.attrs > 1 then
      refuse(("%s: is counted by %d PMUs of this machine, which one group cannot span: name it with its PMU")
        :format(spec.label, #spec.attrs), "EINVAL")
    end
    local attr = open.prepared(spec.attrs[1], open.group_format)
    if open.writes_records(attr) then open.mergeable(attr) elseif #list == 1 then attr.read_format = open.single_format end
    if i == 1 then
      since = attr.enable_on_exec and core.wall_ns() or nil
      on, attr.disabled = not attr.disabled or attr.disabled == 0, true -- enabled when it is complete: see each_member
    elseif spec.attrs[1].disabled == nil then
      attr.disabled = false -- a member is enabled by its leader
    end
    events[i] = try(open.attr(spec, attr, opts))
    opts.group = events[1]
  end
  local g = M.build(events, since)
  if on then try(enable_leader(g)) end
  return g
end

--- Open events that the kernel counts together; return a Group. They count over the same instants or not at all, and one read
-- returns them all.
-- @tparam string|table events names or attr tables, the leader first; or one string, "cycles:u,instructions:u"
-- @tparam[opt] table options
-- @treturn Group disabled @fails nothing is left open
-- @raise for an unknown name, field or option
function M.group(list, opts)
  argument.check_dot(list)
  open.check_events(list, "array of events")
  opts = open.check_target(opts, "perf.group", 2)
  if type(list) == "string" then list = M.events_of(list) end
  if type(list) ~= "table" then
    argument.raisef("array of events expected, got %s", type(list))
  end
  local wrong = names().list_mistake(list)
  if wrong then argument.raise(wrong) end
  if #list == 0 then argument.raise "a group needs an event" end
  if #list > 128 then argument.raise "a group has at most 128 events" end
  local events = {}
  local g, message, code = catch(open_members, events, list, opts)
  if g then return g end
  for i = #events, 1, -1 do events[i]:close() end
  return nil, message, code
end

local reset_event = core.Event.in_c.reset

--- Set the count to zero; the times go on, as they do in the kernel.
-- @treturn boolean true @fails
function Event:reset()
  local ok, message, code = argument.call_as_method("reset", reset_event, self)
  if not ok then return nil, message, code end
  resets[self] = M.resets(self) + 1
  -- A running measurement of its group then has no count of this event, and neither has the difference of two readings.
  local g = group_of[self]
  local meter = meter_of[g]
  if g then g:was_reset() end
  if meter then meter:was_reset() end
  return true
end

-- Siblings first, then the leader. Linux 6.18 leaves a member that is enabled while its leader runs unscheduled until the next
-- context switch if the two belong to different software PMUs.
local function each_member(g, method, first, opts)
  local events = check_open(g, method)
  for i = first, #events do
    local ok, message, code = events[i][method](events[i], opts)
    if not ok then return nil, message, code end
  end
  return true
end

--- Start all members.
-- @treturn boolean true @fails
function Group:enable()
  local ok, message, code = each_member(self, "enable", 2)
  if not ok then return nil, message, code end
  return enable_leader(self)
end

--- Stop all members: none counts while its leader is disabled.
-- @function Group:disable
-- @treturn boolean true @fails

--- Set the counts of all members to zero.
-- @function Group:reset
-- @treturn boolean true @fails

--- Count while a function runs; return Counts, then the function's results. This takes two reads. A disabled group is enabled
-- first and stays enabled.
-- @tparam function fn called with the other arguments; its error is raised again unchanged
-- @tparam any ... its arguments
-- @treturn Counts then the function's results
function Group:measure(fn, ...)
  local events = members[self]
  if events then
    if events.measure then return events.measure(self, fn, ...) end
    local c = begin_own(self, events.layout, events.words, fn)
    if c then return finish(self, c, fn(...)) end
  end
  return measure_slowly(self, fn, ...)
end

--- Counts since the group was opened or last reset, from one read(2). (An event that counts read(2) counts that call too.) The
-- wall time is the time for which the group was enabled.
-- @treturn Counts @fails
function Group:read()
  local events = members[self] or check_group(self, "read")
  local c, message, code = snap(self, events.reading, events.words) -- not a tail call: mistakes are those of this call
  if c then return c end
  return nil, message, code
end

argument.public_names[Group.read] = "read"

--- The kernel's id of the leader.
-- @treturn integer @fails
function Group:id() return check_open(self, "id")[1]:id() end

--- The leader's descriptor, for other event loops.
-- @treturn integer
function Group:fd() return check_open(self, "fd")[1]:fd() end

--- Close every event of the group. Idempotent.
function Group:close()
  local events = check_group(self, "close")
  self:forget()
  for i = #events, 1, -1 do events[i]:close() end
end

local function next_member(events, i)
  if events[i + 1] then return i + 1, events[i + 1] end
end

--- Iterate over its Events. It gives their places and the Events, the leader first. (`ipairs` of a Group works on Lua 5.3 and
-- later only: the others accept tables alone.)
--
--     for i, ev in group:each() do print(i, ev:label()) end
--
-- @treturn function iterator
-- @since 0.2.0
function Group:each() return next_member, check_group(self, "each"), 0 end

--- Map the rings of all members.
-- @tparam[opt] table options
-- @treturn boolean true @fails
function Group:map(opts)
  local ok, message, code = each_member(self, "map", 1, opts) -- not a tail call: mistakes are those of this call
  if ok then return true end
  return nil, message, code
end

read_records(Group, "Group", check_group)

core.Group.__close = Group.close
core.Group.__len = function(g) return #g:members() end

local missing = strict.missing "Group"

core.Group.__index = function(g, key)
  local method = Group[key]
  if method ~= nil then return method end
  if type(key) == "number" then return g:members()[key] end
  return (missing(g, key, 1)) -- not a tail call: it looks for the caller
end
core.Group.__name = "perf.Group"

function core.Group.__tostring(g)
  local events = g:members()
  if not events[1]:is_open() then return ("Group(%d events, closed)"):format(#events) end
  local c, message = g:read()
  if not c then return ("Group(%d events, %s)"):format(#events, message) end
  if c[1].enabled_ns == 0 then
    local labels = {}
    for i, ev in ipairs(events) do labels[i] = ev:label() end
    return ("Group(%s: not enabled yet)"):format(table.concat(labels, ", "))
  end
  return ("Group of %d events\n%s"):format(#events, tostring(c))
end

return M
