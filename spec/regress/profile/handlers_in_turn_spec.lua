-- The story: a program installed and restored handlers of the profiler's signals, in an order of its own, while profiles began
-- and ended.
-- - Its handler of SIGTRAP was lost if the program kept our action and restored it later.
-- - If it had installed a handler of SIGTRAP during an earlier profile, that handler got the signals of the next one.
-- - A handler of SIGSEGV that was to run once (SA_RESETHAND) removed a later one, which had passed the signal on. Such a handler
--   of SIGTRAP removed ours, and the next sample ended the program.
-- - An action that another thread installed while a profile began or ended was lost.
-- - A handler that left by siglongjmp, as a time limit does, left our handler of SIGTRAP too if it had interrupted that one. Ours
--   then never ended, and the thread had no more samples.
-- - If the program kept and restored our handler by signal(2), which does not keep SA_SIGINFO, the handler got a siginfo that was
--   not set, or on arm64 invalid pointers. The next sample ended the program. It also ended a program that had installed a
--   handler by signal(2) which called ours.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local SEGV, TRAP = 11, 5

local function profiler(event)
  local p = assert(perf.profiler { event = event or "page-faults:u", period = 1 })
  assert(p:start())
  return p
end

local function stop(p)
  local line = profiling.next_line()
  kit.touch_pages(64)
  profiling.check(assert, assert(p:stop()), 64, line)
end

describe("a program's handlers of SIGTRAP", function()
  before_each(function() requires { perf_open = true, paranoid = 2 } end)

  it("run with the signal mask that the program has chosen", function()
    assert.equal("1 1, 21 2", (util.in_child(function()
      kit.link_handler(1, TRAP)
      local p = profiler "dummy:u" -- without signals, which the second handler would count
      local chain, _, blocked = kit.signal_chain(TRAP)
      kit.link_handler(2, TRAP) -- it passes the signal on to ours, and its own mask stays in force
      local longer, _, more = kit.signal_chain(TRAP)
      p:stop()
      return ("%s %d, %s %d"):format(chain, blocked, longer, more)
    end)))
  end)

  -- Each time used up one of our layers.
  it("may run once and be installed again, as often as the program wants", function()
    assert.equal("20", (util.in_child(function()
      local n = 0
      for _ = 1, 20 do
        kit.link_handler(1, TRAP, true)
        local p = profiler()
        if kit.signal_chain(TRAP) == "1" then n = n + 1 end
        p:stop()
      end
      return ("%d"):format(n)
    end)))
  end)

  -- Such a signal was taken for a fault, which ends the process.
  it("may ignore the signals of the program's own events", function()
    local function own_event()
      return perf.open { event = "page-faults:u", sample_period = 1, sigtrap = true, remove_on_exec = true }
    end
    local ev = own_event()
    if not ev then pending "needs: attr.sigtrap (Linux 5.13)" end
    ev:close()
    assert.equal("survived", (util.in_child(function()
      kit.no_handler(TRAP, true)
      assert(assert(own_event()):enable())
      local p = profiler()
      kit.touch_pages(64)
      p:stop()
      return "survived"
    end)))
  end)

  -- Then the total lacked what had no sample, if the period was 1.
  it("may swallow the signals of a profile", function()
    local said = util.in_child(function()
      local p = profiler()
      local line = profiling.next_line()
      kit.touch_pages(64)
      kit.no_handler(TRAP, true)
      kit.touch_pages(64)
      local prof = assert(p:stop())
      return ("%d %d"):format(tonumber(profiling.on_line(prof, line)), tonumber(profiling.under(prof, "(unsampled)")))
    end)
    for n in said:gmatch "%d+" do -- there may be more: of pages that are copied since the fork
      assert.is_true(tonumber(n) >= 64 and tonumber(n) < 128, said)
    end
  end)

  it("get their signals after the program has kept our action and restored it", function()
    local said = util.in_child(function()
      kit.link_handler(1, TRAP)
      local p = profiler()
      kit.link_handler(2, TRAP) -- it keeps ours
      p:stop()
      kit.no_handler(TRAP)
      p = profiler()
      stop(p)
      kit.unlink_handler(2, TRAP)
      return (kit.signal_chain(TRAP))
    end)
    assert.equal("1", said)
  end)

  it("do not keep a profile from its samples", function()
    local said = util.in_child(function()
      kit.link_handler(1, TRAP)
      local p = profiler()
      kit.link_handler(2, TRAP)
      p:stop()
      p = profiler()
      local chain = kit.signal_chain(TRAP)
      stop(p)
      return ("%s %s"):format(chain, (kit.signal_chain(TRAP)))
    end)
    assert.equal("21 21", said)
  end)

  it("run once if they are to, and the profile goes on", function()
    local said = util.in_child(function()
      kit.link_handler(1, TRAP, true)
      local p = profiler()
      local chain = kit.signal_chain(TRAP)
      stop(p)
      return ("%s %d"):format(chain, (kit.fork(function() kit.signal_chain(TRAP) end)))
    end)
    assert.equal(("1 %d"):format(-TRAP), said)
  end)

  it("stay if another thread installs them while a profile begins or ends", function()
    requires { nosan = true } -- its library must be the first in LD_PRELOAD
    util.with_tmpname(function(path)
      util.write_file(path, [[
        local kit, perf = require "testkit", require "perf"
        local event = { event = "page-faults:u", period = 1 }
        perf.profile(event, function() end)
        local p = perf.profiler(event)
        kit.link_in_race(1)
        p:start()
        io.write((kit.signal_chain(5)), " ")
        kit.link_in_race(2)
        p:stop()
        io.write((kit.signal_chain(5)))
      ]])
      local preload = package.searchpath("testkit", package.cpath)
      local output, status = util.shell(("LD_PRELOAD=%s %s %s"):format(preload, util.lua(), path))
      assert.same({ "1 21", 0 }, { output, status })
    end)
  end)
end)

