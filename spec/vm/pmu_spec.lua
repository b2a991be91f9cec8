-- A PMU that counts, in an emulated machine: what the module says of it, and that it counts.
local kit = require "testkit"
local perf = require "perf"

describe("an emulated machine's PMU", function()
  before_each(function() requires { vm = "arm64", pmu = true } end)

  it("is known by its kernel name and type", function()
    local found
    for _, p in ipairs(perf.pmus()) do if p.name == "armv8_pmuv3" then found = p end end
    assert.is_table(found)
    assert.equal(perf.pmu_type "armv8_pmuv3", found.type)
  end)

  it("counts cycles", function()
    local c = perf.measure("cycles:u", kit.spin, 2e6)
    assert.is_true(c.cycles > 1e5)
  end)
end)
