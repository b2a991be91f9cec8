-- The story: a profiler that was refused memory while it was made, and then collected, read a field of a null pointer. Only the
-- sanitizer saw it.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"

describe("a profiler", function()
  before_each(function() requires { perf_open = "user", nostress = true } end)

  it("that was refused memory while it was made is collected", function()
    local jit, make = rawget(_G, "jit"), core.profiler
    finally(function()
      core.profiler = make
      if jit then jit.on() end
    end)
    if jit then
      jit.off() -- LuaJIT 2.1.0-beta3 does not survive refused allocations in compiled code
      jit.flush()
    end
    local p = assert(perf.profiler { event = "task-clock:u" })
    local event, options
    core.profiler = function(...)
      event, options = ...
      return make(...)
    end
    assert(p:start())
    core.profiler = make
    local function run() pcall(make, event, options) end
    local last = kit.fail_alloc(0, run)
    assert.is_true(last > 0)
    for n = 1, last do kit.fail_alloc(n, run) end
    collectgarbage()
    collectgarbage()
    assert(p:stop())
    p:close()
  end)
end)
