-- The story: a count hook that flushed a tracer while a span was put into the queue made other spans be sent twice or never, and
-- made = sent + dropped + queued no longer held. A hook that closed a tracer while it encoded a batch made both
-- wrong as well.
local perf = require "perf"
local queue = require "perf.exporter.queue"
local posted = require "spec.support.posted"
local stats = require("spec.support.spans").stats

-- Call fn(...) while a hook interrupts it once, at its instruction `at`. Returns whether it has so many instructions.
local function interrupted(at, hook, fn, ...)
  local n = 0
  debug.sethook(function()
    n = n + 1
    if n == at then hook() end
  end, "", 1)
  fn(...)
  debug.sethook()
  return n >= at
end

describe("a hook that flushes", function()
  local jit = rawget(_G, "jit")
  before_each(function()
    if jit then jit.off() end -- compiled code calls no hooks
  end)
  after_each(function()
    debug.sethook()
    if jit then jit.on() end
  end)

  it("neither loses nor repeats an element of the queue, whichever instruction it interrupts", function()
    local at, more = 0, true
    while more do
      at = at + 1
      local q, got, n = queue.new(4), {}, 0
      local function take()
        while q:peek() do
          local batch = {}
          for i = 1, q:take(3, batch) do got[n + i] = batch[i] end
          n = n + #batch
        end
      end
      for i = 1, 3 do q:push(i) end
      more = interrupted(at, take, q.push, q, 4)
      take()
      assert.same({ 1, 2, 3, 4 }, got)
      assert.equal(0, q:length())
    end
    assert.is_true(at > 10)
  end)

  it("keeps the sum of a tracer, and a hook that closes it too", function()
    for _, way in ipairs { "flush", "close" } do
      for at = 1, 2000, 13 do
        local tracer = perf.tracer { events = false, delay = 3600, queue = 8, batch = 4, exporter = function() end }
        for _ = 1, 3 do tracer:start "work":finish() end
        local last = tracer:start "last"
        interrupted(at, function() tracer[way](tracer) end, function()
          last:finish()
          tracer:flush()
        end)
        tracer:close()
        local sent = tracer:stats().sent
        assert.same({ 4, sent, 4 - sent, 0 }, stats(tracer))
        assert.is_true(sent == 4 or way == "close")
      end
    end
  end)

  it("cannot close a tracer within its own sending", function()
    local tracer, code
    local exporter = posted("otlp", function()
      code = select(3, tracer:close())
      return 200
    end)
    tracer = perf.tracer { events = false, delay = 3600, exporter = exporter }
    tracer:start "work":finish()
    assert.is_true(tracer:flush())
    assert.equal("EDEADLK", code)
    assert.equal(1, tracer:stats().sent)
    assert.is_true(tracer:close())
  end)
end)
