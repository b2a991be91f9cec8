-- The story: a client's traceparent of 8,000 bytes with spaces within kept an nginx worker for 0.1 s, and three lines of
-- tracestate for a second: the patterns that removed spaces at the ends took time by the square of the spaces. With the megabyte
-- of these specs that takes an hour. And a list that contains another value than texts raised an error; it is ignored now.
local format = require "perf.base.format"
local perf = require "perf"
local trim = require "perf.base.trim"

local TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
local PARENT = ("00-%s-%s-01"):format(TRACE, SPAN)
local SPACES = (" "):rep(2 ^ 20)

describe("trim", function()
  it("removes spaces at the ends only", function()
    for text, trimmed in pairs { [""] = "", ["a"] = "a", [" \t\r\n"] = "", [" a b\n"] = "a b", ["\0 "] = "\0" } do
      assert.equal(trimmed, trim(text))
    end
  end)

  it("is linear in the spaces", function()
    assert.equal("", trim(SPACES))
    local text = "x" .. SPACES .. "x"
    assert.is_true(trim(text) == text)
    assert.is_true(trim(SPACES .. text .. SPACES) == text)
  end)
end)

describe("a header with many spaces", function()
  local tracer
  before_each(function() tracer = perf.tracer { events = false, exporter = false } end)
  after_each(function() tracer:close() end)

  it("is read in a short time", function()
    assert.is_nil(tracer:extract { traceparent = "x" .. SPACES .. "x" })
    assert.is_nil(tracer:extract { traceparent = SPACES })
    local context = tracer:extract { traceparent = SPACES .. PARENT .. SPACES, tracestate = "a=x" .. SPACES .. "x" }
    assert.same({ TRACE, SPAN }, { context.trace_id, context.span_id })
    assert.is_nil(context.tracestate)
    assert.equal("a=b,c=d", tracer:extract { traceparent = PARENT, tracestate = { "a=b" .. SPACES, SPACES .. "c=d" } }.tracestate)
  end)

  it("that came several times is ignored if one of its values is no text", function()
    for _, bad in ipairs { true, 5, {}, print } do
      assert.is_nil(tracer:extract { traceparent = { bad } })
      assert.is_nil(tracer:extract { traceparent = PARENT, tracestate = { "a=b", bad } }.tracestate)
    end
  end)
end)

describe("a table of texts", function()
  it("is aligned without effort if one of them is wide", function()
    local lines = format.align { { "x", "y" }, { "a" .. SPACES .. "b", "" } }
    assert.is_true(lines == "x" .. SPACES .. "   y\na" .. SPACES .. "b")
  end)
end)