-- The message was "enable: Operation not permitted".
it("a profile is refused with the cause if the program has set more actions of SIGTRAP than the profiler can keep", function()
  requires { perf_open = true, paranoid = 2 }
  local code, message = util.in_child(function()
    local refusal
    for i = 1, 18 do
      kit.link_handler(math.ceil(i / 2), TRAP, i % 2 == 0)
      local p = assert(perf.profiler { event = "dummy:u", period = 1 })
      local ok, message, code = p:start()
      refusal = refusal or not ok and code .. " " .. message
      p:stop()
    end
    kit.link_handler(1, TRAP)
    profiler():stop()
    return tostring(refusal)
  end):match "(%S+) (.*)"
  assert.same({ "ENOSPC", true }, { code, message:find("more than 16 different actions of SIGTRAP", 1, true) ~= nil })
end)

describe("a program that uses signal(2)", function()
  -- Are 64 touched pages on their line, or unsampled? One may be left to the next signal, on another line.
  local function touch(p, is_unsampled)
    local line = profiling.next_line()
    kit.touch_pages(64)
    local prof = assert(p:stop())
    return tostring(tonumber(is_unsampled and profiling.under(prof, "(unsampled)") or profiling.on_line(prof, line)) >= 63)
  end

  it("may restore a profile's handler", function()
    requires { perf_open = true, paranoid = 2 }
    assert.equal("true 0 1", (util.in_child(function()
      kit.plain_handler(TRAP)
      local p = profiler()
      kit.swap_plainly(TRAP)
      local took = touch(p)
      local n = kit.plain_count(TRAP)
      p = profiler "dummy:u"
      kit.swap_plainly(TRAP)
      kit.kill(kit.getpid(), TRAP)
      p:stop()
      return ("%s %d %d"):format(took, n, kit.plain_count(TRAP))
    end)))
  end)

  it("may restore it when the program has no handler of its own", function()
    requires { perf_open = true, paranoid = 2 }
    assert.equal("true", (util.in_child(function()
      local p = profiler()
      kit.swap_plainly(TRAP)
      return touch(p)
    end)))
  end)

  it("may restore it and begin or end a profile", function()
    requires { perf_open = true, paranoid = 2, registers = true }
    assert.equal(("true %d"):format(-TRAP), (util.in_child(function()
      local p = profiler "dummy:u"
      kit.swap_plainly(TRAP)
      local other = profiler()
      local took = touch(other)
      kit.swap_plainly(TRAP)
      p:stop()
      return ("%s %d"):format(took, (kit.fork(function() kit.kill(kit.getpid(), TRAP) end)))
    end)))
  end)

  it("may pass signals on to it with nothing but their number", function()
    requires { perf_open = true, paranoid = 2 }
    assert.equal(("true %d"):format(-TRAP), (util.in_child(function()
      local p = profiler()
      kit.plain_handler(TRAP, true)
      local unsampled = touch(p, true)
      kit.no_handler(TRAP)
      local silent = profiler "dummy:u"
      kit.plain_handler(TRAP, true)
      local status = kit.fork(function() kit.kill(kit.getpid(), TRAP) end)
      silent:stop()
      return ("%s %d"):format(unsampled, status)
    end)))
  end)

  it("gets its faults as it would without the library", function()
    local said = util.in_child(function()
      local at = kit.region "guarded"
      core.peek_take()
      kit.swap_plainly(SEGV)
      local dies = kit.fork(function() kit.fault(at) end)
      kit.plain_handler(SEGV, true)
      local dies_too = kit.fork(function() kit.fault(at) end)
      kit.no_handler(SEGV)
      kit.plain_handler(SEGV)
      core.peek_take()
      kit.swap_plainly(SEGV)
      kit.kill(kit.getpid(), SEGV)
      return ("%d %d %d"):format(dies, dies_too, kit.plain_count(SEGV))
    end)
    assert.equal(("%d %d 1"):format(-SEGV, -SEGV), said)
  end)
end)

