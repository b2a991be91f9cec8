-- The story: a forked child has copies of its parent's descriptors, which refer to the parent's events. In 0.1.0 the child's
-- ev:disable() stopped the parent's counting; its ev:close() of a disabled leader disabled the parent's members; its ev:measure
-- returned the parent's work; after a fork within perf.measure, the child got the parent's counts.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local core = require "perf.core"
local forks_of = require "spec.support.forks"
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local REFUSED, split, refused = forks_of.REFUSED, forks_of.split, forks_of.refused

-- A measured function that forks: 3 system calls before, 5 after, and others in the child.
local function forks(raw)
  kit.syscalls(3)
  local pid = kit.split(raw)
  if pid == 0 then
    kit.syscalls(700)
    return 0
  end
  local status = kit.reap(pid)
  kit.syscalls(5)
  return pid, status
end

-- The reading must be exactly ten pages more. The fork made all pages copy-on-write: a write to any of them meanwhile is a fault
-- too, so it may take another attempt, but there are never fewer.
local function counts_ten(read)
  kit.settle()
  util.exactly(10, function()
    local before = read()
    kit.touch_pages(10)
    return read() - before
  end)
end

local GETPPID = "syscalls:sys_enter_getppid"

local function nothing(e)
  assert(e.value == nil, "value " .. tostring(e.value))
  assert(tostring(e.why):find("fork", 1, true), tostring(e.why))
end

