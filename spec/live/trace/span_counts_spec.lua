-- A span's own events are added to the tracer's, and each count comes once.
local kit = require "testkit"
local perf = require "perf"
local settled = require("spec.support.util").settled

local FAULTS = "page-faults"

-- Spans, finished one by one, as an exporter writes them.
local function written(kind, span)
  local writer = perf.exporter[kind] {}:writer { ["service.name"] = "spec" }
  writer:add(span)
  return writer:finish()
end

local function times(text, what)
  local _, n = text:gsub(what:gsub("%p", "%%%0"), "")
  return n
end

local function tracer(events, options)
  options = options or {}
  options.events, options.exporter = events, function() end
  return assert(perf.tracer(options))
end

describe("the events in a span's perfevents", function()
  before_each(function() requires { perf_open = true } end)

  -- The story: if a program set perfevents again, the measurement of the first list never ended. So the list was in use for
  -- ever, and hardware events went on counting.
  it("are no longer in use when others replace them", function()
    local t = tracer(false)
    local span = t:start "x":set_attribute("perfevents", FAULTS)
    local first = span.own_set
    assert.equal(1, (first.meter:used()))
    span:set_attribute("perfevents", "minor-faults")
    assert.equal(0, (first.meter:used()))
    kit.touch_pages(7)
    span:finish()
    assert.equal(0, (span.own_set.meter:used()))
    assert.is_true(span:totable().counts["minor-faults"] >= 7)
    t:close()
  end)

  it("are counted as far as the machine can", function()
    settled(function()
      local t = tracer(false)
      for _, list in ipairs { "page-faults,no-such,dummy", { "page-faults", "no-such", "dummy" } } do
        local span = t:start("x", { attributes = { perfevents = list } })
        kit.touch_pages(12)
        span:finish()
        local s = span:totable()
        assert.same({ [FAULTS] = 12, dummy = 0 }, s.counts)
        assert.matches("^no%-such: unknown event", s.attributes["perf.error"])
      end
    end)
    local t = tracer(false)
    for _, wrong in ipairs { "no-such", "", "page-faults,", "{dummy", 5, true, { true, "no-such" } } do
      local span = t:start("x", { attributes = { perfevents = wrong } })
      span:finish()
      local s = span:totable()
      assert.same({}, s.counts)
      assert.is_nil(s.attributes["perf.error"]:find("%.lua:%d"), s.attributes["perf.error"])
    end
  end)

  it("are not counted in a pause", function()
    settled(function()
      local t = tracer(false)
      local span = t:start "x":pause():set_attribute("perfevents", FAULTS)
      kit.touch_pages(10)
      span:finish()
      assert.same({}, span:totable().counts)
      span = t:start "x":pause():set_attribute("perfevents", FAULTS)
      kit.touch_pages(10)
      span:resume()
      kit.touch_pages(3)
      span:finish()
      assert.same({ [FAULTS] = 3 }, span:totable().counts)
    end)
  end)

  it("appear once if the tracer counts them too", function()
    settled(function()
      local t = tracer(FAULTS, { metrics = { buckets = { 1 } } })
      local span = t:start "x"
      kit.touch_pages(8)
      span:set_attribute("perfevents", "dummy," .. FAULTS)
      kit.touch_pages(4)
      span:finish()
      local s = span:totable()
      assert.same({ [FAULTS] = 12, dummy = 0 }, s.counts)
      assert.same({ [FAULTS] = 12 }, s.self_counts)
      assert.equal(1, times(written("otlp", span), '"perf.page-faults"'))
      assert.equal(1, times(written("zipkin", span), '"perf.page-faults"'))
      assert.matches('perf_page_faults_count{span="x"} 1\n', t:prometheus())
    end)
  end)
end)

describe("a count of a span", function()
  before_each(function() requires { perf_open = true } end)

  it("appears once if the tracer names its event twice", function()
    local t = tracer("page-faults,page-faults,dummy", { metrics = true })
    local span = t:start "x"
    span:finish()
    for _, kind in ipairs { "otlp", "zipkin" } do
      local text = written(kind, span)
      assert.equal(1, times(text, '"perf.page-faults"'))
      assert.equal(1, times(text, '"perf.self.page-faults"'))
      assert.equal(1, times(text, '"perf.dummy"'))
    end
    assert.matches('perf_page_faults_count{span="x"} 1\n', t:prometheus())
  end)

  it("replaces an attribute of the same name", function()
    local t = tracer "dummy"
    local span = t:start("x", { attributes = { ["perf.dummy"] = "mine", ["perf.self.dummy"] = 5, ["perf.else"] = "kept" } })
    span:finish()
    for _, kind in ipairs { "otlp", "zipkin" } do
      local text = written(kind, span)
      assert.equal(1, times(text, '"perf.dummy"'))
      assert.equal(1, times(text, '"perf.self.dummy"'))
      assert.equal(1, times(text, '"perf.else"'))
      assert.equal(0, times(text, "mine"))
    end
  end)
end)
