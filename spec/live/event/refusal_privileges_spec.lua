-- Real refusals of an ordinary user: a child gives up root, tries, and returns the message. Twice: the kernel refuses.
local kit = require "testkit"
local core = require "perf.core"
local perf = require "perf"
local as_nobody = require "spec.support.nobody"
local util = require "spec.support.util"

-- The result of opening an event: "CODE message", or "opened".
local function try(event, opts)
  local ev, message, code = perf.open(event, opts)
  if ev then
    ev:close()
    return "opened"
  end
  return code .. " " .. message
end

-- The count of an event during fn, and its `why`.
local function count(event, fn, ...)
  local list = { event }
  perf.measure(list, fn, ...)
  kit.settle() -- the fork made every page copy-on-write
  local entry = perf.measure(list, fn, ...)[1]
  return ("%d %s"):format(entry.raw, entry.why or "")
end

-- Opens an event again and again, then closes all; returns their number, and the reason why no more could be opened.
local function until_refused(event, most)
  local events = {}
  local message, code
  for i = 1, most do
    events[i], message, code = perf.open(event)
    if not events[i] then break end
  end
  for _, ev in ipairs(events) do ev:close() end
  return events, message, code
end

local sysctl_or_cap = "run: sysctl kernel.perf_event_paranoid=%d, or give the program CAP_PERFMON)"

