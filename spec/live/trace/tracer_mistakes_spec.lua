-- Mistakes in the use of tracers and spans raise errors at the caller's line: a mistake that reached an exporter would lose a
-- whole batch of other spans.
local perf = require "perf"

local t, kept

-- fn raises an error that names its line, the argument and the function.
local function raises(pattern, fn)
  local ok, message = pcall(fn)
  assert.is_false(ok, pattern)
  local line = debug.getinfo(fn, "S").linedefined
  assert.matches(("tracer_mistakes_spec.lua:%d: "):format(line), message, 1, true)
  assert.matches(pattern, message, 1, true)
end

describe("a mistake in the use of a span", function()
  before_each(function()
    kept = {}
    t = assert(perf.tracer { events = false, exporter = function(batch)
      for _, s in ipairs(batch) do kept[s.name] = s end
    end })
  end)

  it("is raised by its methods", function()
    local s = t:start "x"
    raises("bad argument #2 to 'set_status' (string expected, got table)", function() s:set_status("error", {}) end)
    raises("bad argument #2 to 'add_event' (table expected, got number)", function() s:add_event("e", 5) end)
    raises("bad argument #2 to 'add_event' (attribute 'a': ", function() s:add_event("e", { a = print }) end)
    raises("bad argument #3 to 'add_event' (nanoseconds since 1970 expected, got string",
      function() s:add_event("e", {}, "t") end)
    raises("bad argument #1 to 'finish' (nanoseconds since 1970 expected, got string", function() s:finish "x" end)
    raises("bad argument #1 to 'finish' (nanoseconds since 1970 expected, got -1", function() s:finish(-1) end)
    raises("bad argument #1 to 'set_counts' (Counts expected, got table)", function() s:set_counts {} end)
    raises("bad argument #1 to 'set_counts' (Counts expected, got table)", function() s:set_counts(s) end)
    raises("#2 to 'set_attribute' (attribute 'a': string, number, boolean or an array of them expected, got function)",
      function() s:set_attribute("a", print) end)
    raises("bad argument #1 to 'set_attributes' (attribute 'a': ", function() s:set_attributes { a = { {} } } end)
    raises("bad argument #1 to 'set_attributes' (attribute names are strings", function() s:set_attributes { 5 } end)
    raises("bad argument #2 to 'record_error' (string expected, got table)", function() s:record_error("x", {}) end)
    s:set_attribute("list", { true, false, "x", 1 }):set_status("error", 5)
    s:finish()
    t:flush()
    assert.same({ list = { true, false, "x", 1 } }, kept.x.attributes)
    assert.same({}, kept.x.events)
    assert.equal("5", kept.x.message)
  end)

  it("is raised by the functions that start one, which then leave nothing behind", function()
    local parent = t:start "parent"
    local trace, span = ("a"):rep(32), ("b"):rep(16)
    raises("#2 to 'start' (option 'links': array of contexts expected, got string)", function() t:start("a", { links = "x" }) end)
    raises("option 'links': [1]: context expected, got number", function() t:start("a", { links = { 5 } }) end)
    raises("option 'links': [1]: a context with ids expected", function() t:start("a", { links = { {} } }) end)
    raises("option 'links': [2]: span_id is 16 hexadecimal digits",
      function() t:start("a", { links = { parent, { trace_id = trace, span_id = "x" } } }) end)
    raises("option 'parent': trace_id is 32 hexadecimal digits",
      function() t:start("a", { parent = { trace_id = {}, span_id = "x" } }) end)
    raises("option 'parent': trace_id is 32", function() t:start("a", { parent = { trace_id = "zz", span_id = "yy" } }) end)
    raises("option 'parent': trace_id is 32", function() t:start("a", { parent = { span_id = span } }) end)
    raises("option 'parent': span, context or false expected, got boolean", function() t:start("a", { parent = true }) end)
    raises("option 'parent': span, context or false expected, got number", function() t:start("a", { parent = 5 }) end)
    raises("option 'kind': \"internal\", \"server\", \"client\", \"producer\" or \"consumer\" expected; did you mean 'client'?",
      function() t:start("a", { kind = "clinet" }) end)
    raises("option 'attributes': table expected, got number", function() t:start("a", { attributes = 5 }) end)
    raises("unknown option 'atributes'; did you mean 'attributes'?", function() t:start("a", { atributes = {} }) end)
    raises("table of options expected, got number", function() t:start("a", 5) end)
    raises("option 'parent': tracestate is a string",
      function() t:start("a", { parent = { trace_id = trace, span_id = span, tracestate = {} } }) end)
    raises("#2 to 'start' (nanoseconds since 1970 expected, got string)",
      function() t:start("a", { parent = parent, start_ns = "x" }) end)
    raises("#2 to 'start' (attribute 'a': ", function() t:start("a", { attributes = { a = t } }) end)
    assert.equal(0, parent.open)
    local child = t:start("child", { parent = { trace_id = trace, span_id = span, sampled = true },
      links = { parent, parent:context(), { sampled = true, remote = true } } })
    assert.equal(2, #child.links)
    assert.equal(trace, child.trace_id)
    assert.equal(trace, t:start("root in a trace", { parent = { trace_id = trace } }).trace_id)
  end)

  it("is raised for cdata that is not a 64-bit number", function()
    requires { lua = "luajit" }
    local ffi = require "ffi"
    local s = t:start "x"
    raises("attribute 'a': string, number, boolean or an array of them expected, got ctype<int [2]>",
      function() s:set_attribute("a", ffi.new "int[2]") end)
    s:set_attribute("a", ffi.new("uint64_t", 5)):set_attribute("b", { ffi.new("int64_t", 5) })
  end)

  it("is raised for wrong headers, with or without a current span", function()
    raises("bad argument #1 to 'inject' (table or function expected, got number)", function() t:inject(5) end)
    raises("bad argument #1 to 'extract' (table or function expected, got number)", function() t:extract(5) end)
    t:span("x", function()
      raises("bad argument #1 to 'inject' (table or function expected, got number)", function() t:inject(5) end)
    end)
  end)
end)

describe("a span that is not sampled", function()
  it("has the method totable too", function()
    local silent = assert(perf.tracer { events = false, sampler = 0, exporter = false }):start "x"
    local s, loud = silent:totable(), t:start "x":totable()
    assert.equal("x", s.name)
    assert.equal(silent.trace_id, s.trace_id)
    for key in pairs(loud) do
      if not key:find "_ns$" then assert.equal(type(loud[key]), type(s[key]), key) end
    end
  end)
end)

describe("a span's name", function()
  it("is UTF-8 in the metrics for Prometheus, and unique", function()
    local m = assert(perf.tracer { events = false, exporter = false, metrics = { buckets = { 1 } } })
    m:start "grün\255":finish()
    m:start "grün\254":finish()
    local _, n = m:prometheus():gsub('perf_span_duration_seconds_count{span="grün\239\191\189"} 2\n', "")
    assert.equal(1, n)
  end)
end)