for _, raw in ipairs { false, true } do
  describe(raw and "a child made by clone(2), without handlers," or "a forked child", function()
    before_each(function() requires { perf_open = true } end)

    local function child(fn) assert.equal(0, split(fn, raw)) end

    describe("does not change the parent's counts by", function()
      before_each(function() requires { nosan = true } end) -- its memory is always new: pages that fault
      local ends = {
        disable = function(ev) pcall(ev.disable, ev) end,
        reset = function(ev) pcall(ev.reset, ev) end,
        ["set_filter, modify and refresh"] = function(ev)
          pcall(ev.set_filter, ev, "1")
          pcall(ev.modify, ev, { event = "mem:0x1000:w" })
          pcall(ev.refresh, ev, 1)
        end,
        close = function(ev) ev:close() end,
        collection = function() end,
      }
      for name, act in pairs(ends) do
        it(name, function()
          local ev = assert(perf.open "page-faults:u")
          local g = assert(perf.group { "page-faults:u", "task-clock:u" })
          local s = assert(perf.set("page-faults:u", { threads = kit.getpid() }))
          local kept = { ev, g, s }
          ev:enable()
          g:enable()
          kit.touch_pages(50)
          child(function()
            for _, object in ipairs(kept) do act(object) end
            ev, g, s, kept = nil, nil, nil, nil
            collectgarbage()
            collectgarbage()
          end)
          assert.is_true(ev:read().value >= 50 and g:read()[1].value >= 50 and s:read().value >= 50)
          counts_ten(function() return ev:read().value end)
          counts_ten(function() return g:read()[1].value end)
          counts_ten(function() return s:read().value end)
          ev:close()
          g:close()
          s:close()
        end)
      end

      it("closing a disabled leader", function()
        local leader = assert(perf.open("page-faults:u"))
        local member = assert(perf.open({ event = "page-faults:u", disabled = false }, { group = leader }))
        leader:enable()
        leader:disable()
        local late = kit.start(function()
          leader:close()
          return leader:is_open()
        end)
        leader:enable() -- the child does not know that
        assert.same({ 0, "false" }, { late:wait() })
        counts_ten(function() return leader:read().value end)
        member:close()
        leader:close()
      end)
    end)

    it("cannot use an event, a group or a set, and gets the same message each time", function()
      local sampled = { event = "page-faults:u", sample_period = 1, sample_type = { "addr" } }
      local ev, g = assert(perf.open(sampled)), assert(perf.group { "page-faults:u", "task-clock:u" })
      local s = assert(perf.set("page-faults:u", { threads = kit.getpid() }))
      assert(ev:map { pages = 1 })
      local begun = ev:records()
      local tally = assert(require "perf.record.tally".tally { by = "addr" })
      child(function()
        for _, method in ipairs { "enable", "disable", "reset", "read", "scan", "id", "fd", "map", "records", "read_record",
          "has_record", "poll", "lost", "pause_output" } do
          refused("Event", ev[method], ev)
        end
        refused("Event", ev.measure, ev, function() error "it ran" end)
        refused("Event", ev.set_filter, ev, "1")
        refused("Event", ev.refresh, ev, 1)
        refused("Event", ev.set_period, ev, 5)
        refused("Event", ev.each, ev, "sample", "addr")
        refused("Event", core.wait, { ev }, 0)
        refused("Event", perf.open, "page-faults:u", { group = ev })
        refused("Event", begun)
        refused("Tally", tally.take, tally, ev)
        refused("Tally", tally.totals, tally)
        for _, method in ipairs { "enable", "disable", "reset", "read", "id", "fd", "map" } do
          refused("Group", g[method], g)
        end
        refused("Group", g.measure, g, function() error "it ran" end)
        for _, method in ipairs { "records", "read_record", "has_record", "poll" } do refused("Group", g[method], g) end
        for _, method in ipairs { "enable", "disable", "read", "per_cpu", "map", "records", "read_record", "has_record",
          "poll" } do
          refused("Set", s[method], s)
        end
        assert(tostring(ev):find("parent process", 1, true) and tostring(s):find("parent process", 1, true))
        assert(ev:is_open() and ev:label() == "page-faults:u")
        ev:close()
        g:close()
        s:close()
        tally:close()
        assert(not ev:is_open())
        local own = assert(perf.open "page-faults:u")
        own:enable()
        kit.touch_pages(1)
        assert(own:read().value >= 1)
      end)
      ev:close()
      g:close()
      s:close()
      tally:close()
    end)

    describe("and the parent of a fork within a measurement:", function()
      before_each(function() requires { root = true, tracepoint = GETPPID } end)

      it("perf.measure is exact in the parent, and refused in the child, which measures exactly afterwards", function()
        for _, list in ipairs { GETPPID, GETPPID .. ",page-faults" } do
          perf.measure(list, kit.syscalls, 1)
          local c, pid, status = perf.measure(list, forks, raw)
          forks_of.in_child_only(pid, function()
            for _, e in ipairs(c) do nothing(e) end
            assert(c[GETPPID] == nil and c.wall_ns > 0 and tostring(c):find("fork", 1, true))
            for _, e in ipairs(c + c - c) do nothing(e) end
            for _, e in ipairs(c / 2) do nothing(e) end
            assert(next(c:totable().counts) == nil and c:json():find("fork", 1, true))
            local again = perf.measure(list, kit.syscalls, 9)
            assert(again[GETPPID] == 9, tostring(again))
          end)
          assert.same({ 8, 0 }, { c[GETPPID], status })
          assert.equal(6, perf.measure(list, kit.syscalls, 6)[GETPPID])
        end
      end)

      it("perf.measure by the kernel's accounting is refused in the child", function()
        local text = util.in_child(function()
          kit.refuse("perf_event_open", 1)
          perf.release()
          local c, pid, status = perf.measure(forks, raw)
          forks_of.in_child_only(pid, function()
            assert(c.source == "rusage")
            for i = 1, 3 do nothing(c[i]) end
            assert(perf.measure(kit.touch_pages, 9)["page-faults"] >= 9)
          end)
          return c.source .. tostring(c["page-faults"] >= 0) .. status
        end)
        assert.equal("rusagetrue0", text)
      end)

      it("group:measure", function()
        local g = assert(perf.group { GETPPID, "task-clock" })
        local c, pid, status = g:measure(forks, raw)
        forks_of.in_child_only(pid, function()
          nothing(c[1])
          nothing(c[2])
        end)
        assert.same({ 8, 0 }, { c[GETPPID], status })
        g:close()
      end)

      it("a pool's job", function()
        requires { nosan = true } -- at the child's end LeakSanitizer reports objects of the parent's main thread as lost
        local pool = assert(perf.pool { size = 1, events = GETPPID })
        local job = pool:submit(function(by_clone)
          local t = require "testkit"
          t.syscalls(3)
          t.until_parked()
          local pid = t.split(by_clone)
          if pid == 0 then
            t.syscalls(700)
            return "the child's"
          end
          local status = t.reap(pid) -- it ends with its only thread, which has no parent to report to
          t.unpark()
          t.syscalls(5)
          return status
        end, raw)
        kit.park()
        assert.same({ 0, 8 }, { job:get(20), job:counts()[GETPPID] })
        pool:close()
      end)

      it("ev:measure", function()
        for _, format in ipairs { { "total_time_enabled", "total_time_running", "id" }, { "id" } } do
          local ev = assert(perf.open { event = GETPPID, read_format = format })
          local e, pid, status = ev:measure(forks, raw)
          forks_of.in_child_only(pid, nothing, e)
          assert.same({ 8, 0 }, { e.value, status })
          ev:close()
        end
      end)

      it("a span", function()
        local list = {}
        local t = assert(perf.tracer { exporter = function(spans)
          for _, s in ipairs(spans) do list[s.name] = s end
        end, events = GETPPID, delay = 1000 })
        local span = t:start "forked"
        local pid, status = forks(raw)
        forks_of.in_child_only(pid, function()
          assert(not span:is_recording())
          span:set_attribute("k", 1)
          span:finish()
          assert(span:totable().why:find("fork", 1, true) and next(span:totable().counts) == nil)
          local own = t:start "own"
          kit.syscalls(4)
          own:finish()
          assert(t:flush())
          assert(list.own.counts[GETPPID] == 4 and not list.forked)
          assert(t:stats().made == 1)
        end)
        span:finish()
        t:flush()
        assert.same({ 8, 0 }, { list.forked.counts[GETPPID], status })
        assert.is_nil(list.own)
        assert.is_nil(list.forked.why)
        t:close()
      end)
    end)

    it("has a tracer with an empty queue", function()
      local sent = {}
      local t = assert(perf.tracer { events = false, delay = 1000, metrics = true, exporter = function(spans)
        for _, s in ipairs(spans) do sent[#sent + 1] = s.name end
      end })
      t:start "parent":finish()
      child(function()
        assert(t:stats().made == 0 and t:stats().queued == 0)
        assert(not t:prometheus():find("parent", 1, true))
        assert(t:flush() and #sent == 0)
        t:span("own", function() end)
        assert(t:prometheus():find('perf_span_duration_seconds_count{span="own"} 1', 1, true))
        assert(t:flush() and table.concat(sent, " ") == "own" and t:stats().made == 1)
      end)
      assert(t:flush())
      assert.same({ "parent" }, sent)
      assert.is_truthy(t:prometheus():find('perf_span_duration_seconds_count{span="parent"} 1', 1, true))
      t:close()
    end)

    it("adds nothing to the parent's profile, and can start the same profiler", function()
      local running, new = perf.profiler { event = "page-faults" }, perf.profiler { event = "page-faults" }
      child(function() running:close() end)
      assert(running:start())
      kit.touch_pages(100)
      child(function()
        kit.touch_pages(5000)
        local prof, message, code = running:stop()
        assert(prof == nil and message == "Profiler" .. REFUSED and code == "ECHILD", message)
        assert(new:start())
        kit.touch_pages(200)
        prof = assert(new:stop())
        assert(prof.total >= 200 and prof.total < 5000 and prof.pid == kit.getpid())
        running, new = nil, nil
        collectgarbage()
        collectgarbage()
      end)
      kit.touch_pages(100)
      local prof = assert(running:stop())
      assert.is_true(prof.total >= 200 and prof.total < 5000)
      new:close()
    end)

    -- The pool's thread stands still: in 3 of 100 runs of Lua 5.2 it held the lock of malloc while clone(2) made the child.
    it("does not have a pool's threads, and does not wait for them", function()
      assert.equal("1", util.in_child(function()
        local pool = assert(perf.pool { size = 1, events = false })
        local job = pool:submit(function()
          require "testkit".park()
          return 1
        end)
        kit.until_parked()
        local status = split(function()
          refused("Pool", pool.submit, pool, function() end)
          refused("Pool", pool.stats, pool)
          for _, method in ipairs { "wait", "get", "cancel" } do refused("Job", job[method], job) end
          pool:close()
          pool, job = nil, nil
          collectgarbage()
          collectgarbage()
        end, raw)
        kit.unpark()
        assert(status == 0)
        local result = job:get()
        pool:close()
        return result
      end))
    end)

    it("gets no result of a benchmark during which it was forked", function()
      local pid
      local ok, result = pcall(perf.bench, function()
        if not pid then pid = kit.split(raw) end
      end, { min_time = 0.001, repeats = 3 })
      forks_of.in_child_only(pid, function()
        assert(not ok and tostring(result):find("The benchmark" .. REFUSED, 1, true), tostring(result))
      end)
      assert.is_true(ok, tostring(result))
      assert.equal(0, kit.reap(pid))
    end)
  end)
end
