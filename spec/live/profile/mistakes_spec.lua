-- Failures of a profiler, and the state that it must restore.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local as_nobody = require "spec.support.nobody"
local core = require "perf.core"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local SIGTRAP, SIGPROF = 5, 27

local function refused(code, ...)
  local value, message, got = ...
  assert.is_nil(value)
  assert.equal(code, got, message)
  return message
end

-- A profile that works, to show that the failure has left nothing behind.
local function works()
  local prof = perf.profile({ event = "page-faults" }, kit.touch_pages, 100)
  -- Other pages may be new, or copied since a fork.
  local n = profiling.under(prof, "testkit.touch_pages")
  assert.is_true(n >= 100 and n < 130, profiling.text(prof))
  assert.equal(prof.total, profiling.sum(prof))
end

-- The signals for which this process has handlers.
local function caught()
  return util.read_file("/proc/self/status"):match "SigCgt:%s*(%x+)"
end

describe("a profiler", function()
  it("refuses unknown options", function()
    for text, opts in pairs {
      ["unknown option 'frequency'"] = { frequency = 1 },
      ["option 'freq': number expected, got string"] = { freq = "1" },
      ["option 'freq': positive integer expected"] = { freq = 0.5 },
      ["option 'period': positive integer expected"] = { period = -1 },
      ["options 'freq' and 'period' exclude each other"] = { freq = 1, period = 1 },
      ["option 'native': boolean expected, got number"] = { native = 1 },
      ["option 'event': string or table expected, got number"] = { event = 1 },
      ["option 'coroutines': \"alone\", \"resumer\" or \"creator\" expected"] = { coroutines = "both" },
      ["pagefaults: unknown event"] = { event = "pagefaults" },
    } do
      for _, fn in ipairs { perf.profiler, function(o) return perf.profile(o, print) end } do
        local ok, err = pcall(fn, opts)
        assert.is_false(ok, text)
        assert.is_truthy(err:find(text, 1, true), err)
      end
    end
    local function bad(text, ...)
      local ok, err = pcall(perf.profile, ...)
      assert.is_false(ok)
      assert.is_truthy(err:find(text, 1, true), err)
    end
    bad("bad argument #2 to 'profile' (function expected, got nil)", {})
    bad("bad argument #1 to 'profile' (table of options expected, got number)", 1, print)
    bad("bad argument #1 to 'profile' (pagefaults: unknown event", "pagefaults", print)
    bad("unknown option 'evnts'; did you mean 'event'?", { evnts = "page-faults" }, print)
    bad "bad argument #1 to 'profile' (function or table of options expected, got nil)"
    bad("bad argument #2 to 'profile' (function expected, got nil)", "page-faults")
  end)

  -- The story: perf.measure takes an event's name in place of options, and the profiler refused one.
  it("takes an event's name in place of options", function()
    requires { perf_open = true }
    local prof, result = perf.profile("page-faults", function(...) return select("#", ...) end, 1, nil)
    assert.same({ "page-faults", 1, 2 }, { prof.event:match "^[^:]*", prof.period, result })
    local p = assert(perf.profiler "page-faults")
    assert(p:start())
    assert.equal("page-faults", assert(p:stop()).event:match "^[^:]*")
    p:close()
  end)

  it("describes itself and says whether it runs", function()
    requires { perf_open = true }
    local p = assert(perf.profiler { event = "page-faults", period = 10 })
    assert.equal("perf.Profiler(page-faults, every 10, stopped)", tostring(p))
    assert(p:start())
    assert.equal("perf.Profiler(page-faults, every 10, running)", tostring(p))
    assert(p:stop())
    assert.equal("perf.Profiler(page-faults, every 10, stopped)", tostring(p))
    p:close()
    assert.equal("perf.Profiler(cpu-clock, 999 Hz, stopped)", tostring(assert(perf.profiler { event = "cpu-clock" })))
  end)

  it("starts once and stops once", function()
    requires { perf_open = true }
    local p = perf.profiler { event = "page-faults" }
    assert.is_false(p:is_running())
    refused("EINVAL", p:stop())
    assert.is_true(p:start())
    assert.is_true(p:is_running())
    assert.is_truthy(refused("EBUSY", p:start()):find("running already", 1, true))
    assert.equal("page-faults", p:stop().event)
    assert.is_false(p:is_running())
    refused("EINVAL", p:stop())
    -- It can be started again.
    assert.is_true(p:start())
    kit.touch_pages(50)
    local prof = p:stop()
    assert.is_true(profiling.under(prof, "testkit.touch_pages") >= 50, profiling.text(prof))
    p:close()
    p:close()
    collectgarbage()
    works()
  end)

  it("is the only one in the process that takes stacks at safe points, also of other Lua states", function()
    requires { perf_open = "user" }
    local ok, text, called
    profiling.at_safe_points(function()
      local p = perf.profiler {}
      assert.is_true(p:start())
      refused("EBUSY", perf.profiler({ event = "page-faults" }):start())
      refused("EBUSY", perf.profile(function() called = true end))
      ok, text = kit.state [[
        local p = assert(require("perf").profiler { event = "page-faults" })
        local ok, message, code = p:start()
        p:close()
        return tostring(code)
      ]]
      p:stop()
    end)
    assert.is_nil(called)
    assert.is_true(ok, text)
    assert.equal("EBUSY", text)
    ok, text = kit.state [[
      local perf = require "perf"
      local prof = assert(perf.profile({ event = "page-faults" }, require("testkit").touch_pages, 100))
      return tostring(prof.total >= 100)
    ]]
    assert.is_true(ok, text)
    assert.equal("true", text)
    works()
  end)

  it("raises the function's error unchanged, and is stopped", function()
    requires { perf_open = "user" }
    local err = {}
    local ok, got = pcall(perf.profile, { event = "page-faults" }, function() error(err) end)
    assert.is_false(ok)
    assert.equal(err, got)
    ok, got = pcall(perf.profile, function() error("words", 0) end)
    assert.is_false(ok)
    assert.equal("words", got)
    works()
  end)

  it("leaves the signals' handlers as they were", function()
    requires { perf_open = "user" }
    local before = caught()
    works()
    assert.equal(before, caught())
    for _, sig in ipairs { SIGTRAP, SIGPROF } do
      kit.count_signals(sig)
      local p = perf.profiler { event = "page-faults" }
      assert.is_true(p:start())
      kit.touch_pages(100)
      kit.kill(kit.getpid(), sig) -- the host's own signals go to the host
      local prof = p:stop()
      kit.kill(kit.getpid(), sig)
      local n, kept = kit.count_signals(sig, false)
      assert.equal(2, n)
      assert.is_true(kept)
      assert.is_true(profiling.under(prof, "testkit.touch_pages") >= 100, profiling.text(prof))
    end
    assert.equal(before, caught())
  end)

  it("does not disturb LuaJIT's own profiler", function()
    requires { perf_open = "user", lua = "luajit" }
    local profile = require "jit.profile"
    profiling.at_safe_points(function()
      works() -- the profiler knows the handler from here on
      profile.start("l", function() end)
      local message = refused("EBUSY", perf.profile(print))
      assert.is_truthy(message:find("LuaJIT's profiler is in use", 1, true), message)
      profile.stop()
      works()
    end)
    -- a profiler that was started after ours replaces it; ours returns its samples so far, and leaves the other running
    local p = perf.profiler { event = "page-faults" }
    assert.is_true(p:start())
    kit.touch_pages(100)
    local n = 0
    profile.start("li1", function() n = n + 1 end)
    assert.is_true(p:stop().total >= 100)
    local deadline = kit.clock_ns() + 20e9
    local function wait()
      while n == 0 and kit.clock_ns() < deadline do kit.spin(50000) end
    end
    require "jit".off(wait) -- compiled code may run for many seconds before it asks for a sample
    wait()
    profile.stop()
    assert.is_true(n > 0)
    works()
  end)

  it("is stopped in the child of a fork, and not disturbed in the parent", function()
    requires { perf_open = "user" }
    local p = perf.profiler { event = "page-faults" }
    assert.is_true(p:start())
    kit.touch_pages(100)
    local status, text = kit.fork(function()
      assert(not p:is_running())
      local prof, message, code = p:stop()
      assert(prof == nil and code == "ECHILD", message)
      local own = assert(perf.profile({ event = "page-faults" }, kit.touch_pages, 200))
      assert(own.total >= 200 and own.pid == kit.getpid(), own.total)
      return "fine"
    end)
    assert.equal("fine", text, status)
    assert.is_true(p:is_running())
    kit.touch_pages(100)
    local prof = p:stop()
    -- the fork itself causes faults: pages that became copy-on-write
    assert.is_true(prof.total >= 200, profiling.text(prof))
    assert.equal(prof.total, profiling.sum(prof))
    assert.is_true(profiling.under(prof, "testkit.touch_pages") >= 200, profiling.text(prof))
    -- a child that goes on without stopping it, and profiles again
    p = perf.profiler { event = "page-faults" }
    assert.is_true(p:start())
    status, text = kit.fork(function()
      return tostring(assert(perf.profile({ event = "page-faults" }, kit.touch_pages, 200)).total >= 200)
    end)
    p:stop()
    assert.equal("true", text, status)
  end)

  it("stops when it is collected", function()
    requires { perf_open = "user" }
    assert(perf.profiler({ event = "page-faults" }):start())
    collectgarbage()
    collectgarbage()
    works()
  end)

  it("releases everything if the machine refuses something", function()
    requires { perf_open = true }
    for _, call in ipairs { "perf_event_open", "mmap", "ioctl" } do
      collectgarbage()
      for skip = 0, 12 do
        core.fault(call, "ENOMEM", skip)
        local prof, _, code = perf.profile({ event = "page-faults" }, kit.touch_pages, 10)
        core.fault()
        assert.is_true(prof ~= nil or code == "ENOMEM", tostring(code))
      end
    end
    works()
  end)

  it("loses no weight if no memory is free for its stacks", function()
    requires { perf_open = "user" }
    -- 4096 different stacks: more nodes than there is room for at the start
    local function branch(n, depth)
      if depth == 0 then
        kit.touch_pages(1)
        return 0
      end
      if n % 2 == 0 then
        return branch(math.floor(n / 2), depth - 1) + 1
      end
      return branch(math.floor(n / 2), depth - 1) + 2
    end
    for _, call in ipairs { "mmap", "mremap" } do
      local p = assert(perf.profiler { event = "page-faults" })
      assert.is_true(p:start())
      core.fault(call, "ENOMEM", 0)
      for i = 1, 4096 do branch(i, 12) end
      assert.is_true(core.fault() > 0, call)
      local prof = p:stop()
      p:close()
      assert.equal(prof.total, profiling.sum(prof))
      assert.is_true(prof.total >= 4096, profiling.text(prof))
      -- The sample that found no room is not on a wrong stack.
      local other = profiling.under(prof, "(other)")
      assert.is_true(other >= 1 and other < 10, other)
    end
  end)

  it("names an event that it cannot profile", function()
    requires { perf_open = true }
    refused("EINVAL", perf.profiler { event = "syscalls:sys_enter_rt_sigreturn" })
    refused("EACCES", perf.profiler { event = "context-switches:u" })
    refused("EINVAL", perf.profiler { event = "page-faults", filter = "x >" })
  end)

  it("works for an ordinary user", function()
    requires { perf_open = "user", root = true, cmd = "flock" }
    local text = as_nobody(2, function()
      local prof = assert(perf.profile(kit.spin, 5000000))
      local faults = assert(perf.profile({ event = "page-faults" }, kit.touch_pages, 100))
      local _, message, code = perf.profiler { event = "context-switches" }
      -- without the kernel, an event that occurs only there is not profiled: the total would be 0
      assert(select(3, perf.profiler { event = "cpu-migrations" }) == "EACCES")
      assert(select(3, perf.profiler { event = "context-switches", period = 1 }) == "EACCES")
      -- The title explains why there are fewer samples than the frequency times the total.
      assert(prof.user_only and tostring(prof):find("\nsamples were taken in user space only", 1, true), tostring(prof))
      assert(not faults.user_only)
      -- at each switch the event stops counting a little before the thread's clock, which spin uses
      return ("%s %s %s %s %s %s"):format(prof.event, tostring(prof.total >= 2.5e6), faults.event, tostring(faults.total >= 100),
        code, message)
    end)
    assert.is_truthy(text:find("^task%-clock true page%-faults%S* true EACCES"), text)
  end)
end)
