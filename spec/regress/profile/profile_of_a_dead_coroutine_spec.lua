-- The story: on PUC Lua a profiler that was started in a coroutine used the coroutine's freed memory after the coroutine was dead
-- and collected: each sample set its hook there. Seen 5 of 5 times on 5.4.
local kit = require "testkit"
local perf = require "perf"

describe("a profiler that was started in a coroutine", function()
  before_each(function() requires { perf_open = "user" } end)

  it("continues when the coroutine is dead and collected", function()
    local p, x = nil, 0
    local weak = setmetatable({}, { __mode = "k" })
    local function begin()
      p = assert(perf.profiler { freq = 5000 })
      assert(p:start())
    end
    local co = coroutine.create(begin)
    weak[co] = true
    assert(coroutine.resume(co))
    co = nil -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    local kept = {}
    for _ = 1, 200 do -- memory of that size is used again
      kept[#kept + 1] = coroutine.create(begin)
      for k = 1, 20000 do x = x + k % 3 end
    end
    assert.equal(200, #kept)
    local prof = assert(p:stop())
    assert.is_true(prof.sample_count > 0)
    p:close()
    p = nil
    prof = nil -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak)) -- and it is collected with the profiler
  end)

  it("has the samples of the main thread afterwards", function()
    local p
    assert(coroutine.resume(coroutine.create(function()
      p = assert(perf.profiler { event = "page-faults", period = 1 })
      assert(p:start())
    end)))
    kit.touch_pages(50)
    local line = debug.getinfo(1, "l").currentline - 1
    local prof = assert(p:stop())
    assert.is_true(require("spec.support.profiling").on_line(prof, line) >= 50)
  end)
end)
