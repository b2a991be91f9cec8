-- The story: while an exporter function waited in its coroutine (it yielded), the spans of all other coroutines were dropped, and
-- when that coroutine was dropped, all later spans were. The batch that it had was neither sent, dropped nor queued.
local perf = require "perf"
local stats = require("spec.support.spans").stats

describe("an exporter function that yields", function()
  local waits, tracer
  before_each(function()
    requires { yields_in_pcall = true }
    waits = true
    tracer = perf.tracer { events = false, delay = 3600, exporter = function()
      if waits then coroutine.yield() end
    end }
  end)

  local function finish(n)
    for _ = 1, n do tracer:start "span":finish() end
  end

  local function begin()
    local co = coroutine.create(function()
      finish(1)
      return tracer:flush()
    end)
    assert(coroutine.resume(co))
    waits = false
    finish(100)
    assert.same({ 101, 0, 0, 101 }, stats(tracer))
    assert.same({ nil, "EDEADLK" }, { (tracer:flush()), select(3, tracer:flush()) })
    return co
  end

  it("keeps the spans that others finish meanwhile", function()
    local co = begin()
    assert.same({ true, true }, { coroutine.resume(co) })
    assert.same({ 101, 101, 0, 0 }, stats(tracer))
    assert.is_true(tracer:close())
  end)

  it("loses only its batch if its coroutine is dropped", function()
    begin()
    for _ = 1, 3 do collectgarbage() end
    assert.equal("EIO", select(3, tracer:flush()))
    assert.same({ 101, 100, 1, 0 }, stats(tracer))
    finish(5)
    assert.is_true(tracer:flush())
    assert.same({ 106, 105, 1, 0 }, stats(tracer))
    assert.is_true(tracer:close())
  end)
end)
