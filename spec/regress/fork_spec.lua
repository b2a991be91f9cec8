-- A forked child has copies of its parent's descriptors, and they lead to the parent's events. In 0.1.0 the child's ev:disable()
-- stopped the parent's counting; its ev:close() of a disabled leader disabled the parent's members; its ev:measure gave the
-- parent's work; a perf.measure that the fork happened in told the child what the parent had counted. An Output that the child
-- collected removed the file that the parent was writing, and a perf.data writer put the parent's buffer into the file twice.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local REFUSED = " belongs to the parent process: it was opened before a fork; open another one here"

-- Runs fn in a child that ends as soon as fn does, and has no reason to say anything but what went wrong.
local function split(fn, raw)
  local pid = kit.split(raw)
  if pid == 0 then
    local ok, err = pcall(fn)
    if not ok then
      io.stderr:write("in the child: ", tostring(err), "\n")
      io.stderr:flush()
    end
    kit.exit(ok and 0 or 1)
  end
  return kit.reap(pid)
end

local function refused(what, fn, ...)
  local ok, err = pcall(fn, ...)
  err = tostring(err)
  if ok or not err:find(what .. REFUSED, 1, true) then error((ok and "no error" or err) .. " instead of " .. what, 0) end
end

-- What a measured function does that forks: 3 system calls before, 5 after, and in the child others.
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

