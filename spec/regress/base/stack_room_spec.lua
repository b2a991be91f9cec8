-- The story: source:each() reserved Lua stack for its fields in the call of each, not in the iterator that pushes them: with 20
-- fields and more they were written beyond the stack's end on PUC Lua.
local perf = require "perf"

describe("each", function()
  it("reserves stack for as many fields as it accepts", function()
    requires { perf_open = true }
    local names = { "ip", "pid", "tid", "time", "addr", "cpu", "period", "id" }
    local fields = {}
    for i = 1, 32 do fields[i] = names[(i - 1) % 7 + 1] end
    local ev = assert(perf.open({ event = "page-faults", sample_period = 1, disabled = true,
      sample_type = { "ip", "tid", "time", "addr", "cpu", "period" } }))
    assert(ev:map { pages = 16 })
    ev:enable()
    require("testkit").touch_pages(20)
    ev:disable()
    local unpack = rawget(_G, "unpack") or table.unpack
    local function count(...) return select("#", ...), (...), (select(2, ...)), (select(9, ...)), (select(30, ...)) end
    local step, state, at = ev:each("sample", unpack(fields))
    local seen = 0
    for _ = 1, 20 do
      local n, first, again, last
      n, at, first, again, last = count(step(state, at))
      assert.equal(33, n)
      assert.equal(first, again)
      assert.is_truthy(last)
      seen = seen + 1
    end
    ev:close()
    assert.equal(20, seen)
  end)
end)

describe("the machine of a file's registers", function()
  it("may have a name of one letter", function()
    local core = require "perf.core"
    for _, name in ipairs { "i", "", "x", "a", "i686", "i386" } do
      local layouts = core.layouts()
      assert.equal(1, layouts:add({ type = "software", config = 0, sample_type = { "ip" } }, nil, name))
      layouts:close()
    end
  end)
end)
