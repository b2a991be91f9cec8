-- Reading /proc and /sys of simulated machines.
local host = require "perf.kernel.host"
local machine = require "spec.support.machine"

local here

after_each(function()
  if here then here:close() end
  here = nil
end)

describe("host", function()
  it("reads lines and numbers, or gives the reason", function()
    here = machine.new { files = { a = "one\ntwo", b = "  -1 ", c = "x1", d = "" } }
    assert.equal("one", host.line "/a")
    assert.equal("one\ntwo\n", host.read_file "/a")
    assert.equal(-1, host.number "/b")
    local none, message, code = host.number "/c"
    assert.same({ nil, "/c: not a number", "EINVAL" }, { none, message, code })
    assert.equal("EINVAL", select(3, host.number "/d"))
    assert.equal("ENOENT", select(3, host.number "/nope"))
    assert.equal("ENOENT", select(3, host.line "/nope"))
    assert.equal("ENOENT", select(3, host.list "/nope"))
    assert.equal("EISDIR", select(3, host.read_file "/proc"))
    assert.is_true(host.readable "/a")
    assert.is_false(host.readable "/nope")
  end)

  it("gives the level as an integer, or reports that the kernel has no perf events", function()
    for _, level in ipairs { -1, 0, 1, 2, 3, 4 } do
      here = machine.new { paranoid = level }
      assert.equal(level, host.paranoid())
      assert.equal(tostring(level), tostring(host.paranoid()))
      here:close()
    end
    here = machine.new { paranoid = false }
    local none, message, code = host.paranoid()
    assert.is_nil(none)
    assert.equal("kernel.perf_event_paranoid: no such file (this kernel is built without perf events, CONFIG_PERF_EVENTS)",
      message)
    assert.equal("ENOENT", code)
    assert.equal(127, host.max_stack())
  end)

  it("finds single capabilities", function()
    local bits = { kill = "0000000000000020", ipc_lock = "0000000000004000", sys_ptrace = "0000000000080000",
      sys_admin = "0000000000200000", perfmon = "0000004000000000", bpf = "0000008000000000" }
    for name, mask in pairs(bits) do
      here = machine.new { cap = mask }
      for other in pairs(bits) do assert.equal(other == name, host.has_capability(other), name .. " " .. other) end
      assert.equal(name == "perfmon" or name == "sys_admin", host.privileged())
      here:close()
    end
    here = nil
  end)

  it("gives nothing for the capabilities of a user namespace", function()
    here = machine.new { cap = "000001ffffffffff", files = { ["proc/self/uid_map"] = "0 100000 65536" } }
    assert.is_true(host.in_user_namespace())
    assert.is_false(host.has_capability "sys_admin")
  end)

  it("reads the thread's status if it exists", function()
    here = machine.new { uid = 5, seccomp = 2, files = { ["proc/thread-self/status"] = "Uid:\t1\t7\t1\t1\nSeccomp:\t0",
      ["proc/9/status"] = "Uid:\t1\t8\t1\t1" } }
    assert.equal(7, host.uid())
    assert.equal(8, host.uid(9))
    assert.is_nil(host.uid(10))
    assert.equal(0, host.seccomp())
  end)

  it("understands lists of CPUs", function()
    here = machine.new { cpus = "0-2,5,8-9" }
    local cpus = host.cpus "online"
    assert.equal("0-2,5,8-9", cpus.text)
    assert.equal(6, #cpus)
    local seen = {}
    for cpu = 0, 12 do seen[#seen + 1] = cpus.has[cpu] and cpu or nil end
    assert.same({ 0, 1, 2, 5, 8, 9 }, seen)
    assert.is_nil(host.cpus "nope")
  end)

  it("knows PMUs by name and by number", function()
    local devices = "sys/bus/event_source/devices/"
    here = machine.new { files = { [devices .. "uncore_imc/type"] = "9", [devices .. "uncore_imc/cpumask"] = "0" } }
    assert.equal("uprobe", host.pmu(7).name)
    assert.equal(7, host.pmu "uprobe".type)
    assert.is_nil(host.pmu(99))
    assert.same({ "uncore_imc", 9, "0" },
      { host.pmu "uncore_imc".name, host.pmu "uncore_imc".type, host.pmu "uncore_imc":text "cpumask" })
  end)

  it("recognizes virtual machines and containers", function()
    for _, files in ipairs {
      { ["proc/cpuinfo"] = "processor\t: 0\nflags\t\t: fpu hypervisor\n" },
      { ["sys/class/dmi/id/sys_vendor"] = "QEMU" },
      { ["sys/hypervisor/type"] = "xen" },
      { ["proc/device-tree/hypervisor/compatible"] = "linux,kvm" },
    } do
      here = machine.new { files = files }
      assert.is_true(host.virtual())
      here:close()
    end
    here = machine.new { files = { ["sys/class/dmi/id/sys_vendor"] = "Dell Inc." } }
    assert.is_false(host.virtual())
    assert.is_false(host.container())
    here:close()
    here = machine.new { files = { [".dockerenv"] = "" } }
    assert.is_true(host.container())
  end)

  it("finds tracefs in both places, and distinguishes unmounted from unreadable", function()
    here = machine.new()
    assert.same({ nil, "unmounted" }, { host.tracefs() })
    here:close()
    here = machine.new { files = { ["proc/self/mounts"] = "tracefs /sys/kernel/tracing tracefs rw 0 0" } }
    assert.same({ nil, "unreadable", "/sys/kernel/tracing" }, { host.tracefs() })
    here:close()
    here = machine.new { files = { ["sys/kernel/debug/tracing/events/header_page"] = "x" } }
    assert.equal("/sys/kernel/debug/tracing", host.tracefs())
    here:close()
    here = machine.new { files = { ["sys/kernel/debug/tracing/events/header_page"] = "x",
      ["sys/kernel/tracing/events/header_page"] = "x" } }
    assert.equal("/sys/kernel/tracing", host.tracefs())
  end)

  -- The story: the file that is mapped first was taken for the program; but it is a library if the stack is unlimited.
  it("names the running program", function()
    requires { own_program = true }
    here = machine.new()
    assert.equal("/usr/bin/lua", host.program())
    here:close()
    here = nil
    assert.matches("^/.*lua", host.program())
  end)

  it("reads nothing when it is loaded", function()
    package.loaded["perf.kernel.host"] = nil
    local open, opened = io.open, 0
    io.open = function(...) opened = opened + 1 return open(...) end -- luacheck: ignore
    local loaded = require "perf.kernel.host"
    io.open = open -- luacheck: ignore
    assert.equal(0, opened)
    assert.equal("", loaded.root)
    package.loaded["perf.kernel.host"] = host
  end)
end)
