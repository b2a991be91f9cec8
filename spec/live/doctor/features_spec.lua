-- perf.features and perf.doctor on this machine: their answers are compared with the kernel's.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

describe("perf.features here", function()
  before_each(function() requires { perf_open = "user" } end)

  it("agrees with the kernel on every ordinary bit", function()
    local f = perf.features { refresh = true }
    assert.is_true(f.supported)
    assert.is_true((perf.supported()))
    for _, name in ipairs { "ip", "tid", "time", "addr", "read", "callchain", "id", "cpu", "period", "stream_id", "raw" } do
      assert.is_true(f.sample_type[name], name) -- since the system call began
    end
    for _, name in ipairs { "total_time_enabled", "total_time_running", "id", "group" } do
      assert.is_true(f.read_format[name], name)
    end
    for _, row in ipairs(core.defs().attr) do
      local value = f.attr[row.name]
      if row.kind == "bit" then assert.is_not_nil(value, row.name) end
    end
    for _, method in ipairs { "enable", "disable", "reset", "set_period", "set_filter", "id" } do
      assert.is_true(f.ioctl[method], method)
    end
  end)

  it("agrees with other modules about the PMU, breakpoints and the level", function()
    local f, level, again
    util.eventually(function() -- another suite may set the level meanwhile
      level, f = tonumber(util.read_file "/proc/sys/kernel/perf_event_paranoid"), perf.features { refresh = true }
      again = perf.paranoid()
      return level == f.paranoid and level == again
    end)
    assert.same({ level, level }, { f.paranoid, again })
    assert.equal(tonumber(util.read_file "/proc/sys/kernel/perf_event_max_stack"), perf.max_stack())
    assert.equal(kit.can_open { type = 0, config = 0 } or kit.can_open { type = 0, config = 1 } or false, f.pmu.present)
    assert.equal(util.tracefs_dir() or "none", f.tracefs:match "^/.*" or "none")
    local cell = kit.cell()
    assert.equal(kit.can_open { type = 5, bp_type = 2, bp_addr = cell:addr(), bp_len = 8 } or false, f.breakpoints)
  end)

  it("agrees with the kernel about BPF", function()
    assert.equal(kit.can_bpf() or false, perf.features { refresh = true }.bpf == true)
  end)

  it("has as many counters as the largest group that can run", function()
    requires { pmu = true }
    local n = perf.features().pmu.counters
    local list = {}
    for i = 1, n do list[i] = "cycles:u" end
    assert(perf.group(list)):close()
    list[n + 1] = "cycles:u"
    -- Some kernels refuse it; others open it and never run it.
    local more = perf.group(list)
    if more then
      local c = more:measure(kit.spin, 1e6)
      more:close()
      for _, e in ipairs(c) do assert.is_nil(e.value) end
    end
  end)
end)

describe("perf.doctor here", function()
  it("examines everything and leaves nothing open", function()
    requires { perf_open = "user" }
    local report = perf.doctor()
    assert.equal("perf_event_open", report[1].check)
    assert.is_true(report[1].ok)
    local seen = {}
    for _, row in ipairs(report) do seen[row.check] = true end
    for _, check in ipairs { "perf_event_paranoid", "capabilities", "seccomp", "software events", "hardware counters", "tracefs",
      "kprobes", "uprobes", "breakpoints", "BPF", "descriptors", "memory for rings", "sampling", "callchains",
      "kernel symbols", "interpreter", "optional parts" } do
      assert.is_true(seen[check], check)
    end
    for line in tostring(report):gmatch "[^\n]+" do
      assert.is_true(#line <= 100 or line:find "^     %->" ~= nil, line)
    end
  end)
end)
