-- Hardware counters of two CPUs, in an emulated Arm machine.
local kit = require "testkit"
local perf = require "perf"

describe("a set of hardware counters", function()
  before_each(function() requires { vm = { "arm64", "smp" }, pmu = true, ncpu = 2, root = true } end)
  after_each(function() kit.unpin() end)

  it("counts each CPU, and all together", function()
    local s = assert(perf.set("cycles", { cpus = "online" }))
    assert.equal(2, #s)
    kit.pin(1)
    kit.spin(2e7)
    s:disable()
    local per_cpu = s:per_cpu()
    assert.same({ 0, 1 }, { per_cpu[1].cpu, per_cpu[2].cpu })
    assert.is_true(per_cpu[2].value >= 1e7, per_cpu[2].value)
    assert.equal(per_cpu[1].value + per_cpu[2].value, s:read().value)
    s:close()
  end)

  it("samples each CPU, in time order", function()
    local s = assert(perf.set({ event = "cycles:u", sample_period = 1000000, sample_type = { "tid", "cpu", "time" } },
      { cpus = "online", deferred_enable = true }))
    s:map { pages = 16 }
    s:enable()
    for cpu = 0, 1 do
      kit.pin(cpu)
      kit.spin(2e7)
    end
    s:disable()
    local seen, last, own = { [0] = 0, 0 }, 0, kit.gettid()
    while s:has_record() do
      local rec = assert(s:read_record(0))
      if rec.type == "sample" then
        assert.is_true(rec.time >= last)
        last = rec.time
        if rec.tid == own then seen[rec.cpu] = seen[rec.cpu] + 1 end
      end
    end
    assert.is_true(seen[0] >= 5 and seen[1] >= 5, seen[0] .. " " .. seen[1])
    s:close()
  end)

  it("counts one thread that moves, on one CPU and on both", function()
    local here = assert(perf.open("cycles:u", { cpu = 0 }))
    local all = assert(perf.open "cycles:u")
    here:enable()
    all:enable()
    kit.pin(0)
    kit.spin(5e6)
    local first = here:read().value
    assert.is_true(first > 1e6)
    kit.pin(1)
    local before = here:read().value
    kit.spin(5e6)
    assert.equal(before, here:read().value)
    assert.is_true(all:read().value > here:read().value)
    here:close()
    all:close()
  end)
end)