describe("a program's handlers of SIGSEGV", function()
  it("stay when they pass a signal on to one that was to run once", function()
    assert.same({ 0, "21 21" }, { kit.fork(function()
      local at = kit.region "guarded"
      kit.no_handler(SEGV)
      kit.link_handler(1, SEGV, true)
      core.peek_take()
      kit.link_handler(2)
      return ("%s %s"):format((kit.fault_chain(at)), (kit.fault_chain(at)))
    end) })
  end)

  it("are not mixed up with SIG_IGN", function()
    assert.same({ 0, "ignored" }, { kit.fork(function()
      kit.no_handler(SEGV, true)
      core.peek_take()
      kit.link_handler(1) -- it keeps ours
      core.peek_give()
      kit.no_handler(SEGV)
      core.peek_take()
      core.peek_give()
      kit.unlink_handler(1)
      kit.kill(kit.getpid(), SEGV)
      return "ignored"
    end) })
  end)
end)

describe("a program's handler of SIGALRM", function()
  before_each(function() requires { perf_open = "user" } end)

  it("may leave by siglongjmp while a sample is taken", function()
    local said = util.in_child(function()
      local p = assert(perf.profiler { event = "cpu-clock:u", freq = 10000 })
      assert(p:start())
      local jumps = kit.jumps(1e8, 1000)
      local line = profiling.next_line()
      kit.spin(1e8)
      local prof = assert(p:stop())
      return ("%.0f %.2f"):format(tonumber(jumps), tonumber(profiling.on_line(prof, line)) / tonumber(prof.total))
    end)
    local jumps, share = said:match "(%d+) (%S+)"
    assert.is_true(tonumber(jumps) > 0 and tonumber(share) > 0.3, said)
  end)
end)
