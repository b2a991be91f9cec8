-- The story: the kernel disables a breakpoint while it modifies it. If the modification fails, it enables the breakpoint again
-- only if it was opened enabled. So a breakpoint that had been opened disabled and then enabled counted nothing after a failed
-- ev:modify, and ev:measure, which took it for enabled, gave 0.
local kit = require "testkit"
local perf = require "perf"

describe("an enabled breakpoint", function()
  it("is still enabled after a modification that fails", function()
    requires { perf_open = true }
    requires { breakpoint = true }
    local cell = kit.cell()
    local ev = assert(perf.open(("mem:0x%x/8:w"):format(cell:addr())))
    local function write() cell:poke(1) end
    assert.is_true(ev:enable())
    write()
    assert.is_nil((ev:modify { bp_len = 9 }))
    write()
    assert.equal(2, ev:read().raw)
    assert.equal(1, ev:measure(write).raw)
    ev:disable()
    assert.is_nil((ev:modify { bp_len = 9 }))
    write()
    assert.equal(3, ev:read().raw)
    ev:close()
    cell:close()
  end)
end)
