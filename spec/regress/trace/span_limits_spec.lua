-- The story: a span that was started with 10,002 attributes was sent with all of them, and reported none as dropped; attributes
-- of events, links and the lengths of values had no limit at all, and of OpenTelemetry's variables only two were read.
local perf = require "perf"
local posted = require "spec.support.posted"
local util = require "spec.support.util"

local TRACE, SPAN = ("ab"):rep(16), ("cd"):rep(8)

local function many(n, v)
  local t = {}
  for i = 1, n do t["k" .. i] = v or i end
  return t
end

local function size(t)
  local n = 0
  for _ in pairs(t or {}) do n = n + 1 end
  return n
end

-- The request for one span that fill(tracer) makes.
local function sent(limits, fill)
  local exporter, bodies = posted "otlp"
  local t = assert(perf.tracer { events = false, exporter = exporter, limits = limits })
  local span = fill(t)
  span:finish()
  assert.is_true(t:flush())
  t:close()
  local body = assert(require "dkjson".decode(bodies[1]))
  return body.resourceSpans[1].scopeSpans[1].spans[1], span
end

local function values(list)
  local t = {}
  for _, a in ipairs(list) do t[a.key] = a.value.stringValue or a.value.arrayValue and a.value.arrayValue.values or a.value end
  return t
end

