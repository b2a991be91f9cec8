-- CPUs that go offline and come back while they are counted, in an emulated Arm machine of two.
local kit = require "testkit"
local perf = require "perf"

describe("a CPU that is taken offline", function()
  local switch = "/sys/devices/system/cpu/cpu1/online"
  local function turn(on)
    local f = assert(io.open(switch, "w"))
    assert(f:write(on and "1" or "0"))
    assert(f:close())
  end

  before_each(function() requires { vm = { "arm64", "smp" }, pmu = true, ncpu = 2, root = true, file = switch } end)
  after_each(function()
    kit.unpin()
    turn(true)
  end)

  it("keeps its count in a set, and is left out of a new set", function()
    local s = assert(perf.set("cycles", { cpus = "online" }))
    kit.pin(1)
    kit.spin(2e7)
    kit.pin(0)
    turn(false)
    local off = s:per_cpu()
    assert.is_true(off[2].value >= 1e7, off[2].value)
    kit.spin(1e7)
    local later = s:per_cpu()
    assert.same({ off[2].value, off[2].enabled_ns, off[2].running_ns },
      { later[2].value, later[2].enabled_ns, later[2].running_ns })
    assert.is_true(later[1].value >= off[1].value + 5e6)
    assert.is_true(s:read().value >= later[1].value + off[2].value)
    local rest = assert(perf.set("cycles", { cpus = "online" }))
    assert.same({ 1, 0 }, { #rest, rest:per_cpu()[1].cpu })
    rest:close()
    local none, message, code = perf.set("cycles", { cpus = { 1 } })
    assert.same({ nil, "cycles: none of the requested CPUs is online", "ENODEV" }, { none, message, code })
    s:close()
  end)

  it("is counted again by a set that is opened when it is back", function()
    local s = assert(perf.set("cycles", { cpus = "online" }))
    turn(false)
    local off = s:per_cpu()[2].value
    turn(true)
    local again = assert(perf.set("cycles", { cpus = "online" }))
    kit.pin(1)
    kit.spin(2e7)
    assert.equal(off, s:per_cpu()[2].value) -- the kernel has removed it from that CPU for good
    assert.equal(2, #again)
    assert.is_true(again:per_cpu()[2].value >= 1e7)
    again:close()
    s:close()
  end)

  it("gives no count for an event that is opened meanwhile", function()
    turn(false)
    local ev, _, code = perf.open("cycles", { cpu = 1 })
    if not ev then return assert.equal("ENODEV", code) end -- newer kernels refuse it
    ev:enable()
    kit.spin(1e6)
    local e = ev:read()
    assert.is_nil(e.value)
    assert.is_string(e.why)
    ev:close()
  end)

  it("leaves the records in its ring readable, and other CPUs recording", function()
    local s = assert(perf.set({ event = "cycles:u", sample_period = 1000000, sample_type = { "tid", "cpu", "time" } },
      { cpus = "online", deferred_enable = true }))
    assert(s:map { pages = 16 })
    assert(s:enable())
    for cpu = 1, 0, -1 do
      kit.pin(cpu)
      kit.spin(2e7)
    end
    turn(false)
    local function read()
      local n = { [0] = 0, 0 }
      for rec in s:records { timeout = 0 } do
        if rec.type == "sample" and rec.tid == kit.gettid() then n[rec.cpu] = n[rec.cpu] + 1 end
      end
      return n
    end
    local n = read()
    assert.is_true(n[0] >= 5 and n[1] >= 5, n[0] .. " " .. n[1])
    kit.spin(2e7)
    n = read()
    assert.is_true(n[0] >= 5, n[0])
    assert.equal(0, n[1])
    assert(s:disable())
    read() -- this code has used some cycles since
    assert.same({ nil, "ETIMEDOUT" }, { (s:read_record(0)), (select(3, s:read_record(0))) })
    s:close()
  end)

  it("does not disturb a profile of a thread that is bound elsewhere", function()
    kit.pin(0)
    local counts = perf.measure("cycles:u", function()
      local prof = assert(perf.profile({ event = "cycles:u", period = 1000000 }, function()
        for i = 1, 4 do
          kit.spin(5e6)
          turn(i % 2 == 0)
        end
      end))
      assert.is_true(prof.total >= 1e7 and prof.sample_count >= 8, prof.total)
      assert.equal(0, prof.lost)
    end)
    assert.is_true(counts["cycles:u"] >= 1e7)
  end)
end)
