-- The story: an exporter that is a function called code that the same tracer traces, and so made a span in each export. The next
-- export took that span, within itself, until the stack overflowed: 1,473 spans for one.
local perf = require "perf"
local stats = require("spec.support.spans").stats

describe("an exporter that makes spans of its own tracer", function()
  it("is called once for a span of the program; its own spans are dropped, with a warning", function()
    for _, delay in ipairs { 0, 1000 } do
      local calls, tracer = 0, nil
      tracer = perf.tracer { events = false, delay = delay, exporter = function()
        calls = calls + 1
        assert(calls < 100)
        tracer:span("export", function() tracer:start("within"):finish() end)
      end }
      tracer:start("work"):finish()
      assert.same({ nil, "spans that the exporter itself makes are dropped", "EIO" }, { tracer:flush() })
      assert.equal(1, calls)
      assert.same({ 3, 1, 2, 0 }, stats(tracer))
      tracer:start("more"):finish()
      tracer:close()
      assert.equal(2, calls)
      assert.same({ 6, 2, 4, 0 }, stats(tracer))
    end
  end)

  it("is called once even if it makes them in a coroutine", function()
    local calls, tracer = 0, nil
    tracer = perf.tracer { events = false, delay = 0, exporter = function()
      calls = calls + 1
      assert(calls < 100)
      coroutine.wrap(function() tracer:start("within"):finish() end)()
    end }
    tracer:start("work"):finish()
    tracer:close()
    assert.equal(1, calls)
    assert.same({ 2, 1, 1, 0 }, stats(tracer))
  end)

  it("cannot flush or close the tracer", function()
    local seen, tracer = {}, nil
    tracer = perf.tracer { events = false, delay = 1000, exporter = function()
      for _, method in ipairs { "flush", "close" } do seen[#seen + 1] = select(3, tracer[method](tracer)) or "none" end
    end }
    tracer:start("work"):finish()
    assert.is_true(tracer:flush())
    assert.same({ "EDEADLK", "EDEADLK" }, seen)
    assert.same({ 1, 1, 0, 0 }, stats(tracer))
    assert.is_true(tracer:close())
  end)
end)
