-- The story: a profiler that was refused memory while it was made, and then collected, read a field of a null pointer. Only the
-- sanitizer saw it.
local kit = require "testkit"
local perf = require "perf"

describe("a profiler", function()
  before_each(function() requires { perf_open = "user" } end)

  it("that was refused memory while it was made is collected", function()
    local jit = rawget(_G, "jit")
    if jit then
      jit.off() -- LuaJIT 2.1.0-beta3 does not survive refused allocations in compiled code
      jit.flush()
    end
    local function run() pcall(function() perf.profiler({ event = "task-clock:u" }):start() end) end
    for n = 1, kit.fail_alloc(0, run) do kit.fail_alloc(n, run) end
    collectgarbage()
    collectgarbage()
    if jit then jit.on() end
    local p = assert(perf.profiler { event = "task-clock:u" })
    assert(p:start())
    assert(p:stop())
    p:close()
  end)
end)
