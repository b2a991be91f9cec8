--- Spans: a piece of work, its time, and its cost in events.
--
-- Over all spans of a trace, the self counts add up to the work of the thread, and nothing is counted twice (see the type Span).
-- Counts of a child while its parents are paused are in none of their totals, and are not subtracted.
-- @module perf.trace.span
local pairs_of = require "perf.base.pairs"
local printed = require "perf.base.printed"
local requested_events = require "perf.trace.requested_events"
local attributes = require "perf.trace.attributes"
local argument = require "perf.base.argument"
local strict = require "perf.api.strict"
local clock = require "perf.base.clock"
local counts = require "perf.counts"
local counts_read = require "perf.counts.read"
local readings = require "perf.counts.readings"
local measure = require "perf.measure"
local links = require "perf.trace.links"
local plain = require "perf.trace.plain"
local propagation = require "perf.trace.propagation"
local sending = require "perf.exporter.sending"

local M = {}

local check_type = argument.check_type
local start, stop, add = readings.start, readings.stop, readings.add
local thread_token, token_with = counts_read.thread_token, counts_read.token_with
local now = clock.now
local huge = math.huge

-- Kinds, with OTLP's numbers.
M.kinds = { internal = 1, server = 2, client = 3, producer = 4, consumer = 5 }

--- A piece of work, its time, and its cost in events.
--
-- A span counts by difference, as perf.measure does. Its total is what the thread did between start and finish, except while the
-- span was paused, and without the work of tracers meanwhile (encoding and sending earlier spans). The parent adds up the totals
-- of its children, and its self count is its total less that sum. If children overlapped, outlived their parent, or counted only
-- a part of the time in which the parent counted, self is unknown and is left out.
--
-- A span belongs to the thread that started it. Spans that were open at a fork belong to the parent: in the child they count
-- nothing, are not sent, and raise no error, since tracing must not make a program fail. On Lua 5.4 `local span <close>` finishes
-- it.
-- @type Span
local Span = { __name = "perf.Span", sampled = true, kind = 1, open = 0, busy = 0, apart = false, nattributes = 0, whole = true }
Span.__index = Span
M.Span = Span

-- Methods that are called often check their object only on a path that spans rarely take.
local function check(self, method) return argument.check_object(self, Span, "Span", method) end

