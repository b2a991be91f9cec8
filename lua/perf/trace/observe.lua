-- perf.observe: counts on the spans of another library's tracer.
local requested_events = require "perf.trace.requested_events"
local argument = require "perf.base.argument"
local counts = require "perf.counts"
local checks = require "perf.api.check"
local format = require "perf.base.format"
local counts_read = require "perf.counts.read"
local readings = require "perf.counts.readings"

local M = {}

-- Begin to count a list: {set, counts} or nil; and a message if not all of it can be counted.
local function begin(events)
  local set, message = requested_events.lookup(events)
  local c = set and readings.start(set.meter, set.layout, set.words)
  return c and { set, c, counts_read.thread_token() } or nil, message
end

local values = {}

-- Pass the counts to put(key, value). In the child of a fork there are none: the span belongs to the parent.
local function finish(started, put)
  local set, c, token = started[1], started[2], started[3]
  if token ~= counts_read.thread_token() then return end
  if not readings.stop(set.meter, c) then return put("perf.error", "the events could not be read") end
  local rows = counts.values(c, values)
  for i = 1, #rows do
    local v = values[i]
    if v then put("perf." .. rows[i].label, type(v) == "cdata" and format.digits(v) or v) end -- an exact number, or text
  end
end

-- The shapes: how attributes are set, and where they are found when a span starts. A setter is a method of spans.

local shapes = {}

local function opentelemetry_value(list)
  for _, a in ipairs(type(list) == "table" and list or {}) do
    if type(a) == "table" and a.key == "perfevents" and type(a.value) == "table" then return a.value.string_value end
  end
end

shapes.opentelemetry = {
  start = "start",
  setter = "set_attributes",
  events_in_start = function(_, _, _, config) return opentelemetry_value(config and config.attributes) end,
  span = function(_, span) return span end, -- OpenTelemetry's start returns the context first
  events_in_set = function(...) return opentelemetry_value { ... } end,
  put = function(span, set, key, value)
    set(span, { key = key, value = type(value) == "number" and { int_value = value } or { string_value = value } })
  end,
}

shapes.opentracing = {
  start = "start_span",
  setter = "set_tag",
  events_in_start = function(_, _, options) return options and options.tags and options.tags.perfevents end,
  span = function(span) return span end,
  events_in_set = function(key, value) return key == "perfevents" and value or nil end,
  put = function(span, set, key, value) set(span, key, value) end,
}

shapes.kong = {
  start = "start_span",
  setter = "set_attribute",
  events_in_start = function(_, options) return options and options.attributes and options.attributes.perfevents end,
  span = shapes.opentracing.span,
  events_in_set = shapes.opentracing.events_in_set,
  put = shapes.opentracing.put,
}

local function shape_of(tracer)
  if type(tracer) ~= "table" then return nil end
  local function has(name) return type(tracer[name]) == "function" end
  if has "start_span" and has "active_span" then return shapes.kong end
  if has "start_span" then return shapes.opentracing end
  if has "start" and type(tracer.provider) == "table" then return shapes.opentelemetry end
end

-- One span: `running` has its running counts, that of the tracer's list first.
local function watch(shape, span, events, requested)
  if type(span) ~= "table" or type(span.finish) ~= "function" or type(span[shape.setter]) ~= "function" then return end
  if type(span.is_recording) == "function" and not span:is_recording() or span.is_recording == false then return end
  local its_finish, its_set = span.finish, span[shape.setter]
  local running, own = nil, nil
  local function put(key, value) shape.put(span, its_set, key, value) end
  local function ask(list)
    local message
    own, message = begin(list)
    if message then put("perf.error", message) end
  end
  local taken_back = {}
  local function replace(name, by)
    local before = rawget(span, name) -- the span's own method; most methods are its class's
    rawset(span, name, by)
    taken_back[#taken_back + 1] = function()
      if rawget(span, name) == by then rawset(span, name, before) end
    end
  end
  replace("finish", function(self, ...)
    if self ~= span then return its_finish(self, ...) end
    for i = 1, #taken_back do taken_back[i]() end
    local done = {}
    local function put_once(key, value) -- a setter may append
      if not done[key] then put(key, value) end
      done[key] = true
    end
    if running then finish(running, put_once) end
    if own then finish(own, put_once) end
    running, own = nil, nil -- callers may still have this function
    return its_finish(span, ...)
  end)
  replace(shape.setter, function(self, ...)
    local list = self == span and shape.events_in_set(...)
    if list then ask(list) end
    return its_set(self, ...)
  end)
  if requested then ask(requested) end
  if events then
    local message
    running, message = begin(events)
    if message then put("perf.error", message) end
  end
end

local check = checks.options "perf.observe"

--- Count events in the spans of another library's tracer.
--
--     perf.observe(tracer, {events = "task-clock,page-faults"})
--
-- Three shapes of tracer are known:
--
--     opentelemetry-lua   tracer:start(context, name, config) gives a context and a span
--     opentracing-lua     tracer:start_span(name, options) gives a span that has set_tag
--     Kong's kong.tracing tracer.start_span(name, options) gives a span that has set_attribute
--
-- The tracer's start and each span's finish and setter are replaced in the objects themselves, so other tracers and the library's
-- classes stay as they are. Just before a span finishes, it gets the attributes (tags) perf.LABEL, integers where the tracer's
-- numbers can hold them. A span with the attribute `perfevents = "cpu-cycles,cache-misses"` counts these events from then on;
-- without the option `events` only such spans count. If the machine refuses an event, the attribute perf.error has the reason,
-- and the request goes on.
-- @tparam table tracer of opentelemetry-lua, opentracing-lua or Kong
-- @tparam[opt] table options
-- @treturn table the tracer
-- @treturn function undoes the changes @fails if the machine refuses the events
-- @raise for an unknown event, and for any other tracer
function M.observe(tracer, options)
  local shape = shape_of(tracer)
  if not shape then
    argument.check_dot(tracer)
    argument.raise("a tracer of opentelemetry-lua, opentracing-lua or Kong expected, got " .. type(tracer), 1)
  end
  local events = check(options, 2).events
  if events then
    local set, message, code = requested_events.option(events, 2)
    if not set then return nil, message, code end
  end
  local before, its_start = rawget(tracer, shape.start), tracer[shape.start]
  local function started(requested, ...)
    watch(shape, shape.span(...), events, requested)
    return ...
  end
  local function observed(...)
    return started(shape.events_in_start(...), its_start(...))
  end
  rawset(tracer, shape.start, observed)
  return tracer, function()
    if rawget(tracer, shape.start) == observed then rawset(tracer, shape.start, before) end
  end
end

return M
