-- The story: perf.group opened the leader first. If the leader was opened enabled, it ran when the others joined it, and Linux
-- 6.18 leaves a member of another software PMU unscheduled until the next context switch: it counted nothing.
local perf = require "perf"
local kit = require "testkit"

describe("a group that is opened enabled", function()
  before_each(function() requires { perf_open = true } end)

  it("counts every event from the beginning", function()
    for _, disabled in ipairs { false, 0 } do
      for _ = 1, 10 do
        local g = assert(perf.group { { type = "software", config = 1, disabled = disabled }, "cpu-clock", "page-faults" })
        kit.touch_pages(10)
        local counts = g:read()
        assert.truthy(counts["cpu-clock"] > 0)
        assert.truthy(counts["page-faults"] >= 10)
        assert.truthy(counts.wall_ns > 0)
        assert.is_false(g[1]:is_off())
        g:close()
      end
    end
  end)

  it("leaves a member disabled that is to be opened so", function()
    local g = assert(perf.group { { type = "software", config = 1, disabled = false },
      { type = "software", config = 2, disabled = true } })
    kit.touch_pages(10)
    assert.equal(0, g:read()[2].raw)
    assert.is_true(g[2]:is_off())
    g:close()
  end)
end)