-- In the child of a measurement: check its count, then end.
local function in_child_only(pid, check, ...)
  if pid == 0 then
    local ok, err = pcall(check, ...)
    if not ok then
      io.stderr:write("in the child: ", tostring(err), "\n")
      io.stderr:flush()
    end
    kit.exit(ok and 0 or 1)
  end
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

    describe("leaves the parent's counts alone by", function()
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
          kit.settle() -- the fork made pages copy-on-write
          local before, before_group, before_set = ev:read().value, g:read()[1].value, s:read().value
          kit.touch_pages(10)
          local after, after_group, after_set = ev:read().value, g:read()[1].value, s:read().value
          assert.same({ 10, 10, 10 }, { after - before, after_group - before_group, after_set - before_set })
          assert.is_true(before >= 50 and before_group >= 50 and before_set >= 50)
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
        -- The parent's leader counts again by the time that the child, which remembers it as disabled, closes its copy.
        local go_r = kit.split(raw)
        if go_r == 0 then
          core.watch({}, 0.3)
          leader:close()
          collectgarbage()
          collectgarbage()
          kit.exit(0)
        end
        leader:enable()
        kit.reap(go_r)
        kit.settle()
        local before = leader:read().value
        kit.touch_pages(10)
        assert.equal(10, leader:read().value - before)
        member:close()
        leader:close()
      end)
    end)

    it("is refused each use of an event, a group and a set, with one message", function()
      local sampled = { event = "page-faults:u", sample_period = 1, sample_type = { "addr" } }
      local ev, g = assert(perf.open(sampled)), assert(perf.group { "page-faults:u", "task-clock:u" })
      local s = assert(perf.set("page-faults:u", { threads = kit.getpid() }))
      assert(ev:map { pages = 1 })
      local begun = ev:records()
      local tally = assert(require "perf.tally".tally { by = "addr" })
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
          in_child_only(pid, function()
            for _, e in ipairs(c) do nothing(e) end
            assert(c[GETPPID] == nil and c.wall_ns > 0 and tostring(c):find("fork", 1, true))
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
          in_child_only(pid, function()
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
        in_child_only(pid, function()
          nothing(c[1])
          nothing(c[2])
        end)
        assert.same({ 8, 0 }, { c[GETPPID], status })
        g:close()
      end)

      it("ev:measure", function()
        for _, format in ipairs { { "total_time_enabled", "total_time_running", "id" }, { "id" } } do
          local ev = assert(perf.open { event = GETPPID, read_format = format })
          local e, pid, status = ev:measure(forks, raw)
          in_child_only(pid, nothing, e)
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
        in_child_only(pid, function()
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

    it("has a tracer that begins with nothing", function()
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

    it("has no part in the parent's profile, and makes its own with the same profiler", function()
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

    it("has no threads of a pool, and does not wait for them", function()
      requires { module = "luv" }
      assert.equal("1", util.in_child(function() -- luv keeps its threads' descriptors
        local pool = assert(perf.pool { size = 1, events = false })
        local job = pool:submit(function() return 1 end)
        local status = split(function()
          refused("Pool", pool.submit, pool, function() end)
          refused("Pool", pool.stats, pool)
          for _, method in ipairs { "wait", "get", "cancel" } do refused("Job", job[method], job) end
          pool:close()
          pool, job = nil, nil
          collectgarbage()
          collectgarbage()
        end, raw)
        assert(status == 0)
        local result = job:get()
        pool:close()
        return result
      end))
    end)

    it("does not get the result of a benchmark that it was forked in", function()
      local pid
      local ok, result = pcall(perf.bench, function()
        if not pid then pid = kit.split(raw) end
      end, { min_time = 0.001, repeats = 3 })
      in_child_only(pid, function()
        assert(not ok and tostring(result):find("The benchmark" .. REFUSED, 1, true), tostring(result))
      end)
      assert.is_true(ok, tostring(result))
      assert.equal(0, kit.reap(pid))
    end)
  end)
end

describe("a forked child", function()
  before_each(function() requires { perf_open = true } end)

  it("is noticed by a handler where the kernel clears no page", function()
    requires { seccomp = true }
    assert.equal("fine", util.in_child(function()
      return (util.shell(util.lua() .. [[ -e 'local kit = require "testkit"
        assert(kit.refuse("madvise", 22))
        local perf = require "perf"
        local ev = assert(perf.open "page-faults:u")
        local pid = kit.split()
        if pid == 0 then
          local ok, err = pcall(ev.read, ev)
          kit.exit(not ok and err:find("belongs to the parent process", 1, true) and 7 or 1)
        end
        assert(ev:read())
        io.write(kit.reap(pid) == 7 and "fine" or "not noticed")']]))
    end))
  end)

  it("leaves the parent's files alone, however it ends", function()
    local ends = { "", "os.exit(0)", "os.exit(0, true)", "error(\"over\")", "kit.exit(0)" }
    for _, last in ipairs(ends) do
      util.with_directory(function(dir)
        local path = dir .. "/parent"
        local output, status = util.shell(([[%s -e '
          local core, kit, perf = require "perf.core", require "testkit", require "perf"
          local path = "%s"
          local out = assert(core.output(path .. ".txt"))
          assert(out:write("whole"))
          local ev = assert(perf.open("dummy:u"))
          local w = assert(perf.data.create(path .. ".data", { events = { ev }, build_ids = false }))
          for i = 1, 100 do assert(w:write(core.synth { type = "round" })) end
          local t = assert(perf.tracer { events = false, delay = 1000, exporter = function(spans)
            local f = assert(io.open(path .. ".spans", "a"))
            for _, s in ipairs(spans) do f:write(s.name, "\n") end
            f:close()
          end })
          t:start "parent":finish()
          local pid = kit.split()
          if pid == 0 then
            assert(not pcall(out.write, out, "x") and not pcall(out.commit, out))
            assert(not pcall(w.write, w, core.synth { type = "round" }))
            assert(select(3, w:close()) == "ECHILD")
            %s
            return
          end
          kit.reap(pid)
          assert(out:commit())
          assert(w:close())
          assert(t:flush())
          t:close()
          local n = 0
          local file = assert(perf.data.open(path .. ".data"))
          for _ in file:records() do n = n + 1 end
          io.write(n)']]):format(util.lua(), path, last))
        assert.equal(0, status, last .. ": " .. output)
        assert.matches("100$", output, last)
        assert.equal("whole", util.read_file(path .. ".txt"), last)
        assert.equal("parent\n", util.read_file(path .. ".spans"), last)
      end)
    end
  end)

  it("never waits for a lock that a thread of the parent held", function()
    local jobs = core.channel()
    assert(jobs:push(1, "one"))
    assert.equal(0, split(function()
      for method, argument in pairs { push = 1, pop = 1, remove = 1, close = true, length = 1, export = 1 } do
        refused("Channel", jobs[method], jobs, argument, "x")
      end
      jobs = nil
      collectgarbage()
      collectgarbage()
    end))
    assert.equal(1, jobs:pop(0))
  end)

  it("neither starts nor ends a program of the parent", function()
    local p = assert(core.spawn { "true" })
    assert.equal(0, split(function()
      for _, method in ipairs { "start", "kill", "wait" } do
        local ok, _, code = p[method](p)
        assert(ok == nil and code == "ECHILD", method)
      end
      p:close()
    end))
    assert.is_true(p:start())
    assert.same({ exit = 0 }, p:wait(true))
    p:close()
  end)

  it("can stay while a program that was not started is given up", function()
    local first, second = assert(core.spawn { "true" }), assert(core.spawn { "true" })
    first:close() -- the second has a copy of its gate
    second:close()
  end)
end)
