-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local perf = require "perf"
local tracer = require("spec.support.spans").tracer
local util = require "spec.support.util"

local settled = util.settled
local FAULTS = util.FAULTS

describe("perf.tracer", function()
  before_each(function() requires { perf_open = "user" } end)

  it("counts a span", function()
    settled(function()
      local t, list = tracer()
      local span = t:start "work"
      kit.touch_pages(64)
      span:finish()
      kit.touch_pages(10)
      span:finish() -- a second finish does nothing
      assert.is_true(t:flush())
      assert.equal(1, #list)
      assert.equal(64, list.work.counts[FAULTS])
      assert.equal(64, list.work.self_counts[FAULTS])
      assert.equal("internal", list.work.kind)
      assert.is_nil(list.work.parent_id)
      assert.is_true(list.work.duration_ns > 0)
    end)
  end)

  it("counts the work of children once, in self and total counts", function()
    requires { nosan = true } -- its memory is new each time, and faults
    settled(function()
      local t, list = tracer()
      t:span("outer", function()
        kit.touch_pages(10)
        t:span("inner", function()
          kit.touch_pages(20)
          t:span("innermost", kit.touch_pages, 40)
        end)
        t:span("second", kit.touch_pages, 5)
      end)
      t:flush()
      local totals, own, sum = {}, {}, 0
      for _, s in ipairs(list) do
        totals[s.name], own[s.name] = s.counts[FAULTS], s.self_counts[FAULTS]
        sum = sum + s.self_counts[FAULTS]
        assert.equal(list.outer.trace_id, s.trace_id)
      end
      assert.same({ outer = 75, inner = 60, innermost = 40, second = 5 }, totals)
      assert.same({ outer = 10, inner = 20, innermost = 40, second = 5 }, own)
      assert.equal(75, sum)
      assert.equal(list.outer.span_id, list.inner.parent_id)
      assert.equal(list.inner.span_id, list.innermost.parent_id)
      assert.equal(list.outer.span_id, list.second.parent_id)
    end)
  end)

  it("leaves self counts out if children overlap or outlive their parent", function()
    local t, list = tracer()
    local outer = t:start "outer"
    local a, b = t:start("a", { parent = outer }), t:start("b", { parent = outer })
    a:finish()
    b:finish()
    outer:finish()
    local early = t:start "early"
    local late = t:start("late", { parent = early })
    early:finish()
    late:finish()
    t:flush()
    assert.is_nil(list.outer.self_counts[FAULTS])
    assert.is_number(list.outer.counts[FAULTS])
    assert.is_nil(list.early.self_counts[FAULTS])
    assert.equal(list.early.span_id, list.late.parent_id)
  end)

  it("does not count while a span is paused", function()
    settled(function()
      local t, list = tracer()
      local span = t:start "work"
      for _ = 1, 3 do
        kit.touch_pages(10)
        span:pause():pause()
        kit.touch_pages(1000)
        span:resume():resume()
      end
      span:finish()
      local paused = t:start "ends in a pause"
      kit.touch_pages(7)
      paused:pause()
      kit.touch_pages(100)
      paused:finish()
      t:flush()
      assert.equal(30, list.work.counts[FAULTS])
      assert.equal(7, list["ends in a pause"].counts[FAULTS])
      assert.is_true(list.work.duration_ns > 0)
    end)
  end)

  it("separates two spans that take turns", function()
    settled(function()
      local t, list = tracer()
      local function work(name, pages)
        local span = t:start(name)
        for _ = 1, 5 do
          kit.touch_pages(pages)
          span:pause()
          coroutine.yield()
          span:resume()
        end
        span:finish()
      end
      local a, b = coroutine.create(work), coroutine.create(work)
      coroutine.resume(a, "a", 3)
      coroutine.resume(b, "b", 20)
      while coroutine.status(b) ~= "dead" do
        assert(coroutine.resume(a))
        assert(coroutine.resume(b))
      end
      t:flush()
      assert.equal(15, list.a.counts[FAULTS])
      assert.equal(100, list.b.counts[FAULTS])
    end)
  end)

  it("accepts counts that were measured elsewhere", function()
    local t, list = tracer()
    local outer = t:start "outer"
    local c = perf.measure(FAULTS .. ",dummy", kit.touch_pages, 9)
    local n = c[FAULTS]
    local inner = t:start("inner", { parent = outer }):set_counts(c)
    inner:finish()
    outer:set_counts(c + c)
    outer:finish()
    t:flush()
    assert.equal(n, list.inner.counts[FAULTS])
    assert.equal(2 * n, list.outer.counts[FAULTS])
    assert.equal(n, list.outer.self_counts[FAULTS])
    assert.equal(0, list.outer.counts.dummy)
    assert.error_matches(function() t:start "x":set_counts(5) end, "Counts expected, got number")
  end)

  it("counts a span's own events, by its attribute perfevents", function()
    requires { perf_open = true }
    settled(function()
      local t, list = tracer { events = false }
      local span = t:start("at once", { attributes = { perfevents = "minor-faults,dummy" } })
      kit.touch_pages(12)
      span:finish()
      local later = t:start "later"
      kit.touch_pages(100)
      later:set_attribute("perfevents", { FAULTS })
      kit.touch_pages(8)
      later:pause()
      kit.touch_pages(100)
      later:resume()
      later:finish()
      t:flush()
      assert.same({ ["minor-faults"] = 12, dummy = 0 }, list["at once"].counts)
      assert.same({ [FAULTS] = 8 }, list.later.counts)
    end)
  end)

  it("goes on if a span's own events are not available", function()
    local t, list = tracer()
    t:start("x", { attributes = { perfevents = "no-such-event" } }):finish()
    t:flush()
    assert.matches("no%-such%-event: unknown event", list.x.attributes["perf.error"])
  end)

  it("runs a function in a span, with its results, errors and yields", function()
    local t, list = tracer()
    assert.same({ n = 3, nil, 2, nil }, (function(...) return { n = select("#", ...), ... } end)(
      t:span("results", function(...) return ... end, nil, 2, nil)))
    local err = { "its own" }
    local ok, got = pcall(t.span, t, "fails", { kind = "client" }, function() error(err) end)
    assert.is_false(ok)
    assert.equal(err, got)
    assert.has_error(function() t:span("text", function() error("text", 0) end) end, "text")
    local co = coroutine.wrap(function()
      return t:span("yields", function(a)
        local b = coroutine.yield(a + 1)
        assert.equal("yields", t:current().name)
        return b * 2
      end, 1)
    end)
    assert.equal(2, co())
    assert.is_nil(t:current())
    assert.equal(10, co(5))
    assert.is_nil(t:current())
    t:flush()
    assert.equal("client", list.fails.kind)
    assert.equal("error", list.fails.status)
    assert.equal("exception", list.text.events[1].name)
    assert.equal("text", list.text.message)
    assert.equal("text", list.text.events[1].attributes["exception.message"])
    assert.matches("tracer_spec.lua:%d+:", list.text.events[1].attributes["exception.stacktrace"])
    assert.equal("unset", list.yields.status)
  end)

  it("has a current span for each coroutine", function()
    local t = tracer()
    t:span("main", function()
      assert.equal("main", t:current().name)
      local co = coroutine.create(function()
        assert.is_nil(t:current())
        t:span("other", function()
          coroutine.yield()
          assert.equal("other", t:current().name)
        end)
      end)
      assert(coroutine.resume(co))
      assert.equal("main", t:current().name)
      assert(coroutine.resume(co))
      assert.equal(t:current(), t:current())
      assert.equal(t:current().span_id, t:start "child".parent_id)
      assert.is_nil(t:start("root", { parent = false }).parent_id)
    end)
  end)

  it("keeps attributes, events, status, links", function()
    local t, list = tracer()
    local given = { a = 1, list = { "x", true, 2.5 } }
    local other = t:start "other"
    local span = t:start("x", { attributes = given, links = { other:context() } })
    given.a = 2
    span:set_attribute("b", true):set_attributes({ c = "d" }):set_attribute("a", nil):set_name "y"
    span:add_event("seen", { n = 1 }):set_status("error", "bad"):set_status "ok"
    span:finish()
    span:set_attribute("late", 1):add_event "late":set_name "late":set_status "error"
    t:flush()
    local s = list.y
    assert.same({ b = true, c = "d", list = { "x", true, 2.5 } }, s.attributes)
    assert.equal("ok", s.status)
    assert.equal(1, #s.events)
    assert.same({ n = 1 }, s.events[1].attributes)
    assert.is_nil(s.message)
  end)

  it("limits the number of attributes and events", function()
    local t, list = tracer { events = false }
    local span = t:start "x"
    for i = 1, 200 do span:set_attribute("k" .. i, i):add_event("e" .. i) end
    span:set_attribute("k1", "new")
    span:finish()
    t:flush()
    local n = 0
    for _ in pairs(list.x.attributes) do n = n + 1 end
    assert.equal(128, n)
    assert.equal(128, #list.x.events)
    assert.equal("new", list.x.attributes.k1)
    assert.equal(72, span.dropped)
    assert.equal(72, span.dropped_events)
  end)

  it("accepts times that were measured elsewhere", function()
    local t, list = tracer { events = false }
    local span = t:start("x", { start_ns = 1700000000000000000 })
    span:finish(1700000000000512000)
    local other = t:start("y", { start_ns = "0x18e9fc5fda4864d6" })
    other:finish()
    t:flush()
    assert.equal(512000, list.x.duration_ns)
    assert.matches("^0?x?18e9fc5fda4864d6$", perf.hex(list.y.start_ns):gsub("^0x", ""))
  end)

  it("propagates contexts", function()
    local t = tracer { propagators = { "tracecontext", "b3" } }
    local headers = {}
    local sent
    t:span("client", { kind = "client" }, function()
      sent = t:current()
      t:inject(headers)
    end)
    assert.equal(("00-%s-%s-01"):format(sent.trace_id, sent.span_id), headers.traceparent)
    assert.equal(("%s-%s-1"):format(sent.trace_id, sent.span_id), headers.b3)
    headers.tracestate = "vendor=1"
    local server = t:start("server", { parent = t:extract(headers), kind = "server" })
    assert.equal(sent.trace_id, server.trace_id)
    assert.equal(sent.span_id, server.parent_id)
    assert.equal("vendor=1", server:context().tracestate)
    assert.is_nil(t:extract {})
    assert.same({}, t:inject {})
    assert.is_nil(t:start("root", { parent = t:extract {} }).parent_id)
  end)

  it("samples traces", function()
    local t, list = tracer { sampler = 0 }
    local span = t:start "x"
    assert.is_false(span:is_recording())
    assert.equal(span, span:set_attribute("a", 1):add_event "e":pause():resume():set_status "ok")
    assert.matches("%-00$", span:inject({}).traceparent)
    t:span("outer", function() t:start "child":finish() end)
    t:start("told to", { parent = { trace_id = span.trace_id, span_id = span.span_id, sampled = true } }):finish()
    t:start("told not to", { parent = { sampled = false } }):finish()
    span:finish()
    t:flush()
    assert.equal(1, #list)
    assert.is_truthy(list["told to"])
    local asked = {}
    t, list = tracer { sampler = function(_, _, name) asked[#asked + 1] = name return name == "yes" end }
    t:start "yes":finish()
    t:start "no":finish()
    t:flush()
    assert.same({ "yes", "no" }, asked)
    assert.equal(1, #list)
  end)

  it("sends a batch when it is full, and counts spans that do not fit into the queue", function()
    local t, list = tracer { queue = 8, batch = 4, delay = 1000 }
    for _ = 1, 3 do t:start "x":finish() end
    assert.equal(0, #list)
    t:start "x":finish()
    assert.equal(4, #list)
    assert.same({ made = 4, sent = 4, dropped = 0, queued = 0, failures = 0 }, t:stats())
    local stuck = tracer { queue = 3, batch = 3, delay = 1000, exporter = function() error "down" end }
    for _ = 1, 7 do stuck:start "x":finish() end
    local s = stuck:stats()
    assert.equal(7, s.made)
    assert.equal(s.made, s.sent + s.dropped + s.queued)
    assert.matches("down", s.last_error)
    local ok, message, code = stuck:flush()
    assert.is_nil(ok)
    assert.matches("down", message)
    assert.equal("EIO", code)
  end)

  it("begins anew in the child of a fork", function()
    local t, list = tracer { delay = 1000 }
    local open = t:start "open"
    t:start "queued":finish()
    local id = t:start("x").span_id
    local text = util.in_child(function()
      open:finish() -- the parent's
      local s = t:start "child's"
      kit.touch_pages(20)
      s:finish()
      t:flush()
      assert(list["child's"] and not list.queued and not list.open)
      assert(s.span_id ~= id)
      assert(list["child's"].counts[FAULTS] >= 20 and t:stats().made == 1)
      return "fine"
    end)
    assert.equal("fine", text)
    open:finish()
    t:flush()
    assert.is_truthy(list.open and list.queued)
    assert.is_nil(list["child's"])
  end)

  it("goes on counting after perf.release", function()
    local t, list = tracer()
    t:start "before":finish()
    perf.release()
    local span = t:start "after"
    kit.touch_pages(20)
    span:finish()
    t:flush()
    assert.is_true(list.before.counts[FAULTS] ~= nil and list.after.counts[FAULTS] >= 20)
  end)

  it("makes no growing garbage", function()
    requires { nostress = true }
    local t = tracer { queue = 64, batch = 64, exporter = function() end }
    local function run(n)
      for _ = 1, n do
        t:span("outer", function() t:start "inner":set_attribute("k", "v"):finish() end)
      end
      t:flush() -- spans in the queue are not garbage
      collectgarbage()
      collectgarbage()
      return collectgarbage "count"
    end
    run(3000) -- tables grow to their size
    local before = run(3000)
    local growth = run(3000) - before
    assert.is_true(growth < 64, growth)
  end)

  it("is closed by <close>", function()
    requires { lua = "5.4" }
    local t, list = tracer()
    local f = assert(load [[local t = ...
      do local s <close> = t:start "fine" end
      pcall(function() local s <close> = t:start "fails" error "oh" end)]])
    f(t)
    t:flush()
    assert.equal("unset", list.fine.status)
    assert.equal("error", list.fails.status)
  end)

  it("raises for mistakes", function()
    local t = tracer()
    local function raises(pattern, fn, ...)
      local ok, message = pcall(fn, ...)
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
    raises("unknown option 'evnts'", perf.tracer, { evnts = 1 })
    raises("unknown event; did you mean 'page%-faults'", perf.tracer, { events = "page-fautls", exporter = false })
    raises("unknown sampler 'x'", perf.tracer, { sampler = "x" })
    raises("'batch': more than 'queue'", perf.tracer, { batch = 10, queue = 5 })
    raises("'queue': a whole number from 1", perf.tracer, { queue = 0 })
    raises("'exporter': an exporter of perf.exporter", perf.tracer, { exporter = {} })
    raises("unknown 'w3c'; there are tracecontext, b3, b3multi", perf.tracer, { propagators = { "w3c" } })
    raises("unknown option 'url'", perf.exporter.otlp, { url = "x" })
    raises("'ftp://x' is not an http or https URL", perf.exporter.otlp, { endpoint = "ftp://x" })
    raises("unknown compression 'br'", perf.exporter.otlp, { compression = "br" })
    raises("tracer_spec.lua.*string expected, got nil", function() t:start() end)
    raises("tracer_spec.lua.*unknown option 'knid'", function() t:start("x", { knid = 1 }) end)
    raises("did you mean 'server'", function() t:start("x", { kind = "srever" }) end)
    raises("attribute 'a': string, number", function() t:start "x":set_attribute("a", print) end)
    raises("'ok', 'error' or 'unset'", function() t:start "x":set_status "fine" end)
    raises("function expected, got nil", function() t:span "x" end)
    raises("no metrics", function() t:prometheus() end)
  end)

  it("reports a refusal of the machine", function()
    requires { perf_open = true }
    local t, message, code = perf.tracer { events = { { type = 0x7ffffff0, config = 0, label = "nothing" } }, exporter = false }
    assert.is_nil(t)
    assert.matches("nothing", message)
    assert.equal("ENOENT", code)
  end)

  it("reads the environment", function()
    local code = [[
      local t = require "perf".tracer {events = false}
      local e = t.sender and t.sender.exporter
      print(t.resource["service.name"], t.resource.a, t.resource["b c"], tostring(e), e and e.timeout, e and e.headers.k,
        t.sender and t.sender.most, t.sender and t.sender.queue.size, t:start "x".sampled, table.concat(t.propagators, "+"),
        table.concat(t.warnings, "; "))]]
    local function run(env)
      return (util.shell(("env %s %s -e '%s' 2>/dev/null"):format(env, util.lua(), (code:gsub("\n", " ")))):gsub("%s*\n$", ""))
    end
    assert.equal("unknown_service:lua\tnil\tnil\tperf.exporter.otlp to http://localhost:4318/v1/traces\t10\tnil\t512\t2048\t"
      .. "true\ttracecontext", (run(""):gsub("10%.0", "10")))
    assert.equal("shop\t1\tü\tperf.exporter.otlp to http://h:1/p/v1/traces\t2.5\tv=1\t5\t7\tfalse\tb3+b3multi", run [[
      OTEL_SERVICE_NAME=shop OTEL_RESOURCE_ATTRIBUTES='a=1,b c=%c3%bc,service.name=no' OTEL_EXPORTER_OTLP_ENDPOINT=http://h:1/p/ \
      OTEL_EXPORTER_OTLP_TIMEOUT=2500 OTEL_EXPORTER_OTLP_HEADERS=k=v%3d1 OTEL_BSP_MAX_EXPORT_BATCH_SIZE=5 \
      OTEL_BSP_MAX_QUEUE_SIZE=7 OTEL_TRACES_SAMPLER=always_off OTEL_PROPAGATORS=b3,b3multi]])
    assert.matches("perf.exporter.otlp to https://h/exact\t", run "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://h/exact")
    assert.matches("perf.exporter.zipkin to http://z:9411/api/v2/spans\t",
      run "OTEL_TRACES_EXPORTER=zipkin OTEL_EXPORTER_ZIPKIN_ENDPOINT=http://z:9411")
    assert.matches("\tnil\tnil.*\tfalse\t", run "OTEL_SDK_DISABLED=true")
    assert.matches("OTEL_TRACES_EXPORTER=jaeger: unknown exporter; there are otlp, zipkin, none; nothing is exported; "
      .. "OTEL_TRACES_SAMPLER: unknown", run "OTEL_TRACES_EXPORTER=jaeger OTEL_TRACES_SAMPLER=x")
  end)

  it("keeps histograms of counts for each span name", function()
    requires { perf_open = true }
    settled(function()
      local t = tracer { metrics = { buckets = { 1, 10, 100 } } }
      for _, n in ipairs { 0, 1, 5, 50, 500 } do
        local s = t:start 'a "b"'
        kit.touch_pages(n)
        s:finish()
      end
      local text = t:prometheus()
      assert.is_truthy(text:find([[
perf_page_faults_bucket{span="a \"b\"",le="1"} 2
perf_page_faults_bucket{span="a \"b\"",le="10"} 3
perf_page_faults_bucket{span="a \"b\"",le="100"} 4
perf_page_faults_bucket{span="a \"b\"",le="+Inf"} 5
perf_page_faults_sum{span="a \"b\""} 556
perf_page_faults_count{span="a \"b\""} 5
]], 1, true), text)
      assert.matches("# TYPE perf_span_duration_seconds histogram\n", text)
      for i = 1, 300 do t:start("name " .. i):finish() end
      assert.matches('perf_page_faults_count{span="other"} 101\n', t:prometheus())
    end)
  end)

  it("falls back to the kernel's accounting", function()
    requires { perf_open = true, seccomp = true, nosan = true }
    assert.equal("fine", util.in_child(function()
      assert(kit.refuse("perf_event_open", 1))
      local list
      local t = perf.tracer { exporter = function(batch) list = batch end }
      local s = t:start "x"
      kit.touch_pages(64)
      s:finish()
      t:flush()
      assert(list[1].counts[FAULTS] >= 64 and list[1].counts["task-clock"] > 0)
      return "fine"
    end))
  end)
end)
