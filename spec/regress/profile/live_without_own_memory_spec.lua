-- The story: profiler:live() made a function before the sampling rested. So each Profile had it at the line that called live:
-- 136 to 160 bytes that were alive.
local perf = require "perf"

describe("profiler:live()", function()
  it("has nothing of its own in the Profile", function()
    requires { registers = true, nostress = true }
    local jit = rawget(_G, "jit")
    local p = assert(perf.profiler { event = "heap", period = 1 })
    finally(function()
      p:close()
      collectgarbage "restart"
      if jit then jit.on() end
    end)
    if jit then jit.off() end
    collectgarbage "stop" -- a collection may resize the interpreter's own tables
    local first, second, last
    for _ = 1, 2 do -- in the second turn the stack has the room that the calls need
      assert(p:start())
      first = assert(p:live())
      second = assert(p:live())
      last = assert(p:stop())
    end
    for _, prof in ipairs { first, second, last } do assert.equal(0, prof.total, tostring(prof)) end
  end)
end)
