-- Profiler:snapshot: the Profile so far of a profiler that goes on.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local outside = require "spec.support.outside"
local host = require "perf.kernel.host"
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local on_line, under = profiling.on_line, profiling.under

-- The sums of a Profile are consistent.
local function check(prof)
  local text, count = profiling.text(prof), 0
  for _, s in ipairs(prof:samples()) do count = count + s.count end
  assert.equal(tonumber(prof.total), tonumber(profiling.sum(prof)), text)
  assert.equal(tonumber(prof.sample_count), tonumber(count), text)
  return prof, text
end

describe("a snapshot of a running profiler", function()
  before_each(function() requires { perf_open = true } end)

  it("has what is new since the last one, and the stop has the rest", function()
    local p = assert(perf.profiler { event = "page-faults", period = 1 })
    finally(function() p:close() end)
    assert(p:start())
    local whole, snapshots = 0, {}
    for _, pages in ipairs { 100, 300 } do
      kit.touch_pages(pages)
      snapshots[#snapshots + 1] = { pages, (assert(p:snapshot())) }
    end
    for _, snapshot in ipairs(snapshots) do -- not before, since its own work would be in the next one
      local pages, prof = snapshot[1], snapshot[2]
      local text = select(2, check(prof))
      local n = under(prof, "testkit.touch_pages")
      assert.is_true(n >= pages and n < pages + 90, text)
      assert.is_nil(text:find("perf/profile", 1, true), text) -- nothing of the work of making it
      whole = whole + prof.total
    end
    local nothing, text = check(assert(p:snapshot()))
    assert.equal(0, under(nothing, "testkit.touch_pages"), text)
    kit.touch_pages(50)
    local last
    last, text = check(assert(p:stop()))
    assert.is_true(under(last, "testkit.touch_pages") >= 50 and under(last, "testkit.touch_pages") < 100, text)
    assert.is_true(last.started >= nothing.started)
  end)

  it("has its part of the timeline", function()
    local p = assert(perf.profiler { event = "page-faults", period = 1, timeline = true })
    finally(function() p:close() end)
    assert(p:start())
    local before
    for _ = 1, 3 do
      kit.touch_pages(20)
      local prof, n = check(assert(p:snapshot())), 0
      for m in prof:timeline() do
        assert.is_true(not before or m.time >= before)
        before, n = m.time, n + m.weight
      end
      assert.equal(tonumber(prof.total), tonumber(n))
    end
    p:stop()
  end)

  it("adds up the time", function()
    local p = assert(perf.profiler { freq = 2000 })
    finally(function() p:close() end)
    assert(p:start())
    local function busy()
      local s, t0 = 0, os.clock()
      while os.clock() - t0 < 0.05 do
        for i = 1, 1e4 do s = s + i % 7 end
      end
      return s
    end
    local sum = 0
    for _ = 1, 4 do
      busy()
      sum = sum + check(assert(p:snapshot())).total
    end
    sum = sum + check(assert(p:stop())).total
    -- At each switch the event stops counting a little before the process's clock: on a busy machine there are many.
    assert.is_true(sum >= 0.16e9, sum)
  end)

  it("is refused if the profiler does not run", function()
    local p = assert(perf.profiler { event = "page-faults", period = 1 })
    local refusal = { nil, "the profiler is not running", "EINVAL" }
    assert.same(refusal, { p:snapshot() })
    assert(p:start())
    assert.equal(0, (kit.fork(function()
      local _, _, code = p:snapshot()
      assert(code == "ECHILD", code)
    end)))
    assert(p:stop())
    assert.same(refusal, { p:snapshot() })
    p:close()
    assert.same(refusal, { p:snapshot() })
  end)

  it("begins anew with the next start", function()
    local p = assert(perf.profiler { event = "page-faults", period = 1 })
    finally(function() p:close() end)
    for _ = 1, 2 do
      assert(p:start())
      kit.touch_pages(30)
      local prof, text = check(assert(p:snapshot()))
      assert.is_true(on_line(prof, 0) == 0 and under(prof, "testkit.touch_pages") >= 30, text)
      check(assert(p:stop()))
    end
  end)
end)

describe("a snapshot of another process", function()
  before_each(function()
    outside.requires()
  end)

  it("has all samples so far, once", function()
    local rounds = { 100, 300, 50 }
    local child = assert(kit.start(function()
      for _, pages in ipairs(rounds) do
        kit.touch_pages(pages)
        os.execute "kill -STOP $PPID" -- until the parent has taken a snapshot
      end
    end))
    local p = assert(perf.profiler { pid = child:pid(), event = "page-faults", period = 1 })
    finally(function() p:close() end)
    assert(p:start())
    child:go()
    for _, pages in ipairs(rounds) do
      repeat until host.status(child:pid()).State:find "^T"
      local prof, text = check(assert(p:snapshot()))
      local n = under(prof, "testkit.touch_pages")
      assert.is_true(n >= pages and n < 2 * pages + 40, text)
      local a = prof.accounting
      assert.equal(a.samples, a.resolved + a.labelled + a.dropped, text)
      os.execute("kill -CONT " .. child:pid())
    end
    child:wait()
    local prof, text = check(assert(p:stop()))
    assert.equal(0, under(prof, "testkit.touch_pages"), text)
    local a = prof.accounting
    assert.equal(a.samples, a.resolved + a.labelled + a.dropped, text)
  end)

  it("has the time that a thread has been off its CPU so far", function()
    requires { tracepoint = "sched:sched_switch" }
    local child = assert(kit.start(function() os.execute "exec sleep 60" end))
    finally(function() child:close() end)
    local p = assert(perf.profiler { pid = child:pid(), event = "context-switches" })
    finally(function() p:close() end)
    assert(p:start())
    child:go()
    local times = {}
    local function waited()
      local prof = check(assert(p:snapshot()))
      return under(prof, "os.execute")
    end
    -- It waits for its child now, which has begun its program: before, it is in the state D.
    repeat until waited() > 0 and host.status(child:pid()).State:find "^S"
    for i = 1, 2 do
      os.execute "sleep 0.1"
      times[i] = waited()
    end
    assert.is_true(times[1] >= 0.1e9 and times[2] >= 0.1e9, times[1] .. " " .. times[2])
    assert(p:stop())
  end)
end)
