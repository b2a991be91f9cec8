-- Refusals of perf_event_open for lack of permission, on simulated machines. spec/live/event/refusal_privileges_spec.lua causes
-- real ones.
local machine = require "spec.support.machine"

local why, with, cycles, dummy = machine.why, machine.with, machine.cycles, machine.dummy

local here

after_each(function()
  if here then
    assert.equal(0, here.opened)
    here:close()
  end
  here = nil
end)

local cycles_u = { type = "hardware", config = 0, exclude_kernel = true }

-- A kernel that allows an ordinary user the dummy event.
local function dummy_only(attr)
  return not (attr.config == 9 and attr.type == "software") and "EACCES" or nil
end

describe("permission", function()
  it("gives the example of the reference", function()
    here = machine.new { paranoid = 2 }
    here:answer(dummy_only)
    local none, message, code = require "perf.event.refusal"("cycles:k", with(cycles, { exclude_user = true }),
      "perf_event_open: Permission denied", "EACCES", { pid = 0, cpu = -1 })
    assert.is_nil(none)
    assert.equal("EACCES", code)
    assert.equal("cycles:k: perf_event_open: Permission denied (kernel.perf_event_paranoid is 2; count user space only with "
      .. "cycles:u, or run: sysctl kernel.perf_event_paranoid=1, or give the program CAP_PERFMON)", message)
  end)

  it("keeps a label's spelling when it suggests :u", function()
    here = machine.new()
    here:answer(dummy_only)
    local reason = "kernel.perf_event_paranoid is 2; count user space only with %s, or run: "
      .. "sysctl kernel.perf_event_paranoid=1, or give the program CAP_PERFMON"
    -- The story: "cycles:b:u" and "page-faults::u" were suggested, which no parser accepts.
    for what, user in pairs { cycles = "cycles:u", ["cycles:ukpp"] = "cycles:u", ["cycles:b"] = "cycles:u",
      ["page-faults:"] = "page-faults:u", ["block:plug"] = "block:plug:u", ["cpu/event=1/k"] = "cpu/event=1/u",
      ["cpu/event=0x3c,umask=1/"] = "cpu/event=0x3c,umask=1/u", ["mem:0x1000/4:rw"] = "mem:0x1000/4:rw:u",
      ["an attr"] = "exclude_kernel=true" } do
      assert.equal(reason:format(user), why(what, cycles, "EACCES"))
    end
  end)

  it("does not suggest :u for an event of the kernel alone", function()
    here = machine.new()
    here:answer(dummy_only)
    for name, config in pairs { ["context-switches"] = 3, ["cpu-migrations"] = 4, ["cgroup-switches"] = 11 } do
      local text = why(name, { type = "software", config = config }, "EACCES")
      assert.matches("happen in the kernel, so :u would count none; run: sysctl kernel.perf_event_paranoid=1", text)
      assert.is_nil(text:find("count user space only", 1, true))
    end
    assert.matches("tracepoints are in the kernel", why("sched:sched_switch", { type = "tracepoint", config = 300 }, "EACCES"))
    assert.matches("count user space only with syscalls:sys_enter_read:u",
      why("syscalls:sys_enter_read", { type = "tracepoint", config = 700 }, "EACCES"))
  end)

  it("names the level that a whole CPU needs", function()
    here = machine.new { paranoid = 1 }
    here:answer(dummy_only)
    assert.equal("kernel.perf_event_paranoid is 1, and must be 0 or less for every process of a CPU; count one process "
      .. "instead, or run: sysctl kernel.perf_event_paranoid=0, or give the program CAP_PERFMON",
      why("cycles", cycles, "EACCES", { pid = -1, cpu = 0 }))
  end)

  it("adds up the needs of an event", function()
    here = machine.new { paranoid = 2 }
    here:answer(dummy_only)
    assert.equal("kernel.perf_event_paranoid is 2, and must be 0 or less for counting the kernel and every process of a CPU; "
      .. "count one process instead, user space only, or run: sysctl kernel.perf_event_paranoid=0, or give the program "
      .. "CAP_PERFMON", why("cycles", cycles, "EACCES", { pid = -1, cpu = 0 }))
  end)

  it("treats a cgroup like a whole CPU", function()
    here = machine.new { paranoid = 1 }
    here:answer(dummy_only)
    assert.equal("kernel.perf_event_paranoid is 1, and must be 0 or less for every process of a CPU; run: sysctl "
      .. "kernel.perf_event_paranoid=0, or give the program CAP_PERFMON",
      why("cycles", cycles, "EACCES", { cgroup = "/x", cpu = 0 }))
  end)

  it("knows the needs of the raw data of tracepoints", function()
    here = machine.new { paranoid = 0 }
    here:answer(dummy_only)
    assert.equal("kernel.perf_event_paranoid is 0, and must be -1 or less for raw data of tracepoints; run: sysctl "
      .. "kernel.perf_event_paranoid=-1, or give the program CAP_PERFMON",
      why("sched:sched_switch", { type = "tracepoint", config = 1, sample_type = { "raw" } }, "EPERM"))
  end)

  it("knows physical addresses and the kernel's branches", function()
    here = machine.new { paranoid = 2 }
    here:answer(dummy_only)
    assert.matches("must be 1 or less for physical addresses",
      why("x", with(cycles_u, { sample_type = { "phys_addr" } }), "EACCES"))
    local branch = with(cycles_u, { sample_type = { "branch_stack" } })
    assert.matches("for the kernel's branches", why("x", with(branch, { branch_sample_type = { "any", "kernel" } }), "EACCES"))
    -- Without a level, branches of the hypervisor are included too, unless exclude_hv.
    assert.matches("for the kernel's branches", why("x", with(branch, { branch_sample_type = { "any" } }), "EACCES"))
  end)

  it("names the capability if no level suffices", function()
    here = machine.new { paranoid = -1, files = { ["sys/bus/event_source/devices/kprobe/type"] = "6" } }
    here:answer(dummy_only)
    assert.equal("kprobes take CAP_PERFMON, whatever kernel.perf_event_paranoid is; give the program CAP_PERFMON",
      why("p", { type = 6 }, "EACCES"))
    assert.equal("uprobes take CAP_SYS_ADMIN, whatever kernel.perf_event_paranoid is; give the program CAP_SYS_ADMIN",
      why("u", { type = 7 }, "EACCES"))
    assert.matches("^namespace records take CAP_PERFMON", why("d", with(dummy, { namespaces = true }), "EACCES"))
    assert.matches("^breakpoints on the kernel's addresses take CAP_SYS_ADMIN",
      why("b", { type = "breakpoint", bp_type = { "w" }, bp_addr = -4096, bp_len = 8 }, "EPERM"))
  end)

  it("knows Debian's level 3 and Ubuntu's 4, for which CAP_PERFMON does not suffice", function()
    for _, level in ipairs { 3, 4 } do
      here = machine.new { paranoid = level }
      here:answer(function() return "EACCES" end)
      assert.equal(("kernel.perf_event_paranoid is %d, where this kernel refuses every event to users; run: sysctl "
        .. "kernel.perf_event_paranoid=2, or give the program CAP_SYS_ADMIN"):format(level),
        why("page-faults:u", { type = "software", config = 2, exclude_kernel = true }, "EACCES"))
      here:close()
    end
    here = machine.new { paranoid = 3, cap = "0000004000000000" } -- CAP_PERFMON alone
    here:answer(function() return "EACCES" end)
    assert.matches("refuses every event to users and CAP_PERFMON does not suffice; run:", why("cycles:u", cycles_u, "EACCES"))
  end)

  it("knows level 3 of a kernel without Debian's patch", function()
    here = machine.new { paranoid = 3 }
    here:answer(dummy_only)
    assert.matches("^kernel.perf_event_paranoid is 3; count user space only with cycles:u", why("cycles", cycles, "EACCES"))
  end)

  it("does not count the capabilities of a user namespace", function()
    here = machine.new { paranoid = 2, uid = 0, cap = "000001ffffffffff",
      files = { ["proc/self/uid_map"] = "         0       1000          1" } }
    here:answer(dummy_only)
    assert.matches("or run outside of this user namespace, whose capabilities do not count here$",
      why("cycles", cycles, "EACCES"))
  end)

  it("names the owner of a process of another user", function()
    here = machine.new { paranoid = 2, files = { ["proc/4242/status"] = "Name:\tnginx\nUid:\t33\t33\t33\t33" } }
    here:answer(dummy_only)
    -- The tree belongs to the user who runs this, so /proc/PID/auxv is not refused here: the live spec tests that.
    assert.matches("a security module", why("cycles:u", cycles_u, "EACCES", { pid = 4242 }))
  end)

  it("distinguishes a seccomp filter from the level", function()
    for _, code in ipairs { "EPERM", "ENOSYS" } do
      here = machine.new { paranoid = 2, seccomp = 2 }
      here:answer(function() return code end)
      assert.equal("a seccomp filter denies perf_event_open to this process; allow perf_event_open in it: docker run "
        .. "--cap-add PERFMON, or SystemCallFilter=@debug of a systemd unit", why("cycles", cycles, code))
      here:close()
    end
    here = machine.new { paranoid = 4, seccomp = 2, files = { [".dockerenv"] = "" } }
    here:answer(function() return "EPERM" end)
    assert.equal("a seccomp filter denies perf_event_open to this process; run the container with --cap-add PERFMON, or "
      .. "with --security-opt seccomp=unconfined", why("cycles", cycles, "EPERM"))
    here:close()
    -- A filter that exists need not be the cause of the refusal.
    here = machine.new { paranoid = 2, seccomp = 2 }
    here:answer(dummy_only)
    assert.matches("^kernel.perf_event_paranoid is 2;", why("cycles", cycles, "EACCES"))
    here:close()
    here = machine.new { paranoid = 3, seccomp = 2 }
    here:answer(function() return "EACCES" end)
    assert.matches("^kernel.perf_event_paranoid is 3,", why("cycles:u", cycles_u, "EACCES"))
  end)

  it("knows a kernel without perf events, and a sandbox", function()
    here = machine.new { paranoid = false }
    here:answer(function() return "ENOSYS" end)
    assert.equal("there is no kernel.perf_event_paranoid: this kernel is built without perf events (CONFIG_PERF_EVENTS)",
      why("cycles", cycles, "ENOSYS"))
    here:close()
    here = machine.new { paranoid = 1 }
    here:answer(function() return "ENOSYS" end)
    assert.equal("a sandbox denies the system call to this process", why("cycles", cycles, "ENOSYS"))
    here:answer(function() return "EACCES" end)
    assert.equal("a security module or sandbox refuses perf_event_open to this process", why("cycles", cycles, "EACCES"))
    here:answer(function() return "ENODEV" end)
    assert.matches("a sandbox such as gVisor", why("cycles", cycles, "ENODEV"))
  end)

  it("knows lockdown", function()
    here = machine.new { uid = 0, cap = "000001ffffffffff",
      files = { ["sys/kernel/security/lockdown"] = "none integrity [confidentiality]" } }
    here:answer(dummy_only)
    assert.equal("the kernel is locked down (confidentiality); boot without lockdown",
      why("x", with(cycles, { sample_type = { "regs_intr" }, sample_regs_intr = 1 }), "EPERM"))
  end)
end)