describe("the limits of a span", function()
  before_each(function() requires { module = "dkjson" } end)

  it("hold for attributes at its start and for later ones", function()
    local s = sent(nil, function(t) return t:start("x", { attributes = many(10002) }) end)
    assert.same({ 128, 9874 }, { #s.attributes, s.droppedAttributesCount })
    s = sent(nil, function(t) return t:start("x", { attributes = many(100) }):set_attributes(many(300)) end)
    assert.same({ 128, 172 }, { #s.attributes, s.droppedAttributesCount })
    s = sent({ attributes = 2 }, function(t)
      local span = t:start("x", { attributes = { a = 1 } })
      return span:set_attribute("b", 1):set_attribute("c", 1):set_attribute("a", "new"):set_attribute("b", nil)
        :set_attribute("d", "there is room again")
    end)
    assert.same({ a = "new", d = "there is room again" }, values(s.attributes))
    assert.equal(1, s.droppedAttributesCount)
    s = sent({ attributes = 0 }, function(t) return t:start("x", { attributes = { a = 1 } }):set_attribute("b", 1) end)
    assert.same({ 0, 2 }, { #s.attributes, s.droppedAttributesCount })
  end)

  it("hold for events, and for the attributes of each", function()
    local s = sent({ events = 3, event_attributes = 2 }, function(t)
      local span = t:start "x"
      for i = 1, 5 do span:add_event("e" .. i, many(i)) end
      return span:record_error "too late"
    end)
    assert.same({ 3, 3 }, { #s.events, s.droppedEventsCount })
    assert.same({ 2, 1 }, { #s.events[3].attributes, s.events[3].droppedAttributesCount })
    assert.is_nil(s.events[2].droppedAttributesCount)
    s = sent(nil, function(t) return t:start "x":add_event("e", many(200)) end)
    assert.same({ 128, 72 }, { #s.events[1].attributes, s.events[1].droppedAttributesCount })
  end)

  it("hold for links, and for the attributes of each", function()
    local list = {}
    for i = 1, 200 do list[i] = { trace_id = TRACE, span_id = SPAN, attributes = many(i) } end
    local s = sent({ link_attributes = 5 }, function(t)
      return t:start("x", { links = list }):add_link({ trace_id = TRACE, span_id = SPAN })
    end)
    assert.same({ 128, 73 }, { #s.links, s.droppedLinksCount })
    assert.same({ 5, 3 }, { #s.links[8].attributes, s.links[8].droppedAttributesCount })
    s = sent({ links = 2, attribute_length = 1 }, function(t)
      local other = t:start("other", { attributes = { not_the_links = 1 } })
      return t:start("x", { links = { other } }):add_link(other, { a = "long" }):add_link(other)
    end)
    assert.same({ 2, 1 }, { #s.links, s.droppedLinksCount })
    assert.is_nil(s.links[1].attributes)
    assert.same({ a = "l" }, values(s.links[2].attributes))
  end)

  it("hold for the lengths of all values, in characters", function()
    local link = { trace_id = TRACE, span_id = SPAN, attributes = { s = "abcdef" } }
    local s = sent({ attribute_length = 3 }, function(t)
      local span = t:start("a long name stays", { attributes = { s = "abcdef", u = "äöüß", list = { "abcdef", 12345, "ab" } },
        links = { link } })
      span:set_attribute("later", ("\240\159\152\128"):rep(3) .. "x")
      return span:set_attribute("wrong", "\255\255ab\255")
        :add_event("event stays", { s = "abcdef", n = 123456 }):record_error("abcdef", "traceback")
    end)
    local a = values(s.attributes)
    assert.same({ "abc", "äöü", "\240\159\152\128\240\159\152\128\240\159\152\128", "\239\191\189\239\191\189a" },
      { a.s, a.u, a.later, a.wrong })
    assert.same({ { stringValue = "abc" }, { intValue = "12345" }, { stringValue = "ab" } }, a.list)
    assert.equal("a long name stays", s.name)
    assert.same({ s = "abc", n = { intValue = "123456" } }, values(s.events[1].attributes))
    assert.same({ ["exception.message"] = "abc", ["exception.type"] = "str", ["exception.stacktrace"] = "tra" },
      values(s.events[2].attributes))
    assert.same({ s = "abc" }, values(s.links[1].attributes))
    assert.same({ s = "" }, values(sent({ attribute_length = 0 }, function(t)
      return t:start("x", { attributes = { s = "abc" } })
    end).attributes))
    local long = ("x"):rep(1e6)
    assert.equal(long, values(sent(nil, function(t) return t:start("x", { attributes = { s = long } }) end).attributes).s)
  end)

  it("do not apply to the counts, nor to the library's own attributes", function()
    requires { perf_open = true }
    local exporter, bodies = posted "otlp"
    local t = assert(perf.tracer { events = "page-faults", exporter = exporter,
      limits = { attributes = 0, attribute_length = 4 } })
    t:start("x", { attributes = { perfevents = "task-clock" } }):finish()
    t:start "y":set_attribute("perfevents", "no-such-event"):finish()
    t:flush()
    t:close()
    local spans = assert(require "dkjson".decode(bodies[1])).resourceSpans[1].scopeSpans[1].spans
    local x = values(spans[1].attributes)
    assert.is_truthy(x["perf.page-faults"])
    assert.is_truthy(x["perf.task-clock"])
    assert.equal(1, spans[1].droppedAttributesCount)
    assert.matches("no%-such%-event", values(spans[2].attributes)["perf.error"])
  end)

  it("are counted in Zipkin's tags and in plain spans", function()
    local exporter, bodies = posted "zipkin"
    local t = assert(perf.tracer { events = false, exporter = exporter, limits = { attributes = 1, events = 1, links = 0 } })
    local span = t:start("x", { attributes = many(3), links = { { trace_id = TRACE, span_id = SPAN } } })
    span:add_event "a":add_event "b":finish()
    t:flush()
    t:close()
    local tags = assert(require "dkjson".decode(bodies[1]))[1].tags
    assert.same({ "2", "1", "1" }, { tags["otel.dropped_attributes_count"], tags["otel.dropped_events_count"],
      tags["otel.dropped_links_count"] })
    local plain = span:totable()
    assert.same({ 2, 1, 1, 1 }, { plain.dropped_attributes, plain.dropped_events, plain.dropped_links, size(plain.attributes) })
  end)

  -- Removing perf.error, which the library sets, made room for one attribute more than the limit.
  it("do not count an attribute of the library's own, also after it is removed", function()
    local span = assert(perf.tracer { events = false, exporter = false, limits = { attributes = 2 } }):start "x"
    span:set_attribute("perfevents", "no-such-event")
    assert.matches("unknown event", span:totable().attributes["perf.error"])
    span:set_attribute("perf.error", nil):set_attribute("a", 1):set_attribute("b", 2)
    assert.same({ perfevents = "no-such-event", a = 1 }, span:totable().attributes)
    assert.equal(1, span:totable().dropped_attributes)
    span:set_attribute("a", nil):set_attribute("b", 2)
    assert.same({ perfevents = "no-such-event", b = 2 }, span:totable().attributes)
  end)

  it("come from the environment, from a specific or a general variable", function()
    local code = [[
      local t = require "perf".tracer {events = false, exporter = false}
      local l = t.limits
      print(l.attributes, l.attribute_length, l.events, l.links, l.event_attributes, l.link_attributes)]]
    local function limits(env)
      local output = util.shell(("env %s %s -e '%s'"):format(env, util.lua(), code))
      return (output:gsub("%.0%f[%s]", ""):gsub("\t", " "):gsub("%s+$", ""))
    end
    assert.equal("128 inf 128 128 128 128", limits "")
    assert.equal("1 2 3 4 5 6", limits("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=1 OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT=2 "
      .. "OTEL_SPAN_EVENT_COUNT_LIMIT=3 OTEL_SPAN_LINK_COUNT_LIMIT=4 OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT=5 "
      .. "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT=6 OTEL_ATTRIBUTE_COUNT_LIMIT=9 OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT=9"))
    assert.equal("9 8 128 128 9 9", limits "OTEL_ATTRIBUTE_COUNT_LIMIT=9 OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT=8")
    assert.equal("128 inf 0 128 128 128", limits "OTEL_SPAN_EVENT_COUNT_LIMIT=0")
  end)

  it("are checked if a program gives them", function()
    for limits, pattern in pairs { [{ attributes = -1 }] = "option 'limits.attributes': a whole number from 0",
      [{ attribute_length = 0.5 }] = "option 'limits.attribute_length': a whole number from 0, or math.huge",
      [{ spans = 1 }] = "unknown option 'spans'" } do
      local message = util.message_of(perf.tracer, { events = false, exporter = false, limits = limits })
      assert.matches(pattern, message, 1, true)
    end
    local span = assert(perf.tracer { events = false, exporter = false }):start "x"
    assert.matches("context expected, got string", util.message_of(span.add_link, span, "x"), 1, true)
    assert.matches("attribute 'f': string", util.message_of(span.add_link, span, { trace_id = TRACE, span_id = SPAN },
      { f = print }), 1, true)
  end)
end)
