local foreign = require "spec.support.foreign_tracers"
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local settled = util.settled
local FAULTS = "perf.page-faults"

local function by_key(list)
  local t = {}
  for _, a in ipairs(list) do t[a.key] = a.value.int_value or a.value.string_value end
  return t
end

describe("perf.observe", function()
  before_each(function() requires { perf_open = true } end)

  it("counts spans of opentelemetry-lua", function()
    settled(function()
      local tracer, context, finished = foreign.opentelemetry()
      assert.equal(tracer, (perf.observe(tracer, { events = "page-faults" })))
      local inner_context, outer = tracer:start(context, "outer", { attributes = { foreign.string("a", "b") } })
      assert.equal(outer, inner_context.sp)
      kit.touch_pages(10)
      local _, inner = tracer:start(inner_context, "inner")
      kit.touch_pages(64)
      inner:finish()
      outer:finish(77)
      outer:finish()
      assert.equal(2, #finished)
      assert.same({ [FAULTS] = 64 }, by_key(finished[1].attributes))
      assert.same({ [FAULTS] = 74, a = "b" }, by_key(finished[2].attributes))
      assert.equal(77, outer.end_time)
      assert.is_nil(rawget(outer, "finish")) -- nothing is left in it
      assert.is_nil(rawget(outer, "set_attributes"))
    end)
  end)

  it("counts spans of opentracing-lua", function()
    settled(function()
      local tracer, finished = foreign.opentracing()
      perf.observe(tracer, { events = { "page-faults", "dummy" } })
      local outer = tracer:start_span("outer", { tags = { a = 1 } })
      local inner = outer:start_child_span "inner"
      kit.touch_pages(64)
      assert.is_true(inner:finish(5))
      outer:finish()
      assert.same({ [FAULTS] = 64, ["perf.dummy"] = 0 }, finished[1].tags)
      assert.equal(64, finished[2].tags[FAULTS])
      assert.equal(1, finished[2].tags.a)
      assert.equal(5, inner.duration)
    end)
  end)

  it("counts spans of Kong's tracer", function()
    settled(function()
      local tracer, finished = foreign.kong()
      perf.observe(tracer, { events = "page-faults" })
      local span = tracer.start_span("x", { attributes = { a = 1 } })
      kit.touch_pages(64)
      span:finish()
      span:finish()
      assert.equal(1, #finished)
      assert.same({ a = 1, [FAULTS] = 64 }, span.attributes)
    end)
  end)

  it("restores the methods of a span that has its own", function()
    local tracer = {}
    function tracer.start_span()
      local span = { tags = {} }
      function span:set_tag(key, value) self.tags[key] = value end
      function span:finish() self:set_tag("done", true) end
      return span
    end
    perf.observe(tracer, { events = "dummy" })
    perf.observe(tracer, { events = "page-faults" })
    local span = tracer:start_span "x"
    span:finish()
    span:set_tag("after", true)
    span:finish()
    assert.is_number(span.tags[FAULTS])
    assert.same({ done = true, after = true, ["perf.dummy"] = 0, [FAULTS] = span.tags[FAULTS] }, span.tags)
  end)

  it("counts the events in a span's perfevents, set at its start or later", function()
    settled(function()
      local tracer, finished = foreign.opentracing()
      perf.observe(tracer)
      local first = tracer:start_span("first", { tags = { perfevents = "page-faults,minor-faults" } })
      kit.touch_pages(12)
      first:finish()
      local later = tracer:start_span "later"
      kit.touch_pages(100)
      later:set_tag("perfevents", "page-faults")
      kit.touch_pages(8)
      later:finish()
      tracer:start_span "none":finish()
      assert.equal(12, finished[1].tags[FAULTS])
      assert.equal(12, finished[1].tags["perf.minor-faults"])
      assert.equal(8, finished[2].tags[FAULTS])
      assert.is_nil(finished[3].tags)
    end)
    local tracer, context, finished = foreign.opentelemetry()
    perf.observe(tracer)
    local _, span = tracer:start(context, "x", { attributes = { foreign.string("perfevents", "dummy") } })
    span:finish()
    _, span = tracer:start(context, "y")
    span:set_attributes(foreign.string("a", "b"), foreign.string("perfevents", "dummy"))
    span:finish()
    assert.equal(0, by_key(finished[1].attributes)["perf.dummy"])
    assert.equal(0, by_key(finished[2].attributes)["perf.dummy"])
    tracer, finished = foreign.kong()
    perf.observe(tracer)
    tracer.start_span("x", { attributes = { perfevents = "dummy" } }):finish()
    assert.equal(0, finished[1].attributes["perf.dummy"])
  end)

  it("counts those events in a span's perfevents that it can, and gives each count once", function()
    local tracer, context, finished = foreign.opentelemetry()
    perf.observe(tracer, { events = "dummy,dummy" })
    local _, span = tracer:start(context, "x", { attributes = { foreign.string("perfevents", "dummy,no-such,page-faults") } })
    span:finish()
    local keys = {}
    for _, a in ipairs(finished[1].attributes) do
      assert.is_nil(keys[a.key], a.key)
      keys[a.key] = a.value
    end
    assert.is_truthy(keys["perf.dummy"] and keys[FAULTS])
    assert.matches("^no%-such: unknown event", keys["perf.error"].string_value)
  end)

  it("does not count spans that are not recorded", function()
    local tracer, context = foreign.opentelemetry()
    tracer.provider.sampled = false
    perf.observe(tracer, { events = "dummy" })
    local _, span = tracer:start(context, "x")
    local finish = span.finish
    assert.equal(finish, span.finish)
    span:finish()
    tracer = foreign.kong()
    tracer.sampled = false
    perf.observe(tracer, { events = "dummy" })
    tracer.start_span "x":finish()
  end)

  it("goes on if an event is not available", function()
    local tracer, finished = foreign.opentracing()
    perf.observe(tracer)
    tracer:start_span("x", { tags = { perfevents = "no-such-event" } }):finish()
    assert.matches("no%-such%-event: unknown event", finished[1].tags["perf.error"])
    local refused = { type = 0x7ffffff0, config = 0, label = "nothing" }
    local t, message, code = perf.observe(foreign.opentracing(), { events = { refused } })
    assert.is_nil(t)
    assert.matches("nothing", message)
    assert.equal("ENOENT", code)
  end)

  it("can be undone, and does not change other tracers", function()
    local tracer, finished = foreign.opentracing()
    local class_start = getmetatable(tracer).__index.start_span
    local _, restore = perf.observe(tracer, { events = "dummy" })
    assert.equal(class_start, getmetatable(tracer).__index.start_span)
    restore()
    restore()
    assert.equal(class_start, tracer.start_span)
    tracer:start_span "x":finish()
    assert.is_nil(finished[1].tags)
  end)

  it("counts nothing for the parent's spans in the child of a fork", function()
    local tracer, finished = foreign.opentracing()
    perf.observe(tracer, { events = "page-faults" })
    local span = tracer:start_span "x"
    util.in_child(function()
      span:finish()
      assert(finished[1].tags == nil)
      local own = tracer:start_span "own"
      kit.touch_pages(20)
      own:finish()
      assert(finished[2].tags[FAULTS] >= 20)
    end)
    span:finish()
    assert.is_number(finished[1].tags[FAULTS])
  end)

  it("raises an error for a mistake", function()
    local function raises(pattern, ...)
      local ok, message = pcall(perf.observe, ...)
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
    raises("a tracer of opentelemetry%-lua, opentracing%-lua or Kong expected, got nil", nil)
    raises("expected, got table", {})
    raises("unknown option 'evnts'", foreign.kong(), { evnts = "x" })
    raises("unknown event; did you mean 'page%-faults'", foreign.kong(), { events = "page-fautls" })
  end)
end)
