local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

before_each(function() requires { perf_open = true } end)

local exactly = util.exactly

describe("perf.open", function()
  it("returns an event that is disabled until enabled", function()
    local ev = assert(perf.open "page-faults")
    kit.touch_pages(5)
    assert.is_nil(ev:read().value)
    assert.matches("not enabled", ev:read().why, 1, true)
    exactly(64, function()
      assert.is_true(ev:reset())
      assert.is_true(ev:enable())
      kit.touch_pages(64)
      assert.is_true(ev:disable())
      kit.touch_pages(5)
      return ev:read().value
    end)
    local e = ev:read()
    assert.equal(64, e.value)
    assert.equal(64, e.raw)
    assert.equal("page-faults", e.label)
    assert.equal(ev:id(), e.id)
    assert.equal(e.enabled_ns, e.running_ns)
    assert.is_true(ev:reset())
    assert.equal(0, ev:read().raw)
    ev:close()
  end)

  it("enables the event at once if its attr says so", function()
    exactly(64, function()
      local ev = assert(perf.open { event = "page-faults", disabled = false })
      kit.touch_pages(64)
      local n = ev:read().value
      ev:close()
      return n
    end)
  end)

  it("measures by difference", function()
    local ev = assert(perf.open "page-faults")
    for n = 1, 10 do exactly(n, function() return ev:measure(kit.touch_pages, n).value end) end
    local _, a, b, c = ev:measure(function(...) return ... end, nil, 2, nil)
    assert.same({ nil, 2, nil }, { a, b, c })
    ev:close()
  end)

  it("measures even if the function raises an error", function()
    local ev = assert(perf.open "page-faults")
    local ok, err = pcall(ev.measure, ev, function() error("oops", 0) end)
    assert.is_false(ok)
    assert.equal("oops", err)
    exactly(2, function() return ev:measure(kit.touch_pages, 2).value end)
    ev:close()
  end)

  it("reads with every read_format", function()
    local bits = { "total_time_enabled", "total_time_running", "id", "lost", "group" }
    local events, read, measured = {}, {}, {}
    for mask = 0, 31 do
      local format, has, m = {}, {}, mask
      for i = 1, 5 do
        if m % 2 == 1 then
          format[#format + 1] = bits[i]
          has[bits[i]] = true
        end
        m = math.floor(m / 2)
      end
      local ev = assert(perf.open { event = "page-faults", disabled = false, read_format = format })
      events[mask + 1], read[mask + 1], measured[mask + 1] = { ev = ev, has = has }, 0, 0
    end
    util.settled(function()
      for i, event in ipairs(events) do
        event.ev:reset()
        kit.touch_pages(7)
        read[i] = event.ev:read().value
        measured[i] = event.ev:measure(kit.touch_pages, 7).value
      end
      for i in ipairs(events) do assert.same({ 7, 7 }, { read[i], measured[i] }) end
    end)
    for _, event in ipairs(events) do
      local ev, has, e = event.ev, event.has, event.ev:read()
      assert.equal(e.raw, e.value)
      assert.equal(ev:id(), e.id)
      assert.equal(has.total_time_enabled or false, e.enabled_ns ~= nil)
      assert.equal(has.total_time_running or false, e.running_ns ~= nil)
      assert.equal(has.lost and 0 or nil, e.lost)
      ev:close()
    end
  end)

  it("closes once, by close, by __gc and by __close", function()
    local ev = assert(perf.open "dummy")
    local fd = ev:fd()
    assert.is_not_nil(kit.fds()[fd])
    ev:close()
    assert.is_nil(kit.fds()[fd])
    ev:close()
    for _, method in ipairs { "enable", "disable", "reset", "read", "id", "fd", "measure", "scan" } do
      local ok, err = pcall(ev[method], ev, print)
      assert.is_false(ok, method)
      assert.matches("closed", err, 1, true)
    end
    assert.equal("Event(dummy, closed)", tostring(ev))
    assert.equal("dummy", ev:label())
    ev = assert(perf.open "dummy")
    fd = ev:fd()
    ev = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_nil(kit.fds()[fd])
  end)

  it("closes at the end of a scope on 5.4", function()
    requires { lua = "5.4" }
    local fd = load [[
      local perf = require "perf"
      local ev <close> = assert(perf.open "dummy")
      local g <close> = assert(perf.group { "dummy" })
      local s <close> = assert(perf.set "dummy")
      return ev:fd()
    ]]()
    assert.is_nil(kit.fds()[fd])
  end)

  it("leaves no descriptors of 10,000 events that are collected", function()
    requires { nosan = true, nostress = true }
    local n = 0
    for i = 1, 10000 do
      local ev, message, code = perf.open "dummy"
      if not ev and code == "EMFILE" then -- the collector does not know that descriptors are scarce
        collectgarbage()
        collectgarbage()
        ev = perf.open "dummy"
      end
      assert(ev, message)
      n = n + 1
      if i % 1000 == 0 then collectgarbage() end
    end
    assert.equal(10000, n)
    collectgarbage()
    collectgarbage()
  end)

  it("counts another thread by its id", function()
    local w = kit.workers(1, { pages = 0 })
    local ev = assert(perf.open("page-faults", { pid = w:tids()[1] }))
    ev:enable()
    w:work { pages = 64 }
    assert.equal(64, ev:read().value)
    w:close()
    ev:close()
  end)

  it("counts the calling thread alone", function()
    local ev = assert(perf.open "page-faults")
    ev:enable()
    local w = kit.workers(2, { pages = 0 })
    local before = ev:read().value
    w:work { pages = 1000 }
    assert.is_true(ev:read().value - before < 100)
    w:close()
    ev:close()
  end)

  it("refuses wrong arguments and names them", function()
    local function raises(message, ...)
      local ok, err = pcall(...)
      assert.is_false(ok)
      assert.matches(message, err, 1, true)
    end
    raises("unknown option 'pdi'", perf.open, "dummy", { pdi = 1 })
    raises("option 'pid': number expected, got string", perf.open, "dummy", { pid = "1" })
    raises("option 'cpu': integer expected", perf.open, "dummy", { cpu = 0.5 })
    raises("table of options expected, got number", perf.open, "dummy", 1)
    raises("Event expected", perf.open, "dummy", { group = io.stdout })
    raises("nonsense", perf.open, "nonsense")
    raises("smaple_period", perf.open, { event = "dummy", smaple_period = 1 })
    local ev = assert(perf.open "dummy")
    raises("out of range", ev.refresh, ev, -1)
    raises("integer expected, got", ev.refresh, ev)
    raises("integer expected, got string", ev.set_period, ev, "x")
    raises("zero byte", ev.set_filter, ev, "a\0b")
    ev:close()
    raises("Event is closed", perf.open, "dummy", { group = ev })
  end)

  it("returns nil, message and code if the machine refuses", function()
    local function refuses(code, ...)
      local ev, message, got = perf.open(...)
      assert.is_nil(ev)
      assert.equal(code, got, message)
      assert.matches("perf_event_open", message, 1, true)
    end
    refuses("ESRCH", "dummy", { pid = 2 ^ 30 })
    refuses("EINVAL", "dummy", { pid = -1, cpu = -1 })
    local ev, message, code = perf.open("dummy", { cpu = 0, cgroup = "no/such/group" })
    assert.is_nil(ev)
    assert.equal("ENOENT", code, message)
  end)
end)

describe("perf.group", function()
  it("reads all members by one read", function()
    local g = assert(perf.group { "task-clock", "page-faults", "dummy" })
    assert.equal(3, #g)
    assert.equal("page-faults", g[2]:label())
    assert.is_nil(g[4])
    assert.equal(g[1]:fd(), g:fd())
    assert.equal(g[1]:id(), g:id())
    local c
    exactly(64, function()
      g:reset()
      local enabled = g:enable()
      kit.touch_pages(64)
      local disabled = g:disable()
      kit.touch_pages(5)
      c = g:read()
      return enabled and disabled and c["page-faults"]
    end)
    assert.equal(0, c.dummy)
    assert.is_true(c["task-clock"] > 0)
    assert.equal("software", c.source)
    for i, e in ipairs(c) do
      assert.equal(g[i]:id(), e.id)
      assert.equal(c[1].enabled_ns, e.enabled_ns)
      assert.equal(e.enabled_ns, e.running_ns)
    end
    g:close()
  end)

  it("accepts a list as a string, with braces and modifiers", function()
    local g = assert(perf.group "{page-faults,minor-faults}:u")
    assert.equal("page-faults:u", g[1]:label())
    assert.is_true(g[2]:attr().exclude_kernel)
    exactly(3, function() return g:measure(kit.touch_pages, 3)["minor-faults"] end)
    g:close()
    util.settled(function()
      local c = perf.measure("{page-faults,dummy}:u,minor-faults", kit.touch_pages, 3)
      assert.same({ 3, 3 }, { c["page-faults:u"], c["minor-faults"] })
    end)
  end)

  it("resets every member, not only the leader", function()
    -- PERF_EVENT_IOC_RESET on a leader does not reset its siblings unless it has PERF_IOC_FLAG_GROUP.
    local g = assert(perf.group "task-clock,page-faults")
    for _ = 1, 4 do
      exactly(64, function()
        g:reset()
        g:enable()
        kit.touch_pages(64)
        g:disable()
        return g:read()["page-faults"]
      end)
    end
    g:close()
  end)

  it("measures by difference, again and again", function()
    local g = assert(perf.group { "page-faults", "task-clock" })
    for n = 1, 20 do exactly(n, function() return g:measure(kit.touch_pages, n)["page-faults"] end) end
    local _, a, b, d = g:measure(function(...) return ... end, nil, 2, nil)
    assert.same({ nil, 2, nil }, { a, b, d })
    g:disable()
    exactly(3, function() return g:measure(kit.touch_pages, 3)["page-faults"] end)
    g:close()
  end)

  it("measures nested calls", function()
    local g = assert(perf.group { "page-faults" })
    util.settled(function()
      local inner
      local outer = g:measure(function()
        kit.touch_pages(1)
        inner = g:measure(kit.touch_pages, 2)
        kit.touch_pages(4)
      end)
      assert.equal(2, inner["page-faults"])
      assert.equal(7, outer["page-faults"])
    end)
    g:close()
  end)

  it("raises the function's error, and works afterwards", function()
    local g = assert(perf.group { "page-faults" })
    local err = {}
    local ok, got = pcall(g.measure, g, function() error(err) end)
    assert.is_false(ok)
    assert.equal(err, got)
    exactly(2, function() return g:measure(kit.touch_pages, 2)["page-faults"] end)
    g:close()
  end)

  it("gives Counts that outlive it", function()
    local g = assert(perf.group { "page-faults" })
    local c
    exactly(9, function()
      c = g:measure(kit.touch_pages, 9)
      return c["page-faults"]
    end)
    g:close()
    g = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.equal(9, c["page-faults"])
    assert.matches("page%-faults", tostring(c))
  end)

  it("keeps its members alive, and they keep it", function()
    local g = assert(perf.group { "page-faults", "dummy" })
    local member = g[2]
    g = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_true(member:enable())
    assert.equal("dummy", member:read().label)
    assert.is_true(member:info().leader:is_open())
    member:info().leader:close()
    member:close()
  end)

  it("closes all its events, and refuses use afterwards", function()
    local before = kit.fds()
    local g = assert(perf.group { "page-faults", "dummy" })
    local member = g[2]
    g:close()
    g:close()
    assert.same(before, kit.fds())
    assert.is_false(member:is_open())
    for _, method in ipairs { "enable", "disable", "reset", "read", "measure", "fd", "id" } do
      local ok, err = pcall(g[method], g, print)
      assert.is_false(ok, method)
      assert.matches("closed", err, 1, true)
    end
    assert.equal("Group(2 events, closed)", tostring(g))
  end)

  it("reports that another event has joined by perf.open's group option", function()
    local g = assert(perf.group { "page-faults", "context-switches" })
    local joined = assert(perf.open("minor-faults", { group = g[1] }))
    local wanted = "read of a group that an event has joined since, by perf.open's group: No space left on device"
    assert.same({ nil, wanted, "ENOSPC" }, { g:read() })
    assert.matches(wanted .. "$", util.message_of(g.measure, g, function() end))
    joined:close()
    assert.is_truthy(g:read())
    g:close()
  end)

  it("opens all events or none", function()
    local before = kit.fds()
    local g, message, code = perf.group({ "page-faults", "dummy" }, { pid = 2 ^ 30 })
    assert.is_nil(g)
    assert.equal("ESRCH", code, message)
    local ok, err = pcall(perf.group, { "page-faults", "nonsense" })
    assert.is_false(ok)
    assert.matches("nonsense", err, 1, true)
    collectgarbage()
    collectgarbage()
    assert.same(before, kit.fds())
  end)

  it("refuses a value that is not a list", function()
    for _, case in ipairs { { {}, "needs an event" }, { 1, "array of events expected, got number" },
      { nil, "array of events expected, got nil" } } do
      local ok, err = pcall(perf.group, case[1])
      assert.is_false(ok)
      assert.matches(case[2], err, 1, true)
    end
    local list = {}
    for i = 1, 500 do list[i] = "dummy" end
    local ok, err = pcall(perf.group, list)
    assert.is_false(ok)
    assert.matches("at most 128", err, 1, true)
    ok, err = pcall(perf.group { "dummy" }.measure, io.stdout, print)
    assert.is_false(ok)
    assert.matches("Group expected", err, 1, true)
    collectgarbage()
    collectgarbage()
  end)

  it("counts the work of inherited children after their end", function()
    local g = assert(perf.group { { event = "page-faults", inherit = true } })
    g:enable()
    kit.touch_pages(3)
    local w = kit.workers(3, { pages = 64 })
    w:work { pages = 64 }
    w:close()
    local n = g:read()["page-faults"]
    assert.is_true(n >= 3 + 3 * 64, "counted " .. n)
    g:close()
  end)
end)

describe("perf.set", function()
  it("has an event on each online CPU and adds up their counts", function()
    local s = assert(perf.set "page-faults")
    local per_cpu, cpus, i = s:per_cpu(), {}, nil
    for n, e in ipairs(per_cpu) do
      cpus[n] = e.cpu
      if e.cpu == kit.cpus()[1] then i = n end
    end
    assert.equal(#s, #per_cpu)
    assert.same(util.online_cpus(), cpus)
    finally(kit.unpin)
    kit.pin(kit.cpus()[1])
    local before = s:per_cpu()[i].value
    kit.touch_pages(1000)
    assert.is_true(s:per_cpu()[i].value - before >= 1000)
    s:disable()
    local sum, total = 0, s:read()
    for _, e in ipairs(s:per_cpu()) do sum = sum + e.value end
    assert.equal(sum, total["page-faults"])
    assert.equal(sum, total.value)
    assert.equal(sum, total[1].value)
    s:close()
    s:close()
    assert.equal("Set(page-faults, closed)", tostring(s))
  end)

  it("leaves events disabled if asked", function()
    local s = assert(perf.set("page-faults", { cpus = { 0 }, deferred_enable = true }))
    kit.touch_pages(5)
    assert.is_nil(s:read().value)
    assert.is_true(s:enable())
    s:close()
  end)

  it("counts each thread of a process", function()
    local w = kit.workers(3, { pages = 0 })
    local s = assert(perf.set("page-faults", { threads = kit.getpid() }))
    assert.equal(kit.living_threads(), #s)
    w:work { pages = 64 }
    local found = 0
    for _, e in ipairs(s:per_cpu()) do
      if e.value == 64 then found = found + 1 end
    end
    assert.equal(3, found)
    w:close()
    s:close()
  end)

  it("counts a cgroup", function()
    requires { cgroup = true, root = true }
    local s = assert(perf.set("task-clock", { cgroup = util.cgroup_dir() }))
    assert.equal(#util.online_cpus(), #s)
    s:close()
  end)

  it("opens all events or none, and names the refused one", function()
    local s, message, code = perf.set("dummy", { cpus = { 0, 9999 } })
    assert.is_nil(s)
    assert.equal("EINVAL", code)
    assert.matches("no CPU 9999", message, 1, true)
    s, message, code = perf.set("dummy", { threads = 2 ^ 30 })
    assert.is_nil(s)
    assert.equal("ESRCH", code, message)
    s, message, code = perf.set("dummy", { bpf = 0 })
    assert.is_nil(s)
    assert.is_string(code, message)
    for _, case in ipairs { { { cpus = "all" }, "option 'cpus'" }, { { cpus = { -1 } }, "CPU number expected" },
      { { cpus = { "0" } }, "CPU number expected" }, { { cpu = {} }, "option 'cpu'" }, { { x = 1 }, "unknown option 'x'" } } do
      local ok, err = pcall(perf.set, "dummy", case[1])
      assert.is_false(ok)
      assert.matches(case[2], err, 1, true)
    end
  end)

  it("is collected with its events", function()
    local before = kit.fds()
    local s = assert(perf.set "dummy") -- luacheck: ignore
    s = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.same(before, kit.fds())
  end)
end)

describe("perf.probe_cycles", function()
  it("is an attr that opens and samples", function()
    local attr = perf.probe_cycles(99)
    assert.equal(99, attr.sample_freq)
    local ev = assert(perf.open(attr))
    assert.equal(attr.label, ev:label())
    assert.matches("sample_freq = 99", tostring(attr), 1, true)
    ev:close()
    assert.equal(999, perf.probe_cycles().sample_freq)
    for _, bad in ipairs { 0, -1, 1.5, "x" } do assert.has_error(function() perf.probe_cycles(bad) end) end
  end)
end)
describe("the modules of events", function()
  it("may be loaded again while their part in C stays loaded", function()
    local ok, result = kit.state [[
      local function use()
        local g = assert(require "perf".group { "task-clock:u", "page-faults:u" })
        local worked = g:enable() and g[2]:reset() and g:read()[2].value and g[1]:measure(function() end).value
        g:close()
        return tostring(worked ~= nil)
      end
      local first = use()
      for name in pairs(package.loaded) do
        if name:find "^perf" and name ~= "perf.core" then package.loaded[name] = nil end
      end
      return first .. " " .. use()
    ]]
    assert.same({ true, "true true" }, { ok, result })
  end)
end)
