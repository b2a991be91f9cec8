local propagation = require "perf.trace.propagation"

local T, S = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
local all = { "tracecontext", "b3", "b3multi" }

local function extract(headers, list) return propagation.extract(headers, list or all) end

describe("perf.trace.propagation", function()
  describe("traceparent", function()
    it("is read", function()
      assert.same({ trace_id = T, span_id = S, sampled = true, remote = true },
        extract { traceparent = "00-" .. T .. "-" .. S .. "-01" })
      assert.is_false(extract { traceparent = "00-" .. T .. "-" .. S .. "-00" }.sampled)
      assert.is_true(extract { traceparent = "00-" .. T .. "-" .. S .. "-ff" }.sampled)
    end)

    it("is read from headers in any case, from a function, from a list of one", function()
      local text = " 00-" .. T .. "-" .. S .. "-01 "
      assert.equal(T, extract({ TraceParent = text }).trace_id)
      assert.equal(T, extract(function(name) return name == "traceparent" and text or nil end).trace_id)
      assert.equal(T, extract({ traceparent = { text } }).trace_id)
    end)

    it("of a later version is read as far as its format is known", function()
      assert.equal(S, extract { traceparent = "cc-" .. T .. "-" .. S .. "-01-what-comes" }.span_id)
      assert.equal(S, extract { traceparent = "cc-" .. T .. "-" .. S .. "-01" }.span_id)
    end)

    it("that is invalid is ignored", function()
      for _, text in ipairs {
        "", "00", "00-" .. T .. "-" .. S, "00-" .. T .. "-" .. S .. "-01-more", "ff-" .. T .. "-" .. S .. "-01",
        "00-" .. ("0"):rep(32) .. "-" .. S .. "-01", "00-" .. T .. "-" .. ("0"):rep(16) .. "-01",
        "00-" .. T:upper() .. "-" .. S .. "-01", "00-" .. T:sub(2) .. "-" .. S .. "-01", "00-" .. T .. "x-" .. S .. "-01",
        "00-" .. T .. "-" .. S .. "-0", "00-" .. T .. "-" .. S .. "-0X", "0-" .. T .. "-" .. S .. "-01",
        "cc-" .. T .. "-" .. S .. "-01more", "00_" .. T .. "-" .. S .. "-01",
      } do
        assert.is_nil(extract { traceparent = text }, text)
      end
      local text = "00-" .. T .. "-" .. S .. "-01"
      assert.is_nil(extract { traceparent = { text, text } })
      assert.is_nil(extract { traceparent = 5 })
    end)

    it("joins the lines of its tracestate, with the header in any case", function()
      for _, name in ipairs { "tracestate", "Tracestate", "TRACESTATE" } do
        local headers = { TRACEPARENT = "00-" .. T .. "-" .. S .. "-01", [name] = { "a=1", "b=2" } }
        assert.equal("a=1,b=2", extract(headers).tracestate, name)
        headers[name] = { "a=1" }
        assert.equal("a=1", extract(headers).tracestate)
        headers[name] = {}
        assert.is_nil(extract(headers).tracestate)
      end
      local function get(name) return name == "traceparent" and "00-" .. T .. "-" .. S .. "-01" or { "a=1", "b=2" } end
      assert.equal("a=1,b=2", extract(get).tracestate)
    end)

    it("keeps its tracestate, or drops an invalid one", function()
      local function state(text)
        return extract { traceparent = "00-" .. T .. "-" .. S .. "-01", tracestate = text }.tracestate
      end
      assert.equal("a=1,b@c=2", state " a=1 , b@c=2,")
      assert.equal("a=1,b=2", state { "a=1", "b=2" })
      for _, text in ipairs { "", "a", "a=", "A=1", "a=1,a=2", "a=1=2", "a=\1", ("k"):rep(257) .. "=1" } do
        assert.is_nil(state(text), text)
      end
      local many = {}
      for i = 1, 33 do many[i] = "k" .. i .. "=1" end
      assert.is_nil(state(table.concat(many, ",")))
      assert.is_truthy(state(table.concat(many, ",", 1, 32)))
    end)

    it("is written", function()
      local headers = {}
      propagation.inject({ trace_id = T, span_id = S, sampled = true, tracestate = "a=1" }, headers, { "tracecontext" })
      assert.same({ traceparent = "00-" .. T .. "-" .. S .. "-01", tracestate = "a=1" }, headers)
      headers = {}
      propagation.inject({ trace_id = T, span_id = S, sampled = false }, headers, { "tracecontext" })
      assert.same({ traceparent = "00-" .. T .. "-" .. S .. "-00" }, headers)
    end)
  end)

  describe("B3", function()
    it("single is read", function()
      assert.same({ trace_id = T, span_id = S, sampled = true, remote = true }, extract { b3 = T .. "-" .. S .. "-1" })
      assert.same({ trace_id = T, span_id = S, sampled = true, remote = true }, extract { B3 = T .. "-" .. S .. "-1-" .. S })
      assert.is_true(extract { b3 = T:upper() .. "-" .. S:upper() .. "-1-" .. S:upper() }.sampled)
      assert.is_false(extract { b3 = T .. "-" .. S .. "-0" }.sampled)
      assert.is_nil(extract { b3 = T .. "-" .. S }.sampled)
      assert.same({ trace_id = T, span_id = S, sampled = true, debug = true, remote = true },
        extract { b3 = T .. "-" .. S .. "-d" })
      assert.same({ sampled = false, remote = true }, extract { b3 = "0" })
      assert.same({ sampled = true, debug = true, remote = true }, extract { b3 = "d" })
    end)

    it("with 16 digits names the same trace", function()
      assert.equal(("0"):rep(16) .. "a3ce929d0e0e4736", extract { b3 = "a3ce929d0e0e4736-" .. S .. "-1" }.trace_id)
    end)

    it("single that is invalid is ignored", function()
      for _, text in ipairs { "", "2", "dd", T, T .. "-", T .. "-" .. S .. "-2", T .. "-" .. S .. "-1-",
        T .. "-" .. S .. "-1-xyz",
        T .. "-" .. S .. "-1-" .. S .. "-1", T:sub(3) .. "-" .. S .. "-1", ("0"):rep(32) .. "-" .. S .. "-1" } do
        assert.is_nil(extract { b3 = text }, text)
      end
    end)

    it("multi is read", function()
      assert.same({ trace_id = T, span_id = S, sampled = true, remote = true },
        extract { ["X-B3-TraceId"] = T, ["X-B3-SpanId"] = S, ["X-B3-Sampled"] = "1" })
      assert.is_false(extract { ["x-b3-traceid"] = T, ["x-b3-spanid"] = S, ["x-b3-sampled"] = "false" }.sampled)
      assert.is_true(extract { ["x-b3-traceid"] = T, ["x-b3-spanid"] = S, ["x-b3-flags"] = "1" }.debug)
      assert.same({ sampled = false, remote = true }, extract { ["x-b3-sampled"] = "0" })
      assert.is_nil(extract { ["x-b3-traceid"] = T })
      assert.is_nil(extract { ["x-b3-traceid"] = "g", ["x-b3-spanid"] = S })
      assert.is_nil(extract {})
    end)

    it("is written", function()
      local context = { trace_id = T, span_id = S, parent_id = "00f067aa0ba902b7", sampled = true }
      local headers = {}
      propagation.inject(context, headers, { "b3" })
      assert.same({ b3 = T .. "-" .. S .. "-1-00f067aa0ba902b7" }, headers)
      local seen = {}
      propagation.inject(context, function(name, value) seen[#seen + 1] = name .. ": " .. value end, { "b3multi" })
      assert.same({ "X-B3-TraceId: " .. T, "X-B3-SpanId: " .. S, "X-B3-ParentSpanId: 00f067aa0ba902b7", "X-B3-Sampled: 1" }, seen)
      headers = {}
      propagation.inject({ trace_id = T, span_id = S, sampled = true, debug = true }, headers, { "b3", "b3multi" })
      assert.equal(T .. "-" .. S .. "-d", headers.b3)
      assert.equal("1", headers["X-B3-Flags"])
      headers = {}
      propagation.inject({ sampled = false }, headers, all)
      assert.same({ b3 = "0", ["X-B3-Sampled"] = "0" }, headers)
    end)
  end)

  it("uses the first format that finds a context", function()
    local headers = { traceparent = "00-" .. T .. "-" .. S .. "-01", b3 = "0" }
    assert.equal(T, extract(headers).trace_id)
    assert.is_nil(extract(headers, { "b3" }).trace_id)
    assert.is_nil(extract(headers, {}))
  end)

  it("accepts any bytes", function()
    math.randomseed(7)
    local alphabet = "0123456789abcdefABCDEFxyz-,= \0\255"
    for _ = 1, 3000 do
      local t = {}
      for i = 1, math.random(0, 70) do
        local k = math.random(#alphabet)
        t[i] = alphabet:sub(k, k)
      end
      local text = table.concat(t)
      local c = extract { traceparent = text, tracestate = text, b3 = text, ["x-b3-traceid"] = text, ["x-b3-sampled"] = text }
      if c and c.trace_id then
        assert.equal(32, #c.trace_id)
        assert.equal(16, #c.span_id)
      end
    end
  end)
end)
