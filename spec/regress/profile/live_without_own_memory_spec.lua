-- The story: profiler:live() made a function while allocations were still sampled. So each Profile had 136 to 160 bytes of it, at
-- the line that called live.
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
    if jit then
      jit.off()
      jit.flush() -- an exit of a trace of an earlier spec may allocate memory
    end
    collectgarbage "stop" -- a collection may resize the interpreter's own tables
    local first, second, last
    for _ = 1, 2 do -- in the second round the stack has the room that the calls need
      assert(p:start())
      first = assert(p:live())
      second = assert(p:live())
      last = assert(p:stop())
    end
    for _, prof in ipairs { first, second, last } do assert.equal(0, prof.total, tostring(prof)) end
  end)
end)
