-- Limits, and other causes that explain finds itself; rings and filters.
local core = require "perf.core"
local explain = require "perf.event.refusal"
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

describe("explain: limits and the rest", function()
  before_each(function()
    here = machine.new()
    here:answer(function() end)
  end)

  it("reports a lack of descriptors as such", function()
    local text = why("cycles", cycles, "EMFILE")
    assert.matches("^every event takes a descriptor, and this process may have %d+ open %(RLIMIT_NOFILE%); close events, "
      .. "or ", text)
    assert.is_nil(text:find "permi" or text:find "paranoid")
    assert.matches("^the whole system has as many files open as fs.file%-max allows", why("cycles", cycles, "ENFILE"))
  end)

  it("names the process that does not exist", function()
    assert.equal("there is no process or thread 4194303 here", why("cycles", cycles, "ESRCH", { pid = 4194303 }))
    here:close()
    here = machine.new { files = { ["proc/77/status"] = "Name:\tx\nState:\tZ (zombie)\nUid:\t0\t0\t0\t0" } }
    assert.equal("process 77 has ended", why("cycles", cycles, "ESRCH", { pid = 77 }))
  end)

  it("distinguishes a newer field from a record that is too large", function()
    local _, message = explain("dummy", with(dummy, { config4 = 1 }),
      "perf_event_open: attr field 'config4' is newer than this kernel: Argument list too long", "E2BIG", {})
    assert.matches("'config4' is newer than this kernel: Argument list too long %(Linux .- does not have it; leave config4 "
      .. "out%)$", message)
    assert.equal("a record of the whole group would be too large; put fewer events into a group",
      why("dummy", with(dummy, { read_format = { "group" } }), "E2BIG"))
  end)

  it("knows the length of callchains", function()
    assert.equal("sample_max_stack is 500 and kernel.perf_event_max_stack 127; use sample_max_stack=127, or run: sysctl "
      .. "kernel.perf_event_max_stack=500 while no callchain is being taken",
      why("dummy", with(dummy, { sample_type = { "callchain" }, sample_max_stack = 500 }), "EOVERFLOW"))
  end)

  it("has a text for each other errno", function()
    assert.matches("debug registers are all in use", why("b", { type = "breakpoint" }, "ENOSPC"))
    assert.matches("the PMU has no counter left", why("c", cycles, "ENOSPC"))
    assert.matches("another program uses the counters exclusively", why("c", cycles, "EBUSY"))
    assert.matches("no memory left", why("c", cycles, "ENOMEM"))
    assert.matches("try again$", why("c", cycles, "EINTR"))
    assert.matches("kprobe_func and uprobe_path take strings", why("c", cycles, "EFAULT"))
    assert.matches("not the directory of a cgroup", why("c", cycles, "EBADF", { cgroup = 9 }))
    assert.matches("the event that leads the group is closed", why("c", cycles, "EBADF", { group = {} }))
    assert.matches("no uprobe can be set there", why("u", { type = 7, uprobe_path = "/proc/cpuinfo" }, "EIO"))
  end)
end)

describe("explain.mmap", function()
  before_each(function() here = machine.new { cpus = "0-1" } end)

  local function mmap(pages, code, ctx)
    local none, message, same = explain.mmap(pages, "mmap: Refused", code, ctx)
    assert.is_nil(none)
    assert.equal(code, same)
    return message
  end

  it("names the limits of locked memory", function()
    local page_size = core.page_size
    finally(function() core.page_size = page_size end)
    core.page_size = function() return 4096 end
    local message = mmap(512, "EPERM", { label = "cycles" })
    assert.matches("^cycles: ring of 512 pages: mmap: Refused %(2052 KiB, and the rings of all this user's programs share "
      .. "kernel.perf_event_mlock_kb, 516 KiB for each of 2 CPUs, and then this process's RLIMIT_MEMLOCK, ", message)
    assert.matches("; use fewer pages %(256%), or close other rings, or run: sysctl kernel.perf_event_mlock_kb=1032, or give "
      .. "the program CAP_IPC_LOCK%)$", message)
    assert.matches("; close other rings, or run", mmap(1, "EPERM"))
  end)

  it("knows what mmap finds invalid", function()
    assert.equal("ring of 3 pages: mmap: Refused (a ring's number of pages is a power of two, and 3 is not)", mmap(3, "EINVAL"))
    assert.equal("ring of 8 pages: mmap: Refused (the ring of an inherited event must be of one CPU; open it on each "
      .. "(perf.set, or cpu=), or leave inherit out)", mmap(8, "EINVAL", { attr = with(dummy, { inherit = true }) }))
    assert.equal("ring of 8 pages: mmap: Refused (the event has a ring of another size already)", mmap(8, "EINVAL"))
    assert.matches("8 pages of AUX: .*must follow a data ring", mmap(8, "EINVAL", { aux = true }))
    assert.matches("this PMU has no AUX area", mmap(8, "EOPNOTSUPP", { aux = true }))
    assert.matches("the ring of another event", mmap(8, "EBUSY"))
    assert.matches("use fewer pages", mmap(8, "ENOMEM"))
  end)
end)

describe("explain.filter", function()
  it("distinguishes a bad filter from an event that cannot have one", function()
    here = machine.new { files = { ["sys/bus/event_source/devices/intel_pt/type"] = "8",
      ["sys/bus/event_source/devices/intel_pt/nr_addr_filters"] = "2" } }
    local function filter(attr, code)
      local none, message, same = explain.filter("e", "x ==", "set_filter: Refused", code or "EINVAL", attr)
      assert.is_nil(none)
      assert.equal(code or "EINVAL", same)
      assert.equal("e: filter 'x ==': set_filter: Refused", message:sub(1, 37))
      return message
    end
    assert.matches("%(the filter names a field that the tracepoint does not have", filter { type = "tracepoint", config = 1 })
    assert.matches("%(only tracepoints, probes and PMUs with address filters can be filtered%)$", filter(dummy))
    assert.matches("%(an address filter reads: filter 0x1000/0x200@/path/of/file%)$", filter { type = 8 })
    assert.matches("has a filter already", filter({ type = "tracepoint" }, "EEXIST"))
  end)
end)
