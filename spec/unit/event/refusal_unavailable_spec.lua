-- Events that a machine does not have, and the messages about them.
local machine = require "spec.support.machine"

local why, with, cycles = machine.why, machine.with, machine.cycles

local here

after_each(function()
  if here then
    assert.equal(0, here.opened)
    here:close()
  end
  here = nil
end)

describe("unavailable", function()
  local function none(attr)
    if attr.type == "software" then return nil end
    return "ENOENT"
  end

  it("reports that a virtual machine has no PMU, whatever the errno", function()
    here = machine.new { files = { ["proc/cpuinfo"] = "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n" } }
    here:answer(none)
    for _, code in ipairs { "ENOENT", "EOPNOTSUPP", "ENODEV", "ENXIO", "EINVAL" } do
      assert.equal("this virtual machine has no hardware counters; use cpu-clock or task-clock, or let its host pass the PMU "
        .. "on (QEMU: -cpu host,pmu=on)", why("cycles", cycles, code))
    end
    assert.matches("^this virtual machine has no hardware counters; count software events %(perf.all_software%)",
      why("cache-misses", { type = "hardware", config = 3 }, "ENOENT"))
  end)

  it("does not mention a host on a physical machine", function()
    here = machine.new()
    here:answer(none)
    assert.equal("this machine has no hardware counters that the kernel knows; use cpu-clock or task-clock",
      why("cycles", cycles, "ENOENT"))
  end)

  it("distinguishes a missing event from a missing PMU", function()
    here = machine.new()
    here:answer(function(attr) return attr.config ~= 0 and attr.type ~= "software" and "ENOENT" or nil end)
    assert.equal("this CPU's PMU does not count this event; use an event that perf.list() shows",
      why("bus-cycles", { type = "hardware", config = 6 }, "ENOENT"))
  end)

  it("names the PMUs if a type is unknown", function()
    here = machine.new()
    here:answer(none)
    assert.equal("no PMU here has type 99; the PMUs are breakpoint=5 software=1 tracepoint=2 uprobe=7",
      why("x", { type = 99 }, "ENOENT"))
  end)

  it("knows offline CPUs", function()
    here = machine.new { files = { ["sys/devices/system/cpu/online"] = "0-1,3" } }
    here:answer(function() end)
    assert.equal("CPU 2 is offline; online are 0-1,3; run: echo 1 > /sys/devices/system/cpu/cpu2/online",
      why("cycles", cycles, "ENODEV", { pid = -1, cpu = 2 }))
  end)

  it("knows software events that are newer, and missing functions and files", function()
    here = machine.new { files = { ["sys/bus/event_source/devices/kprobe/type"] = "6" } }
    here:answer(function() end)
    assert.equal("this kernel has no software event 11", why("cgroup-switches", { type = "software", config = 11 }, "ENOENT"))
    assert.equal("the kernel has no function 'nope' on which a kprobe can be set; available_filter_functions in tracefs lists "
      .. "functions for kprobes", why("p", { type = 6, kprobe_func = "nope" }, "ENOENT"))
    assert.equal("there is no file '/nope'", why("u", { type = 7, uprobe_path = "/nope" }, "ENOENT"))
  end)

  it("knows branch stacks, precise_ip and PMUs without an interrupt", function()
    here = machine.new { files = { ["sys/bus/event_source/devices/cpu/type"] = "4",
      ["sys/bus/event_source/devices/cpu/caps/max_precise"] = "1" } }
    local refused = "exclude_idle"
    here:answer(function(attr) return attr.config ~= 9 and attr[refused] and "EOPNOTSUPP" or nil end)
    assert.equal("branch stacks come with hardware events only; sample cycles",
      why("cpu-clock", { type = "software", config = 0, sample_type = { "branch_stack" }, branch_sample_type = { "any" } },
        "EOPNOTSUPP"))
    assert.equal("without exclude_idle it opens", why("cycles:I", with(cycles, { exclude_idle = true, sample_period = 1000 }),
      "EOPNOTSUPP"))
    refused = "precise_ip"
    assert.equal("precise_ip is 2, and this CPU's PMU has 1 at most; use precise_ip=1",
      why("cycles:pp", with(cycles, { precise_ip = 2, sample_period = 1000 }), "EOPNOTSUPP"))
    refused = "sample_period"
    assert.equal("this PMU can count but not sample, since it has no interrupt; count without sample_period and sample_freq, "
      .. "or sample cpu-clock", why("cycles", with(cycles, { sample_period = 1000 }), "EOPNOTSUPP"))
  end)
end)
