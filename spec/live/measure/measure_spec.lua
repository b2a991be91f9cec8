local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local measure = require "perf.measure"
local util = require "spec.support.util"

before_each(function() requires { perf_open = true } end)

local exactly, settled = util.exactly, util.settled

local function faults(n) return function() kit.touch_pages(n) end end

describe("perf.measure", function()
  describe("counts exactly", function()
    it("page faults", function()
      settled(function()
        for _, n in ipairs { 1, 64, 1000 } do
          assert.equal(n, perf.measure("page-faults", kit.touch_pages, n)["page-faults"])
          assert.equal(n, perf.measure({ "minor-faults" }, kit.touch_pages, n)["minor-faults"])
          assert.equal(n, perf.measure("page-faults:u", kit.touch_pages, n)["page-faults"])
        end
        assert.equal(0, perf.measure("major-faults", kit.touch_pages, 64)["major-faults"])
      end)
    end)

    it("nothing if nothing happens", function()
      local list = "page-faults,cpu-migrations,alignment-faults,emulation-faults,dummy,context-switches"
      finally(kit.unpin)
      kit.pin(kit.cpu())
      settled(function()
        local before = kit.rusage "switches"
        local c = perf.measure(list, function() end)
        local switches = kit.rusage "switches" - before -- the scheduler may have run another task meanwhile
        for i = 1, #c - 1 do assert.equal(0, c[i].value, c[i].label) end
        assert.is_true(c["context-switches"] <= switches)
      end)
    end)

    it("context switches of a task that sleeps", function()
      local least
      local before = kit.rusage "switches"
      local c = perf.measure("context-switches", function()
        local from = kit.rusage "switches"
        kit.sleeps(20)
        least = kit.rusage "switches" - from
      end)
      local most = kit.rusage "switches" - before
      -- the task is also preempted, whenever the scheduler decides
      assert.is_true(20 <= least and least <= c["context-switches"] and c["context-switches"] <= most)
    end)

    it("migrations", function()
      requires { ncpu = 2 }
      local cpus = kit.cpus()
      local function move()
        for _ = 1, 5 do
          kit.pin(cpus[1])
          kit.pin(cpus[2])
        end
      end
      finally(kit.unpin)
      kit.pin(cpus[2])
      local c = perf.measure("cpu-migrations", move)
      assert.equal(10, c["cpu-migrations"])
    end)

    it("system calls by tracepoint", function()
      requires { tracefs = true }
      settled(function()
        local c = perf.measure("raw_syscalls:sys_enter", kit.syscalls, 100)
        assert.equal(100, c["raw_syscalls:sys_enter"])
        c = perf.measure("syscalls:sys_enter_getppid", kit.syscalls, 100)
        assert.equal(100, c["syscalls:sys_enter_getppid"])
      end)
    end)

    it("accesses of an address", function()
      requires { breakpoint = true }
      local cell = kit.cell()
      local name = ("mem:%s/8:w"):format(perf.hex(cell:addr()))
      local c = perf.measure(name, function() for i = 1, 50 do cell:poke(i) end end)
      assert.equal(50, c[name])
    end)

    it("CPU time", function()
      local c = perf.measure("task-clock,cpu-clock", kit.spin, 20e6)
      -- the scheduler's clock, which the trigger reads, and perf's clock differ slightly
      assert.is_true(c["task-clock"] >= 15e6, c["task-clock"])
      assert.is_true(c["cpu-clock"] >= 15e6, c["cpu-clock"])
      assert.is_true(c.wall_ns >= 15e6, c.wall_ns)
      assert.equal("ns", c[1].unit)
    end)
  end)

  it("returns the function's results, every nil kept", function()
    assert.equal(1, select("#", perf.measure("dummy", function() end)))
    assert.equal(4, select("#", perf.measure("dummy", function() return nil, 2, nil end)))
    local _, a, b, c = perf.measure("dummy", function(...) return select("#", ...), ... end, nil, nil)
    assert.same({ 2, nil, nil }, { a, b, c })
    local _, n = perf.measure(function(...) return select("#", ...) end)
    assert.equal(0, n)
    _, n = perf.measure(function(...) return select("#", ...) end, nil)
    assert.equal(1, n)
  end)

  it("raises the function's error unchanged", function()
    local err = {}
    local ok, got = pcall(perf.measure, "page-faults", function() error(err) end)
    assert.is_false(ok)
    assert.equal(err, got)
    ok, got = pcall(perf.measure, function() error("text", 0) end)
    assert.is_false(ok)
    assert.equal("text", got)
    exactly(3, function() return perf.measure("page-faults", kit.touch_pages, 3)["page-faults"] end)
  end)

  it("takes callable objects", function()
    settled(function()
      local callable = setmetatable({}, { __call = function(_, n) kit.touch_pages(n) return "x" end })
      local c, r = perf.measure("page-faults", callable, 5)
      assert.equal(5, c["page-faults"])
      assert.equal("x", r)
    end)
  end)

  it("nests: each call sees its own counts and those of the calls within it", function()
    settled(function()
      local inner, innermost
      local outer = perf.measure("page-faults", function()
        kit.touch_pages(1)
        inner = perf.measure("page-faults", function()
          kit.touch_pages(10)
          innermost = perf.measure({ "page-faults" }, kit.touch_pages, 100)
        end)
        kit.touch_pages(1000)
      end)
      assert.equal(100, innermost["page-faults"])
      assert.equal(110, inner["page-faults"])
      assert.equal(1111, outer["page-faults"])
    end)
  end)

  it("works in recursive functions", function()
    settled(function()
      local seen = {}
      local function f(depth)
        kit.touch_pages(1)
        if depth > 0 then seen[depth] = perf.measure("page-faults", f, depth - 1)["page-faults"] end
      end
      f(20)
      for depth = 1, 20 do assert.equal(depth, seen[depth]) end
    end)
  end)

  it("refuses direct calls of its internal functions", function()
    if not core.measurer then return end -- LuaJIT and Lua 5.1 measure by two calls
    assert.has_error(function() core.measure(function() end) end,
      "bad argument #1 to 'measure' (only a function made by core.measurer may call this)")
    assert.has_error(function() core.measurer(1, 2, 1, print) end, "bad argument #1 to 'measurer' (Group expected, got number)")
  end)

  it("lets the function yield", function()
    settled(function()
      local co = coroutine.wrap(function()
        local c, r = perf.measure("page-faults", function()
          kit.touch_pages(2)
          local got = coroutine.yield "first"
          kit.touch_pages(3)
          return got
        end)
        return c["page-faults"], r
      end)
      assert.equal("first", co())
      kit.touch_pages(10) -- other work of the thread is counted too
      local n, r = co "second"
      assert.equal(15, n)
      assert.equal("second", r)
    end)
  end)

  it("keeps interleaved coroutines apart", function()
    settled(function()
      local function task(n)
        return coroutine.wrap(function()
          return perf.measure("page-faults", function()
            kit.touch_pages(n)
            coroutine.yield()
          end)["page-faults"]
        end)
      end
      local a, b = task(1), task(2)
      a()
      b()
      assert.equal(3, a()) -- one of its own and two of b's
      assert.equal(2, b())
    end)
  end)

  describe("finds an open list again", function()
    local function opened(fn)
      local before = kit.fds()
      fn()
      local n = 0
      for fd in pairs(kit.fds()) do n = n + (before[fd] and 0 or 1) end
      return n
    end

    it("by the same string, table or content", function()
      assert.equal(2, opened(function() perf.measure("page-faults,dummy", faults(1)) end))
      assert.equal(0, opened(function() perf.measure("page-faults,dummy", faults(1)) end))
      local list = { "minor-faults" }
      assert.equal(1, opened(function() perf.measure(list, faults(1)) end))
      assert.equal(0, opened(function() perf.measure(list, faults(1)) end))
      assert.equal(0, opened(function() perf.measure({ "minor-faults" }, faults(1)) end))
    end)

    it("and notices that a table has changed", function()
      local list = { "page-faults" }
      perf.measure(list, faults(1))
      list[1] = "minor-faults"
      assert.equal("minor-faults", perf.measure(list, faults(1))[1].label)
      list[2] = "dummy"
      assert.equal(2, #perf.measure(list, faults(1)))
      list[1], list[2] = perf.attr "dummy", nil
      assert.equal("dummy", perf.measure(list, faults(1))[1].label)
      list[1] = perf.attr "page-faults"
      assert.equal("page-faults", perf.measure(list, faults(1))[1].label)
      local attr = { event = "page-faults" }
      assert.equal("page-faults", perf.measure(attr, faults(1))[1].label)
      attr.event = "dummy"
      assert.equal("dummy", perf.measure(attr, faults(1))[1].label)
    end)

    local function descriptors()
      local n = 0
      for _ in pairs(kit.fds()) do n = n + 1 end
      return n
    end

    it("but keeps no more than 64 lists", function()
      perf.release()
      local before = descriptors()
      for i = 1, 200 do perf.measure({ { event = "page-faults", sample_period = 1000 + i } }, faults(1)) end
      collectgarbage()
      collectgarbage()
      local n = descriptors() - before
      assert.is_true(n <= 64, n .. " descriptors")
    end)

    it("nor more than that of tables that the caller keeps", function()
      perf.release()
      local before, kept = descriptors(), {}
      for i = 1, 200 do
        kept[i] = { "page-faults", { event = "page-faults", sample_period = 1000 + i } }
        perf.measure(kept[i], faults(1))
      end
      collectgarbage()
      collectgarbage()
      local n = descriptors() - before
      assert.is_true(n <= 2 * 64, n .. " descriptors")
      exactly(7, function() return perf.measure(kept[1], kit.touch_pages, 7)["page-faults"] end)
    end)
  end)

  it("opens its own events after a fork", function()
    local function counts(n) exactly(n, function() return perf.measure("page-faults", kit.touch_pages, n)["page-faults"] end) end
    counts(5)
    util.in_child(counts, 7)
    counts(5)
  end)

  it("survives a fork inside the measured function", function()
    local c = perf.measure("page-faults", function()
      util.in_child(function()
        exactly(9, function() return perf.measure("page-faults", kit.touch_pages, 9)["page-faults"] end)
      end)
    end)
    assert.is_true(c["page-faults"] >= 0)
  end)

  describe("without a list", function()
    it("has at least the software events, in the documented order", function()
      settled(function()
        local c = perf.measure(kit.touch_pages, 64)
        local labels = {}
        for i, e in ipairs(c) do labels[i] = e.label end
        local text = table.concat(labels, ",")
        assert.matches("task%-clock,page%-faults,context%-switches,cpu%-migrations$", text)
        assert.equal(64, c["page-faults"])
        assert.is_true(c["task-clock"] > 0)
        assert.is_true(c.wall_ns > 0)
      end)
    end)

    it("counts software events on a machine without a PMU", function()
      if kit.can_open { type = 0, config = 0 } then pending "this machine has a PMU" end
      local c = perf.measure(function() end)
      assert.equal("software", c.source)
      assert.equal(4, #c)
    end)

    it("counts hardware events on a machine with a PMU", function()
      requires { pmu = true }
      local c = perf.measure(kit.spin, 1e6)
      assert.equal("hardware", c.source)
      assert.is_true(c.cycles > 1000)
    end)
  end)

  it("refuses values that are neither a list nor a function", function()
    local function refuses(message, ...)
      local ok, err = pcall(perf.measure, ...)
      assert.is_false(ok)
      assert.matches(message, err, 1, true)
    end
    refuses("bad argument #2 to 'measure' (function expected, got nil)", "page-faults")
    refuses("bad argument #2 to 'measure' (function expected, got number)", "page-faults", 1)
    refuses("bad argument #1 to 'measure' (list of events or function expected, got number)", 1, print)
    refuses("bad argument #1 to 'measure' (list of events or function expected, got nil)", nil, print)
    refuses("the list has no event", {}, print)
    refuses("page-fautls", "page-fautls", print)
  end)

  it("raises an error if the machine refuses, with the code", function()
    if kit.can_open { type = 0, config = 0 } then pending "this machine has a PMU" end
    local ok, err = pcall(perf.measure, "cycles", print)
    assert.is_false(ok)
    assert.matches("^cycles: perf_event_open: .*%[EN%u+%]$", err)
  end)

  it("refuses 500 events with a clear message and leaves nothing open", function()
    local list = {}
    for i = 1, 500 do list[i] = "page-faults" end
    local ok, err = pcall(perf.measure, list, print)
    assert.is_false(ok)
    assert.matches("500 events; a list has at most 256", err, 1, true)
  end)

  it("counts 200 events at once, in several groups", function()
    local list = {}
    for i = 1, 200 do list[i] = "page-faults" end
    settled(function()
      local c = perf.measure(list, kit.touch_pages, 3)
      assert.equal(200, #c)
      for _, e in ipairs(c) do assert.equal(3, e.value) end
    end)
  end)

  it("leaves nothing open when descriptors run out", function()
    local text = util.in_child(function()
      local before = kit.fds()
      local limit, free = 0, 0
      while free < 3 do
        if not before[limit] then free = free + 1 end
        limit = limit + 1
      end
      assert(kit.rlimit("nofile", limit))
      local ok, err = pcall(perf.measure, "page-faults,minor-faults,major-faults,dummy,task-clock", print)
      assert(not ok)
      assert(err:find("EMFILE", 1, true), err)
      for fd in pairs(kit.fds()) do assert(before[fd], "left open: " .. fd) end
      return "done"
    end)
    assert.equal("done", text)
  end)

  it("returns entries in the order of the list, whatever the groups", function()
    requires { tracefs = true }
    local c
    exactly(2, function()
      c = perf.measure("raw_syscalls:sys_exit,page-faults,task-clock,minor-faults", kit.touch_pages, 2)
      return c["page-faults"]
    end)
    local labels = {}
    for i, e in ipairs(c) do labels[i] = e.label end
    assert.same({ "raw_syscalls:sys_exit", "page-faults", "task-clock", "minor-faults" }, labels)
    assert.equal(2, c["minor-faults"])
    local ids = {}
    for _, e in ipairs(c) do
      assert.is_nil(ids[e.id])
      ids[e.id] = true
    end
  end)

  it("gives the reason why an event that cannot count has no value", function()
    local c = perf.measure("context-switches:u,page-faults:u", kit.sleeps, 3)
    assert.is_nil(c["context-switches"])
    assert.matches("happen in the kernel", c[1].why, 1, true)
    assert.equal(0, c[1].raw)
  end)

  it("accepts one event's attr as a list", function()
    for _, list in ipairs { { event = "page-faults" }, perf.attr "page-faults:u", { perf.attr "page-faults" } } do
      exactly(4, function() return perf.measure(list, kit.touch_pages, 4)["page-faults"] end)
    end
  end)

  it("still counts exactly after its events were released", function()
    for _ = 1, 2 do
      exactly(2, function() return perf.measure("page-faults", kit.touch_pages, 2)["page-faults"] end)
      measure._release()
    end
  end)

  it("opens a list again as before, any number of times", function()
    local list = "page-faults:u,task-clock,context-switches"
    local first = perf.measure(list, kit.touch_pages, 3)
    for _ = 1, 3 do
      local c
      exactly(5, function()
        measure._release()
        c = perf.measure(list, kit.touch_pages, 5)
        return c["page-faults:u"]
      end)
      assert.same({ 5, first.source }, { c["page-faults"], c.source })
      for i, e in ipairs(c) do
        assert.equal(first[i].label, e.label)
        assert.is_true(e.enabled_ns > 0)
        assert.equal(e.enabled_ns, e.running_ns)
        assert.is_truthy(e.id)
      end
    end
  end)

  it("leaves nothing open if that fails, and opens the list as a new one", function()
    local list = "page-faults,cpu-migrations"
    perf.measure(list, function() end)
    perf.release() -- no idle list is left that could be closed
    local before = 0
    for _ in pairs(kit.fds()) do before = before + 1 end
    core.fault("perf_event_open", "EMFILE", 1)
    local counts = perf.measure(list, function() end)
    core.fault()
    local after = 0
    for _ in pairs(kit.fds()) do after = after + 1 end
    assert.equal("cpu-migrations", counts[2].label)
    assert.equal(before + 2, after)
    exactly(2, function() return perf.measure(list, kit.touch_pages, 2)["page-faults"] end)
  end)

  it("raises if the list is released during the measurement", function()
    local ok, why = pcall(perf.measure, "page-faults", perf.release)
    assert.is_false(ok)
    assert.matches("the events were closed, by perf.release", why)
    exactly(2, function() return perf.measure("page-faults", kit.touch_pages, 2)["page-faults"] end)
  end)

  it("lets LuaJIT compile the loop around it", function()
    requires { jit = true, nosan = true, nostress = true }
    if os.getenv "PERF_NO_FFI" == "1" then pending "the C API is chosen" end
    local aborts, traces = {}, 0
    local function watch(what, _, _, _, why)
      if what == "abort" then
        -- The compiler often gives up a trace that it began at an unlucky place, and begins another one. That is not a failure;
        -- code that it cannot compile is.
        local reason = require "jit.vmdef".traceerr[why]
        if reason:find "NYI" or reason:find "blacklisted" then aborts[#aborts + 1] = reason end
      elseif what == "stop" then
        traces = traces + 1
      end
    end
    local sum = 0
    local function fn(x) sum = sum + x return x end
    perf.measure("page-faults", fn, 1)
    jit.flush()
    jit.opt.start "hotloop=56" -- the default. This resets the counters that loops share; one may be at 60,000
    jit.attach(watch, "trace")
    for i = 1, 500 do
      local c, r = perf.measure("page-faults", fn, i)
      sum = sum + r + c["page-faults"]
    end
    jit.attach(watch)
    assert.same({}, aborts)
    assert.is_true(traces > 0)
  end)
end)