describe("an ordinary user", function()
  -- Not with the collector under pressure: it makes everything slow, and other specs need the level.
  before_each(function() requires { root = true, perf_open = true, nostress = true, cmd = "flock" } end)

  it("gets a note at level 2 that the kernel is not counted", function()
    assert.equal("EACCES page-faults: perf_event_open: Permission denied (kernel.perf_event_paranoid is 2; count user space "
      .. "only with page-faults:u, or " .. sysctl_or_cap:format(1), as_nobody(2, try, "page-faults"))
    assert.equal("EACCES page-faults:k: perf_event_open: Permission denied (kernel.perf_event_paranoid is 2; count user space "
      .. "only with page-faults:u, or " .. sysctl_or_cap:format(1), as_nobody(2, try, "page-faults:k"))
  end)

  it("counts exactly with :u, as the message promised", function()
    requires { nosan = true } -- a sanitizer's allocator touches pages of its own
    assert.equal("64 ", as_nobody(2, count, "page-faults:u", kit.touch_pages, 64))
  end)

  it("is not advised to use :u for an event that then counts nothing, and gets the reason if it does", function()
    assert.equal("EACCES context-switches: perf_event_open: Permission denied (kernel.perf_event_paranoid is 2; context "
      .. "switches happen in the kernel, so :u would count none; " .. sysctl_or_cap:format(1),
      as_nobody(2, try, "context-switches"))
    assert.equal("0 context switches happen in the kernel (exclude_kernel, :u, leaves that out)",
      as_nobody(2, count, "context-switches:u", kit.sleeps, 5))
  end)

  it("counts its own context switches at level 1", function()
    assert.equal("as many", as_nobody(1, function()
      local ev = assert(perf.open "context-switches")
      ev:enable()
      -- Other processes may switch this one out at any time, also between two readings.
      local outer, first, inner = kit.rusage "switches", ev:read().value, kit.rusage "switches"
      kit.sleeps(5)
      local inner_end, last, outer_end = kit.rusage "switches", ev:read().value, kit.rusage "switches"
      ev:close()
      local counted, least, most = last - first, inner_end - inner, outer_end - outer
      return least >= 5 and least <= counted and counted <= most and "as many"
        or ("%d for %d to %d"):format(counted, least, most)
    end))
  end)

  it("may count a whole CPU at level 0, but not at level 1", function()
    assert.equal("EACCES page-faults:u: perf_event_open: Permission denied (kernel.perf_event_paranoid is 2, and must be 0 or "
      .. "less for every process of a CPU; count one process instead, or " .. sysctl_or_cap:format(0),
      as_nobody(2, try, "page-faults:u", { pid = -1, cpu = 0 }))
    assert.equal("EACCES page-faults: perf_event_open: Permission denied (kernel.perf_event_paranoid is 1, and must be 0 or "
      .. "less for every process of a CPU; count one process instead, or " .. sysctl_or_cap:format(0),
      as_nobody(1, try, "page-faults", { pid = -1, cpu = 0 }))
    assert.equal("opened", as_nobody(0, try, "page-faults", { pid = -1, cpu = 0 }))
  end)

  it("may sample the raw data of tracepoints only at level -1", function()
    requires { tracepoint = "sched:sched_switch" }
    local event = { type = "tracepoint", sample_type = { "raw" }, sample_period = 1 }
    event.config = tonumber(util.read_file(util.tracefs_dir() .. "/events/sched/sched_switch/id"))
    local text = as_nobody(0, try, event)
    assert.matches("^EPERM ", text)
    assert.matches("kernel.perf_event_paranoid is 0, and must be %-1 or less for raw data of tracepoints; run: sysctl "
      .. "kernel.perf_event_paranoid=%-1, or give the program CAP_PERFMON%)$", text)
    assert.equal("opened", as_nobody(-1, try, event))
  end)

  it("counts the tracepoints of system calls with :u, as the message advises", function()
    requires { tracepoint = { "sched:sched_switch", "syscalls:sys_enter_getppid" } }
    local function point(name)
      return { type = "tracepoint", exclude_kernel = true,
        config = tonumber(util.read_file(util.tracefs_dir() .. "/events/" .. name .. "/id")) }
    end
    assert.equal("7 ", as_nobody(2, count, point "syscalls/sys_enter_getppid", kit.syscalls, 7))
    assert.equal("0", as_nobody(2, count, point "sched/sched_switch", kit.sleeps, 7):match "^%d+")
  end)

  it("gets a message that says what level 3 means on this kernel", function()
    local text = as_nobody(3, try, "page-faults:u")
    if text ~= "opened" then -- Debian's kernel
      assert.equal("EACCES page-faults:u: perf_event_open: Permission denied (kernel.perf_event_paranoid is 3, where this kernel "
        .. "refuses every event to users; run: sysctl kernel.perf_event_paranoid=2, or give the program CAP_SYS_ADMIN)", text)
    end
    assert.matches("kernel.perf_event_paranoid is 3[;,]", as_nobody(3, try, "page-faults"))
  end)

  it("gets a message that names the owner of a process that it may not count", function()
    assert.equal(("EACCES page-faults:u: perf_event_open: Permission denied (process %d belongs to uid 0, and this program "
      .. "runs as uid 65534; run as that user, or give the program CAP_PERFMON)"):format(kit.getpid()),
      as_nobody(2, try, "page-faults:u", { pid = kit.getpid() }))
  end)

  it("may count another process of the same user", function()
    assert.equal("opened", as_nobody(2, function()
      local child = kit.start(function() end)
      local text = try("page-faults:u", { pid = child:pid() })
      child:close()
      return text
    end))
  end)

  it("gets a message that says that no level allows it", function()
    assert.matches("namespace records take CAP_PERFMON, whatever kernel.perf_event_paranoid is",
      as_nobody(-1, try, { type = "software", config = 9, namespaces = true }))
  end)

  it("gets a message that a uprobe needs CAP_SYS_ADMIN", function()
    requires { uprobe = true }
    local kind = tonumber(util.read_file "/sys/bus/event_source/devices/uprobe/type")
    assert.matches("uprobes take CAP_SYS_ADMIN, whatever",
      as_nobody(-1, try, { type = kind, uprobe_path = "/bin/true", exclude_kernel = true }))
  end)

  it("gets a message about a breakpoint in the kernel", function()
    requires { breakpoint = true }
    local attr = { type = "breakpoint", bp_type = { "w" }, bp_addr = -4096, bp_len = 8 }
    if select(2, core.uname()) == "aarch64" then
      assert.matches("arm64 watches the kernel's addresses for a whole CPU only", as_nobody(-1, try, attr))
    else
      assert.matches("breakpoints on the kernel's addresses take CAP_SYS_ADMIN", as_nobody(-1, try, attr))
    end
  end)

  it("may map as many rings as the doctor says", function()
    requires { nosan = true }
    local said, mapped = as_nobody.alone(2, function()
      assert(kit.rlimit("memlock", 2 ^ 20))
      local text
      for _, row in ipairs(perf.doctor()) do
        if row.check == "memory for rings" then text = row.detail:match ": (%d+) rings of 128 pages$" end
      end
      local events, pages = {}, 128
      while pages == 128 do
        local ev = assert(perf.open "dummy:u")
        events[#events + 1] = ev
        pages = select(2, ev:map { pages = 128 }) -- fewer, or a message, if memory is short
      end
      for _, ev in ipairs(events) do ev:close() end
      return ("%s %d"):format(text, #events - 1)
    end):match "^(%d+) (%d+)$"
    assert.equal(said, mapped)
  end)

  it("gets the same answers from perf.features and perf.doctor", function()
    requires { hidden_tracefs = true }
    assert.equal("true 2 unreadable needs CAP_SYS_ADMIN", as_nobody(2, function()
      local f = perf.features { refresh = true }
      local tracefs = f.tracefs:match "^%a+" or f.tracefs
      return ("%s %d %s %s"):format(tostring(f.supported), f.paranoid, tracefs, f.uprobe or "needs CAP_SYS_ADMIN")
    end))
    assert.equal("false 2: this program may count own processes, user space only: context-switches, cpu-migrations and "
      .. "tracepoints count nothing", as_nobody(2, function()
        for _, row in ipairs(perf.doctor()) do
          if row.check == "perf_event_paranoid" then return tostring(row.ok) .. " " .. row.detail end
        end
      end))
  end)
end)

describe("root", function()
  it("is not restricted by any level", function()
    requires { root = true, perf_open = true }
    assert.equal("opened", try "page-faults")
    assert.equal("opened", try("page-faults", { pid = -1, cpu = 0 }))
  end)
end)

describe("limits and missing targets", function()
  before_each(function() requires { perf_open = true } end)

  it("report descriptors that run out as a limit, never as a permission", function()
    local text = util.in_child(function()
      assert(kit.rlimit("nofile", 40))
      local events, message, code = until_refused("dummy:u", 100)
      return #events > 20 and code .. " " .. message
    end)
    assert.matches("^EMFILE dummy:u: perf_event_open: Too many open files %(every event takes a descriptor, and this process "
      .. "may have 40 open %(RLIMIT_NOFILE%); close events, or ", text)
    assert.is_nil(text:find "paranoid")
  end)

  it("name the process that does not exist", function()
    local child = kit.start(function() end)
    local pid = child:pid()
    child:wait()
    assert.matches(("^ESRCH page%%-faults: perf_event_open: No such process %%(there is no process or thread %d here")
      :format(pid), try("page-faults", { pid = pid }))
  end)

  it("recognize a process that has ended and was not waited for", function()
    local child = kit.start(function() end)
    child:go()
    local status = "/proc/" .. child:pid() .. "/status"
    repeat until util.read_file(status):find "State:%s+Z"
    assert.equal(("ESRCH page-faults: perf_event_open: No such process (process %d has ended)"):format(child:pid()),
      try("page-faults", { pid = child:pid() }))
    child:close()
  end)

  it("name the CPU that this machine does not have", function()
    assert.matches("^EINVAL page%-faults: perf_event_open: Invalid argument %(there is no CPU 8191; this machine has %d",
      try("page-faults", { cpu = 8191 }))
  end)

  it("require a process or a CPU", function()
    assert.matches("pid=%-1 with cpu=%-1 would be every process on every CPU", try("page-faults", { pid = -1 }))
  end)

  it("report that the debug registers are used up", function()
    requires { breakpoint = true }
    local cell = kit.cell()
    local _, message, code = until_refused({ type = "breakpoint", bp_type = { "w" }, bp_addr = cell:addr(), bp_len = 8,
      exclude_kernel = true }, 64)
    assert.equal("ENOSPC", code)
    assert.matches("own events hold all %d+ of the CPU's debug registers", message)
  end)
end)