-- Begin to count; nil if that is no longer possible (this thread's list was closed): then the span has no counts.
-- @return Counts; the cost of sending so far, see perf.exporter.sending; the start by the monotonic clock
local function begin(set)
  local c, at = start(set.meter, set.layout, set.words)
  if c then set.spans = set.spans + 1 end
  return c, set.sending, at
end

-- Values --------------------------------------------------------------------------------------------------------------

-- Convert a time that the program gives to the monotonic clock.
-- @int arg the number of the argument of the public function
-- @return the monotonic time; the moment, see perf.base.clock
function M.time(anchor, ns, arg)
  local ok, at, moment = pcall(clock.from_ns, anchor, ns)
  if ok then return at, moment end
  argument.raise(("nanoseconds since 1970 expected, got %s"):format(type(ns) == "number" and ns or type(ns)), arg)
end

local function put(self, key, v)
  local t = self.attributes or {}
  self.attributes = t
  if v ~= nil and t[key] == nil then
    if self.nattributes >= self.tracer.limits.attributes then
      self.dropped = (self.dropped or 0) + 1
      return
    end
    self.nattributes = self.nattributes + 1
  elseif v == nil and t[key] ~= nil then
    if key == "perf.error" and self.library_error then self.library_error = nil else self.nattributes = self.nattributes - 1 end
  end
  t[key] = v
end

-- Set the attribute perf.error. Like the counts it does not fall under the limit of attributes: the library sets it, not the
-- program.
local function record_error(self, message)
  local t = self.attributes or {}
  self.library_error = self.library_error or t["perf.error"] == nil
  self.attributes, t["perf.error"] = t, message
end

--- Set an attribute; nil removes it. The attribute `perfevents`, a list of events as perf.measure takes it, also makes the span
-- count these from now on, in addition to the tracer's events.
-- @tparam string key its name
-- @tparam any value string, number, boolean, 64-bit cdata, or an array of these
-- @treturn Span the span
-- @raise for a value of another type
function Span:set_attribute(key, v)
  if getmetatable(self) ~= Span or self.duration then return check(self, "set_attribute") end
  check_type(key, "string", 1)
  if v == nil then
    put(self, key, nil)
    return self
  end
  put(self, key, attributes.value(key, v, 2, self.tracer.limits.attribute_length))
  if key == "perfevents" then self:_count(attributes.value(key, v, 2, huge)) end
  return self
end

--- Set several attributes.
-- @tparam table attributes by name
-- @treturn Span the span
function Span:set_attributes(t)
  for key, v in pairs_of((attributes.copy(check_type(t, "table", 1), 1, huge, huge))) do self:set_attribute(key, v) end
  return self
end

-- Count the span's own list of events. If the machine refuses it, an attribute says so: tracing must not make a program fail.
function Span:_count(events)
  local set, message = requested_events.lookup(events)
  if message then record_error(self, message) end
  if not set then return end
  self.whole = false
  if self.own_running then -- it had another list
    self.own_set.spans = self.own_set.spans - 1
    stop(self.own_set.meter, self.own_running)
  end
  self.own_set, self.own, self.own_running = sending.watch(set), nil, nil
  if not self.paused then self.own_running, self.own_before = begin(set) end
end

-- Events, status and finish -------------------------------------------------------------------------------------------

--- Rename the span.
-- @tparam string name
-- @treturn Span the span
function Span:set_name(name)
  check_type(name, "string", 1)
  if not self.duration then self.name = name end
  return self
end

local codes = { unset = 0, ok = 1, error = 2 }

--- Set the status: ok, error or unset.
-- @tparam string code "ok", "error" or "unset"
-- @tparam[opt] string message of an error
-- @treturn Span the span
function Span:set_status(code, message)
  if not codes[code] then argument.raise(("'ok', 'error' or 'unset' expected, got '%s'"):format(tostring(code)), 1) end
  if message ~= nil and type(message) ~= "number" then check_type(message, "string", 2) end
  if self.duration then return self end
  self.status, self.message = codes[code], code == "error" and message and tostring(message) or nil
  return self
end

--- Add an event: something that happened during the span.
-- @tparam string name of the event
-- @tparam[opt] table attributes attributes of the event
-- @tparam[opt] integer time_ns the time, in nanoseconds since 1970; by default now
-- @treturn Span the span
function Span:add_event(name, details, time_ns)
  check_type(name, "string", 1)
  if self.duration then return self end
  local list = self.events or {}
  self.events = list
  local limits, dropped, _ = self.tracer.limits, nil, nil
  if details ~= nil then
    details, _, dropped = attributes.copy(check_type(details, "table", 2), 2, limits.event_attributes, limits.attribute_length)
  end
  local at, moment
  if time_ns ~= nil then at, moment = M.time(self.anchor, time_ns, 3) else at = now() end
  if #list >= limits.events then
    self.dropped_events = (self.dropped_events or 0) + 1
    return self
  end
  list[#list + 1] = { name = name, attributes = details, dropped = dropped, at = at, moment = moment }
  return self
end

--- Add a link to another span, of any trace.
-- @tparam table|Span context as `Tracer:extract` gives, or a Span
-- @tparam[opt] table attributes attributes of the link
-- @treturn Span the span
-- @since 0.2.0
function Span:add_link(context, details)
  local wrong = links.invalid_context(context)
  if wrong then argument.raise(wrong, 1) end
  local limits = self.tracer.limits
  local link = links.copy(context, details, 2, limits)
  if self.duration or not link.span_id then return self end
  local list = self.links or {}
  self.links = list
  if #list < limits.links then list[#list + 1] = link else self.dropped_links = (self.dropped_links or 0) + 1 end
  return self
end

-- An error as text, whatever its metamethods do.
function M.text_of(err)
  local ok, text = pcall(tostring, err)
  if ok and type(text) == "string" then return text end
  return ("an error that is a %s and has no text"):format(type(err))
end

local function type_of(err)
  local class = type(err) == "table" and getmetatable(err) -- if it has __metatable, the value of that
  local name = type(class) == "table" and rawget(class, "__name")
  return type(name) == "string" and name or type(err)
end

--- Record an error: as an event "exception", and as the status.
-- @tparam any error any value
-- @tparam[opt] string traceback where it was raised
-- @treturn Span the span
function Span:record_error(err, traceback)
  local text = M.text_of(err)
  if traceback ~= nil then check_type(traceback, "string", 2) end
  self:add_event("exception", { ["exception.message"] = text, ["exception.type"] = type_of(err),
    ["exception.stacktrace"] = traceback })
  return self:set_status("error", text)
end

-- Counting ------------------------------------------------------------------------------------------------------------

-- The events cannot be read any more (perf.release has closed them). The span drops all its counts, since they are incomplete.
local function lose_counts(self)
  self.lost, self.whole = true, false
  record_error(self, "the events could not be read")
  return false
end

local function halt(self, counted, running, set, before)
  set.spans = set.spans - 1
  if not stop(set.meter, running) then return lose_counts(self) end
  if set.sending ~= before then self.excluded = sending.leave_out(running, set, before) end
  if not counted then return running end
  return add(counted, running, set.meter)
end

local function halt_own(self)
  self.own, self.own_running = halt(self, self.own, self.own_running, self.own_set, self.own_before), nil
end

-- Mark a span and all spans above it: their self counts are unknown, since an unknown part of their totals is their children's.
local function mark_self_unknown(self)
  while self do
    self.self_unknown = true
    self = self.parent
  end
end

-- Add n (1 or -1) to `busy` of a paused span and of the spans above it, up to the nearest that is counting.
-- @return the span that is counting, or nil
local function add_busy_above(self, n)
  repeat
    self.busy = self.busy + n
    if self.running then return self end
    self = self.parent
  until not self
end

-- The same for any span. Most are counting and need no loop. The loop is in a separate function, since LuaJIT compiles a loop
-- apart from the code around it.
local function add_busy(parent, n)
  if not parent.running then return add_busy_above(parent, n) end
  parent.busy = parent.busy + n
  return parent
end

-- The span counts from now on. The self counts of the spans above it stay known as long as its parent counts whenever it counts,
-- or as long as no span above it counts (`apart`). They become unknown if only a span further above counts, or if this changes
-- between a pause and the following resume.
local function counts_now(self, parent, again)
  local counting = add_busy(parent, 1)
  if counting == parent and not self.apart then return end
  if counting or again and not self.apart then mark_self_unknown(parent) end
  if not counting then self.apart = true end
end

-- The span is paused or resumed. The span's total then contains only a part of what a counting child counts.
local function note_partial_child(self)
  if self.busy > 0 then mark_self_unknown(self) end
end

-- Keep the span's lists of events open while it is paused.
local function hold(self, how)
  if self.set then how(self.set, self) end
  if self.own_set then how(self.own_set, self) end
end

--- Stop counting until `resume`, so that the work of others is not counted while this work waits.
-- @treturn Span the span
function Span:pause()
  if type(self) ~= "table" or self.duration or self.token ~= thread_token() then return check(self, "pause") end
  if self.running then
    self.counted, self.running = halt(self, self.counted, self.running, self.set, self.before), false
    note_partial_child(self)
    if self.parent then add_busy(self.parent, -1) end
  end
  if self.own_running then halt_own(self) end
  self.paused, self.whole = true, false
  hold(self, measure.hold)
  return self
end

--- Go on counting after `pause`.
-- @treturn Span the span
function Span:resume()
  if type(self) ~= "table" or self.duration or not self.paused or self.token ~= thread_token() then
    return check(self, "resume")
  end
  self.paused = nil
  hold(self, measure.drop)
  if self.own_set then self.own_running, self.own_before = begin(self.own_set) end
  if self.set then
    note_partial_child(self)
    self.running, self.before = begin(self.set)
    if self.running and self.parent then counts_now(self, self.parent, true) end
  end
  return self
end

--- Set the span's counts to counts that were measured elsewhere, for instance those of a request that ran in many parts.
-- @tparam Counts counts
-- @treturn Span the span
function Span:set_counts(c)
  if not counts.is(c) then argument.raise(("Counts expected, got %s"):format(type(c)), 1) end
  if not self.duration then self.given = c end
  return self
end

-- A child of `parent` starts. Both belong to this thread.
function M.child_begins(parent)
  local open = parent.open + 1
  parent.open = open
  if open > 1 then parent.self_unknown = true end
end

local function child_ends(self, parent)
  parent.open = parent.open - 1
  if parent.duration then
    parent.self_unknown = true
    return
  end
  local c = self.given
  if not c and self.open > 0 then mark_self_unknown(parent) end -- its own children are still running
  if c then
    local sum = parent.children
    if sum and not parent.children_given then
      parent.self_unknown = true
    else
      parent.children, parent.children_given = sum and counts.merge(sum, c) or c, true
    end
  elseif self.counted and self.set == parent.set and not parent.children_given then
    if self.apart then return end
    parent.children = add(parent.children or nil, self.counted, self.set.meter)
  else
    parent.self_unknown = true
  end
end

-- The program gave the start or the end: set the exact times. `finished` is the time of the call by the monotonic clock.
local function set_times(self, ended)
  self.finished = now()
  self.began = self.began or clock.moment(self.anchor, self.start)
  self.ended = ended or clock.moment(self.anchor, self.finished)
  self.duration = clock.nearly_between(self.began, self.ended)
  if self.duration == 0 then self.ended = self.began end -- the given end may be before the start
end

-- The rest of `finish` for a span that is not `whole`, or whose end the program has given. A span is not `whole` if it was
-- paused, has its own list of events, has lost its counts, or began at a time that the program has given.
local function finish_rest(self, ended)
  self.duration = now() - self.start
  if self.own_running then halt_own(self) end
  if self.paused then hold(self, measure.drop) end
  if self.lost then self.counted, self.own = false, nil end
  if ended or self.began then set_times(self, ended) end
end

--- Finish the span. Later calls of its methods change nothing, and a second `finish` is allowed.
-- @tparam[opt] integer end_ns the end, in nanoseconds since 1970; by default now
function Span:finish(end_ns)
  local token = token_with(self)
  if not token or self.duration or self.token ~= token then return check(self, "finish") and nil end
  local _, ended
  if end_ns ~= nil then _, ended = M.time(self.anchor, end_ns, 1) end
  local c, set, parent = self.running, self.set, self.parent
  if c then
    local done = stop(set.meter, c) -- the wall time, or nil; first, so that the rest of this function is not counted
    self.running = false
    set.spans = set.spans - 1
    if parent then add_busy(parent, -1) end
    self.duration = done or now() - self.start
    if done then
      if set.sending ~= self.before then self.excluded = sending.leave_out(c, set, self.before) end
      self.counted = self.counted and add(self.counted, c, set.meter) or c
    else
      lose_counts(self)
    end
  else
    self.duration = now() - self.start
  end
  if ended or not self.whole then finish_rest(self, ended) end
  if parent then
    self.parent = nil
    child_ends(self, parent)
  end
  self.tracer:_finished(self)
end

-- Begin to count, as the last thing of tracer:start.
-- @param given the start by the monotonic clock, now if not given; moment: the same as a moment
function M.begin(self, set, given, moment)
  if moment then self.began, self.whole = moment, false end
  local c, at
  if set then c, at = start(set.meter, set.layout, set.words) end
  if c then
    self.start, self.running, self.set, self.before = given or at, c, set, set.sending
    set.spans = set.spans + 1
    if self.parent then counts_now(self, self.parent) end
  else
    self.start = given or now()
  end
end

-- Looking at it -------------------------------------------------------------------------------------------------------

-- Whether the span is running, but a fork happened since its start and this is the child.
local function is_inherited(self) return not self.duration and self.token ~= thread_token() end

--- Whether the span records: false when it is finished, and in the child of a fork that happened since its start.
-- @treturn boolean
function Span:is_recording() return not self.duration and not is_inherited(self) end

--- The span's context, for other processes.
-- @treturn table `{trace_id=, span_id=, sampled=, tracestate=}`
function Span:context()
  return printed.table { trace_id = self.trace_id, span_id = self.span_id, sampled = self.sampled, tracestate = self.tracestate,
    debug = self.debug }
end

--- Put the span's context into the headers of a request.
-- @tparam table|function headers a table, or a function(name, value)
-- @treturn any headers
function Span:inject(headers)
  propagation.inject(self, propagation.check_headers(headers), self.tracer.propagators)
  return headers
end

--- Everything as plain tables.
-- @treturn table `name`, `kind`, `trace_id`, `span_id`, `parent_id`, `start_ns` (since 1970), `duration_ns`, `attributes`,
-- `counts` (totals by label), `self_counts`, `events`, `links`, `status`, `message`, and the numbers of items that the limits
-- dropped: `dropped_attributes`, `dropped_events`, `dropped_links`. In the child of a fork that happened since its start there
-- are no counts, and `why` has the reason.
function Span:totable()
  local t = plain.span(self)
  t.why = is_inherited(self) and counts.forked or nil
  return t
end

function Span:__tostring()
  return ("perf.Span %s (%s, %s)"):format(self.name, self.span_id, self.duration and "finished" or "running")
end

function Span:__close(err)
  if err ~= nil then self:record_error(err) end
  self:finish()
end

-- A span that is not sampled: it only passes the decision on.

local Unsampled = { __name = "perf.Span" }
Unsampled.__index = Unsampled
M.Unsampled = Unsampled

for _, name in ipairs { "set_attribute", "set_attributes", "set_name", "set_status", "add_event", "add_link", "record_error",
  "pause", "resume", "set_counts" } do
  Unsampled[name] = function(self) return self end
end
Unsampled.context, Unsampled.inject = Span.context, Span.inject
Unsampled.totable = plain.unsampled
function Unsampled.finish() end
function Unsampled.is_recording() return false end
Unsampled.__close = Unsampled.finish
function Unsampled:__tostring() return ("perf.Span %s (%s, not sampled)"):format(self.name, self.span_id) end

argument.check_methods(Span, "Span", "set_attributes set_name set_status add_event add_link record_error set_counts is_recording "
  .. "context inject totable")

strict.class(Span, "Span", "parent own own_running own_set paused lost began ended finished attributes duration given children "
  .. "children_given self_unknown")
strict.class(Unsampled, "Span")

return M
