-- Counters read in user space, in an emulated Arm machine that allows it: they agree with read(2), and make no system call.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"

local PERMISSION = "/proc/sys/kernel/perf_user_access"
local READ = 63 -- the number of read(2)
local ROUND = 2 -- ns: the kernel's clock and the page's may be rounded differently

local function allow(value)
  local f = assert(io.open(PERMISSION, "w"))
  f:write(value)
  f:close()
end

describe("a counter in user space", function()
  local opened = {}
  local function keep(object, message, code)
    assert(object, message, code)
    opened[#opened + 1] = object
    return object
  end

  -- The number of read(2) calls that this thread makes.
  local calls
  local function reads(fn, ...)
    local before = calls:scan()[1].value
    fn(...)
    return calls:scan()[1].value - before - 1 -- 1 is the read of this scan
  end

  -- The same event, which is not read in user space.
  local function by_read(name)
    local ev = keep(perf.open(name))
    ev:fd()
    ev:enable()
    assert.same({ nil, "EAGAIN" }, { ev:user() })
    return ev
  end

  before_each(function()
    requires { vm = "arm64", pmu = true, root = true }
    allow "1"
    -- Opened by the core, which does not know that it counts reads: perf.open would exclude those of a measurement.
    calls = keep(core.open({ type = 2, disabled = true, read_format = { "id" },
      config = require "perf.kernel.tracefs".here:id("raw_syscalls", "sys_enter") }, 0, -1))
    assert(calls:set_filter("id == " .. READ))
    calls:enable()
  end)
  after_each(function()
    for _, o in ipairs(opened) do o:close() end
    opened = {}
  end)

  -- Values that are read between two calls of read(2) must lie between theirs.
  local function agrees(ev)
    local a = ev:scan()
    local value, enabled, running, id = ev:user()
    local b = ev:scan()
    if not value then return false end
    assert.is_true(a[1].value <= value and value <= b[1].value)
    assert.is_true(a.enabled_ns - ROUND <= enabled and enabled <= b.enabled_ns + ROUND)
    assert.is_true(a.running_ns - ROUND <= running and running <= b.running_ns + ROUND)
    assert.equal(a[1].id, id)
    return true
  end

  it("agrees with read(2)", function()
    for _, name in ipairs { "cycles", "cycles:u", "cycles:k", "instructions:u", "armv8_pmuv3/cpu_cycles/u", "r11:u",
      "armv8_pmuv3/event=0x11,long=1/u" } do
      local ev = keep(perf.open(name))
      assert.is_false(agrees(ev), name) -- it is not enabled
      ev:enable()
      for i = 1, 50 do
        kit.spin(i * 1000)
        assert.is_true(agrees(ev), name)
      end
      ev:disable()
      assert.is_false(agrees(ev), name)
    end
  end)

  it("gives exactly the same as read(2) for the same work", function()
    requires { vm = "icount" }
    -- The least of several rounds, as in pmu_spec.lua.
    local ev, other = keep(perf.open "instructions:u"), by_read "instructions:u"
    local function step(e)
      local least = { math.huge, math.huge }
      for _ = 1, 20 do
        for i = 1, 2 do least[i] = math.min(least[i], e:measure(kit.syscalls, i * 1000).value) end
      end
      return least[2] - least[1]
    end
    if rawget(_G, "jit") then jit.off() end
    collectgarbage "stop"
    local a, b = step(ev), step(other)
    collectgarbage "restart"
    if rawget(_G, "jit") then jit.on() end
    assert.equal(b, a)
    assert.equal(0, a % 1000)
  end)

  it("is read by measure and read without a system call", function()
    local ev, other = keep(perf.open "cycles:u"), by_read "cycles:u"
    local g = keep(perf.group { "cycles", "instructions:u", "cycles:k" })
    local list = "cycles:u,instructions:u"
    local function nothing() end
    perf.measure(list, nothing)
    ev:measure(nothing)
    g:measure(nothing)
    local function each(method, object)
      return reads(function()
        for _ = 1, 100 do object[method](object, nothing) end
      end)
    end
    assert.equal(0, each("measure", ev))
    assert.equal(0, each("read", ev))
    assert.equal(0, each("measure", g))
    assert.equal(0, each("read", g))
    assert.equal(0, reads(function()
      for _ = 1, 100 do perf.measure(list, nothing) end
    end))
    assert.equal(200, each("measure", other))
    assert.equal(100, each("read", other))
    ev:disable()
    assert.equal(100, each("read", ev))
    -- Software events are read as always.
    perf.measure("cycles:u,page-faults", nothing)
    assert.equal(2, reads(perf.measure, "cycles:u,page-faults", nothing))
  end)

  it("is read with its group, all at once", function()
    local g = keep(perf.group { "cycles:u", "instructions:u", "cycles", "cycles:k" })
    g:enable()
    for i = 1, 50 do
      kit.spin(i * 1000)
      local a = g[1]:scan()
      local c
      assert.equal(0, reads(function() c = g:read() end))
      local b = g[1]:scan()
      for k = 1, 4 do
        assert.is_true(a[k].value <= c[k].value and c[k].value <= b[k].value)
        assert.equal(a[k].id, c[k].id)
        assert.equal(c[1].running_ns, c[k].running_ns)
      end
      assert.is_true(a.running_ns - ROUND <= c[1].running_ns and c[1].running_ns <= b.running_ns + ROUND)
    end
    local ok = g:disable()
    assert.is_true(ok)
    local a, c = g[1]:scan(), g:read()
    for k = 1, 4 do assert.equal(a[k].value, c[k].value) end
  end)

  it("is left to read(2) while other events have the counter", function()
    local events, there, away = {}, 0, 0
    for i = 1, 12 do
      events[i] = keep(perf.open "cycles:u")
      events[i]:enable()
    end
    local last = {}
    for _ = 1, 30 do
      kit.spin(1e6)
      for i, ev in ipairs(events) do
        if agrees(ev) then there = there + 1 else away = away + 1 end
        local e = ev:read()
        assert.is_true(e.raw >= (last[i] or 0))
        assert.is_true(e.running_ns <= e.enabled_ns)
        last[i] = e.raw
      end
    end
    assert.is_true(there > 50 and away > 50, there .. " " .. away)
  end)

  it("is right after a reset while it runs", function()
    -- The kernel then writes a page that is wrong by 2^32 until the event is next scheduled in.
    local ev, g = keep(perf.open "cycles:u"), keep(perf.group { "cycles:u", "instructions:u" })
    ev:enable()
    g:enable()
    for i = 1, 20 do
      kit.spin(1e6)
      local before = ev:user()
      assert(ev:reset())
      assert(g:reset())
      local after = ev:user()
      assert.is_true(after < before and after < 1e5, i .. ": " .. tostring(after))
      assert.is_true(agrees(ev))
      local a, c, b = g[1]:scan(), g:read(), g[1]:scan()
      for k = 1, 2 do assert.is_true(a[k].value <= c[k].value and c[k].value <= b[k].value) end
    end
  end)

  it("is read by read(2) alone if it already counted before the first read", function()
    -- The same error could occur there, unnoticed.
    local ev = keep(perf.open { event = "cycles:u", disabled = false })
    kit.spin(1e6)
    assert.is_number(ev:scan()[1].value)
    assert.is_true(ev:measure(kit.spin, 1e5).value < 1e6)
    assert.same({ nil, "EAGAIN" }, { ev:user() })
  end)

  it("is not read by another thread, which has other counters", function()
    local ev, g = keep(perf.open "cycles:u"), keep(perf.group { "cycles:u", "instructions:u" })
    local start
    ev:enable()
    g:measure(function()
      assert.same({ true, "EAGAIN" }, { kit.elsewhere(function()
        local a, e, b = ev:scan(), ev:read(), ev:scan()
        assert(a[1].value <= e.value and e.value <= b[1].value)
        start = g:read()
        assert(g[1]:scan()[1].value == start[1].value) -- it waits
        return select(2, ev:user())
      end) })
    end)
    local counts = g:read()
    assert.is_true(start[1].value < counts[1].value and start[2].value < counts[2].value)
    assert.is_true(agrees(ev))
  end)

  it("is not read in the child of a fork, which it does not count", function()
    local ev, g = keep(perf.open "cycles:u"), keep(perf.group { "cycles:u", "instructions:u" })
    ev:enable()
    g:enable()
    assert.is_true(agrees(ev))
    assert.equal(0, (kit.fork(function()
      local ok, value = pcall(ev.user, ev)
      assert(not (ok and value))
      assert(not pcall(ev.read, ev) and not pcall(g.read, g))
      ev:close() -- nothing is unmapped that is not mapped
      g:close()
    end)))
    assert.is_true(agrees(ev))
  end)

  it("is left to read(2) after a ring, a redirection, or a call of fd()", function()
    local ev, follower, given = keep(perf.open "cycles:u"), keep(perf.open "cycles:u"), keep(perf.open "cycles:u")
    for _, e in ipairs { ev, follower, given } do
      e:enable()
      assert.is_true(agrees(e))
    end
    assert(ev:map { pages = 1 })
    assert.is_false(agrees(ev))
    assert(follower:set_output(ev))
    assert.is_false(agrees(follower))
    assert.is_number(given:fd())
    assert.is_false(agrees(given))
    for _, e in ipairs { ev, follower, given } do assert.is_true(e:measure(kit.spin, 1e5).value > 1e4) end
  end)

  it("is left to read(2) if its page cannot be mapped", function()
    for call, seen in pairs { mmap = 1, ioctl = 2 } do -- the page of its id, and the enabling one
      local ev = keep(perf.open "cycles:u")
      assert(core.fault(call, "EPERM"))
      assert(ev:enable())
      assert.equal(seen, core.fault())
      assert.same({ nil, "EAGAIN" }, { ev:user() })
      assert.is_true(ev:measure(kit.spin, 1e5).value > 1e4)
    end
    local g = keep(perf.group { "cycles:u", "instructions:u" })
    assert(core.fault("mmap", "EPERM", 1)) -- the second member's
    g:enable()
    core.fault()
    assert.equal(1, reads(g.read, g))
  end)

  it("is not read for children, for samples, or if the administrator forbids it", function()
    local function refused(event, opts)
      local ev = keep(perf.open(event, opts))
      ev:enable()
      assert.same({ nil, "EAGAIN" }, { ev:user() })
      assert.is_true(ev:measure(kit.spin, 1e5).value > 1e4)
    end
    refused { event = "cycles:u", inherit = true }
    refused { event = "cycles:u", sample_period = 1e6 }
    kit.pin(0)
    refused("cycles:u", { cpu = 0 })
    kit.unpin()
    refused("cycles:u", { pid = kit.getpid() })
    allow "0"
    refused "cycles:u"
    allow "1"
  end)

  it("stays right when the thread moves between CPUs", function()
    requires { vm = "smp", ncpu = 2 }
    local ev, g = keep(perf.open "cycles:u"), keep(perf.group { "cycles:u", "instructions:u" })
    ev:enable()
    g:enable()
    local last = 0
    for i = 1, 60 do
      local e = ev:measure(kit.pin, i % 2)
      assert.is_true(e.value > 0 and e.value < 1e6, e.value)
      assert.is_true(agrees(ev))
      local a, c, b = g[1]:scan(), g:read(), g[1]:scan()
      for k = 1, 2 do assert.is_true(a[k].value <= c[k].value and c[k].value <= b[k].value) end
      local now = ev:read().value
      assert.is_true(now > last)
      last = now
    end
    kit.unpin()
  end)
end)
