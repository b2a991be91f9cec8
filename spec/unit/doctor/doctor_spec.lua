-- perf.doctor on simulated machines: its findings and the commands that it names. Twice: the findings are only text.
local core = require "perf.core"
local doctor = require "perf.doctor"
local machine = require "spec.support.machine"

local here

-- Lua code over a simulated kernel: pressure by the collector would find nothing here, and take minutes.
before_each(function() requires { nostress = true } end)

after_each(function()
  if here then
    assert.equal(0, here.opened)
    here:close()
  end
  here = nil
end)

-- The report of a machine, and its rows by name.
local function examine(facts, answer)
  if here then here:close() end
  here = machine.new(facts)
  here:answer(answer or function() end)
  local report, rows = doctor.doctor(), {}
  for _, row in ipairs(report) do rows[row.check] = row end
  return rows, report
end

-- A kernel's refusals for an ordinary user at a level.
local function level(n)
  return function(attr, pid)
    if attr.type == "hardware" then return "ENOENT" end
    if n >= 1 and pid == -1 then return "EACCES" end
    if n >= 2 and not attr.exclude_kernel then return "EACCES" end
  end
end

describe("perf.doctor", function()
  it("describes what each level allows, and how to allow more", function()
    local rows = examine({ paranoid = 2 }, level(2))
    local row = rows.perf_event_paranoid
    assert.is_false(row.ok)
    assert.equal("2: this program may count own processes, user space only: context-switches, cpu-migrations and tracepoints "
      .. "count nothing", row.detail)
    assert.equal("sysctl -w kernel.perf_event_paranoid=1  # the kernel too\n"
      .. "sysctl -w kernel.perf_event_paranoid=0  # whole CPUs too\n"
      .. "sysctl -w kernel.perf_event_paranoid=-1  # raw data of tracepoints too\n"
      .. "setcap cap_perfmon+ep /usr/bin/lua  # for all who may run it", row.fix)
    for n, text in pairs { [1] = "own processes, with the kernel; not all of a CPU, no raw data of tracepoints",
      [0] = "everything but the raw data of tracepoints", [-1] = "everything" } do
      row = examine({ paranoid = n }, level(n)).perf_event_paranoid
      assert.same({ true, n .. ": this program may count " .. text }, { row.ok, row.detail })
      assert.is_nil(row.fix)
    end
  end)

  -- The kernel refuses ptrace of a program with a capability. So luaperf stat counted the interpreter's start too, and the
  -- remedy did not say that.
  it("says what a capability of the interpreter changes, if it proposes one", function()
    local _, report = examine({ paranoid = 2 }, level(2))
    assert.matches("setcap: use a copy of the interpreter,.* luaperf stat counts its start too%.", tostring(report))
    _, report = examine({ paranoid = 3 }, function() return "EACCES" end)
    assert.equal(tostring(report):find("-> setcap", 1, true) ~= nil, tostring(report):find("setcap: use", 1, true) ~= nil)
  end)

  it("knows Debian's level 3", function()
    local rows = examine({ paranoid = 3 }, function() return "EACCES" end)
    assert.equal("3: this program may count nothing", rows.perf_event_paranoid.detail)
    assert.matches("^sysctl %-w kernel.perf_event_paranoid=2  # user space\n", rows.perf_event_paranoid.fix)
    assert.is_nil(rows.perf_event_paranoid.fix:find "setcap") -- CAP_PERFMON does not suffice there
    assert.is_false(rows.perf_event_open.ok)
    assert.matches("^Permission denied %(kernel.perf_event_paranoid is 3, where", rows.perf_event_open.detail)
    assert.is_nil(rows["software events"].ok)
  end)

  it("finds no restriction for root and with CAP_PERFMON", function()
    local row = examine({ uid = 0, cap = "000001ffffffffff" }).perf_event_paranoid
    assert.is_true(row.ok)
    assert.matches("^2, which does not restrict this program: it has CAP_SYS_ADMIN; an ordinary user may count own", row.detail)
    row = examine({ paranoid = 3, uid = 0, cap = "000001ffffffffff" }).perf_event_paranoid
    assert.matches("an ordinary user may count nothing on Debian's and Ubuntu's kernels, elsewhere the same as at 2", row.detail)
    row = examine { cap = "0000004000000000" }.perf_event_paranoid
    assert.matches("it has CAP_PERFMON", row.detail)
    -- root of a user namespace is an ordinary user
    local rows = examine({ uid = 0, cap = "000001ffffffffff", files = { ["proc/self/uid_map"] = "0 1000 1" } }, level(2))
    assert.is_false(rows.perf_event_paranoid.ok)
    assert.matches("run it outside of its user namespace", rows.perf_event_paranoid.fix)
    assert.equal("this process has those of a user namespace, which perf ignores", rows.capabilities.detail)
  end)

  it("names capabilities", function()
    assert.equal("CAP_PERFMON CAP_SYS_ADMIN CAP_BPF CAP_IPC_LOCK CAP_SYS_PTRACE",
      examine { cap = "000001ffffffffff" }.capabilities.detail)
    assert.equal("none that matters here, as uid 1000", examine().capabilities.detail)
  end)

  it("sorts the software events by what they can count", function()
    local row = examine({ paranoid = 2 }, level(2))["software events"]
    assert.is_false(row.ok)
    assert.equal("4 of 12 count; in user space only: page-faults minor-faults major-faults alignment-faults emulation-faults; "
      .. "not permitted: context-switches cpu-migrations cgroup-switches", row.detail)
    row = examine({ paranoid = 1 }, function(attr) return attr.config == 11 and "ENOENT" or nil end)["software events"]
    assert.same({ true, "11 of 12 count; newer than this kernel: cgroup-switches" }, { row.ok, row.detail })
  end)

  it("looks for hardware counters, and for a user of one", function()
    local row = examine({}, level(0))["hardware counters"]
    assert.same({ false, "the kernel knows no counters of this CPU" }, { row.ok, row.detail })
    row = examine({ files = { ["proc/cpuinfo"] = "processor\t: 0\nflags\t\t: hypervisor\n" } }, level(0))["hardware counters"]
    assert.matches("^none: the host of this virtual machine does not pass its PMU on", row.detail)
    assert.matches("^qemu%-system%-x86_64 %-cpu host,pmu=on", row.fix)

    local n = 0
    local rows = examine({ files = { ["proc/sys/kernel/nmi_watchdog"] = "1",
      ["sys/bus/event_source/devices/cpu/rdpmc"] = "0" } }, function(attr, _, _, leader)
      if attr.type ~= "hardware" then return nil end
      n = leader and n + 1 or 1
      if n > 4 then return "EINVAL" end
      return attr.config == 2 and "ENOENT" or nil -- cache-references
    end)
    assert.is_nil(rows["hardware counters"].ok)
    assert.equal("4 at once; count: cpu-cycles instructions branch-instructions branch-misses cache-misses; do not: "
      .. "cache-references", rows["hardware counters"].detail)
    assert.same({ false, "sysctl -w kernel.nmi_watchdog=0" }, { rows["NMI watchdog"].ok, rows["NMI watchdog"].fix })
    assert.equal("echo 1 > /sys/bus/event_source/devices/cpu/rdpmc", rows["reads in user space"].fix)
    assert.is_nil(examine({ files = { ["proc/sys/kernel/nmi_watchdog"] = "1" } }, level(0))["NMI watchdog"])
  end)

  it("finds the seccomp filter", function()
    assert.equal("no filter", examine().seccomp.detail)
    assert.equal("a filter, which allows perf_event_open", examine { seccomp = 2 }.seccomp.detail)
    local row = examine({ seccomp = 2 }, function() return "ENOSYS" end).seccomp
    assert.same({ false, "a filter denies perf_event_open to this process (ENOSYS)" }, { row.ok, row.detail })
    assert.equal("docker run --cap-add PERFMON ...  # or --security-opt seccomp=unconfined\n"
      .. "SystemCallFilter=@debug  # in a systemd unit that sets SystemCallFilter=", row.fix)
    assert.is_nil(examine({ seccomp = 2, paranoid = 3 }, function() return "EACCES" end).seccomp.ok)
  end)

  it("finds how tracefs is mounted", function()
    assert.equal("mount -t tracefs tracefs /sys/kernel/tracing", examine().tracefs.fix)
    assert.equal("docker run -v /sys/kernel/tracing:/sys/kernel/tracing ...",
      examine { files = { [".dockerenv"] = "" } }.tracefs.fix)
    local row = examine { files = { ["proc/self/mounts"] = "t /sys/kernel/tracing tracefs rw 0 0" } }.tracefs
    assert.equal("mount -o remount,mode=750,gid=GROUP /sys/kernel/tracing  # for the users of a group", row.fix)
    row = examine { files = { ["sys/kernel/tracing/events/header_page"] = "x" } }.tracefs
    assert.same({ true, "/sys/kernel/tracing, readable" }, { row.ok, row.detail })
  end)

  it("reports probes, breakpoints and BPF", function()
    local rows = examine({ files = { ["sys/bus/event_source/devices/kprobe/type"] = "6" } }, function(attr)
      return attr.type == "breakpoint" and "EOPNOTSUPP" or nil
    end)
    assert.same({ false, "setcap cap_perfmon+ep /usr/bin/lua" }, { rows.kprobes.ok, rows.kprobes.fix })
    assert.same({ false, "run it as root" }, { rows.uprobes.ok, rows.uprobes.fix })
    assert.is_nil(rows.breakpoints.ok)
    assert.same({ false, "setcap cap_bpf,cap_perfmon+ep /usr/bin/lua" }, { rows.BPF.ok, rows.BPF.fix })
    rows = examine { cap = "000001ffffffffff", files = { ["sys/kernel/btf/vmlinux"] = "x" } }
    assert.matches("without them %(CONFIG_KPROBE_EVENTS%)", rows.kprobes.detail)
    assert.is_true(rows.uprobes.ok)
    assert.equal("programs can be loaded, with the kernel's types (BTF)", rows.BPF.detail)
  end)

  it("computes for how many rings memory may be locked", function()
    assert.matches("^no limit", examine { cap = "0000000000004000" }["memory for rings"].detail)
    assert.matches("^no limit", examine { paranoid = -1 }["memory for rings"].detail)
    local row = examine { cpus = "0-63", files = { ["proc/sys/kernel/perf_event_mlock_kb"] = "64" } }["memory for rings"]
    assert.matches("^perf_event_mlock_kb 64 for each of 64 CPUs, shared by all of the user's programs, and RLIMIT_MEMLOCK .*: ",
      row.detail)
    assert.matches(" of 128 pages$", row.detail)
  end)

  it("names the commands for limits that are low", function()
    local rlimit = core.rlimit
    finally(function() core.rlimit = rlimit end)
    core.rlimit = function() return 1024, 4096 end -- in containers a process may often have a million descriptors
    local rows = examine { cpus = "0-4095", files = { ["proc/sys/kernel/perf_event_max_sample_rate"] = "1000",
      ["proc/sys/kernel/perf_event_max_stack"] = "20", ["proc/sys/kernel/kptr_restrict"] = "1",
      ["proc/kallsyms"] = "0000000000000000 T _text" } }
    assert.matches("^sysctl %-w kernel.perf_event_max_sample_rate=100000\n", rows.sampling.fix)
    assert.equal("sysctl -w kernel.perf_event_max_stack=127", rows.callchains.fix)
    assert.equal("sysctl -w kernel.kptr_restrict=0\nsysctl -w kernel.perf_event_paranoid=1  # higher levels hide them too",
      rows["kernel symbols"].fix)
    assert.same({ false, "1024, at most 4096: one for each event on each CPU", "ulimit -n 4096" },
      { rows.descriptors.ok, rows.descriptors.detail, rows.descriptors.fix })
    assert.matches("never lowered", examine { files = { ["proc/sys/kernel/perf_cpu_time_max_percent"] = "0" } }.sampling.detail)
  end)

  it("prints a report of at most 100 columns, without colour unless asked", function()
    local _, report = examine({ paranoid = 4, seccomp = 2, files = { [".dockerenv"] = "" } }, function() return "EPERM" end)
    local text = tostring(report)
    assert.matches("^lua%-perf [%d.]+ on Linux .-, uid 1000, in a container\n\n", text)
    assert.is_nil(text:find "\27")
    for line in text:gmatch "[^\n]+" do assert.is_true(#line <= 100, line) end
    assert.matches("\n no  seccomp                a filter denies perf_event_open to this process %(EPERM%)\n"
      .. "     %-> docker run %-%-cap%-add PERFMON ...  # or %-%-security%-opt seccomp=unconfined\n", text)
    assert.matches("\n%d+ of %d+ could be better: the lines with %-> show how; run the commands as root$", text)
    local colours = report:text { colour = true }
    assert.matches("\n \27%[31mno\27%[0m  seccomp ", colours)
    assert.equal(text, (colours:gsub("\27%[%d+m", "")))
    for line in report:text { width = 70 }:gmatch "[^\n]+" do
      local whole = line:find "^     %->" or line:find "^lua%-perf" or line:find "^%d+ of "
      assert.is_true(#line <= 70 or whole ~= nil, line)
    end
  end)

  it("is data: each failed row has a reason, and no other row has a remedy", function()
    local _, report = examine({ paranoid = 2 }, level(2))
    for _, row in ipairs(report) do
      assert.is_string(row.check)
      assert.is_string(row.detail)
      if row.ok then assert.is_nil(row.fix) end
    end
  end)
end)
