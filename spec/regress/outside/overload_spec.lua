-- The samples of another process when the profiler is late: events come faster than it reads them, or the process has ended
-- before it reads them. The story: for each sample of a process that had ended, the profiler asked the kernel for the process's
-- memory two to seven times. By then, another process may have the same id.
-- Twice: C reads the samples, whatever the process runs.
-- Later: it takes long to fill a ring of 32 MB.
local core = require "perf.core"
local host = require "perf.kernel.host"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local event = "syscalls:sys_enter_getppid"
local CONTINUE, STOP = 18, 19 -- signals

local function wait_for_file(path)
  while not io.open(path) do core.watch({}, 0.01) end
end

-- Profile a child in a process that is stopped while the child runs, so that it reads no sample before the child has ended.
-- @tab opts of perf.profiler
-- @func report is called in the profiler's process, with the Profile, the number of calls of process_vm_readv since its start,
-- and the result of before_stop. Only a process whose memory /proc does not show, such as one that has ended, is read by calls.
-- @func[opt] before_stop is called there with the Profiler, when the child has ended
-- @tab[opt] others children that are profiled too, and run from the profiler's start on
-- @return the strings that report and fn have returned
local function profile_while_stopped(opts, report, fn, before_stop, others)
  local text, result
  local child = assert(kit.start(fn))
  opts.pid = { child:pid() }
  for i, other in ipairs(others or {}) do opts.pid[i + 1] = other:pid() end
  util.with_directory(function(dir)
    local started, ended = dir .. "/started", dir .. "/ended"
    local profiler = assert(kit.start(function()
      local p = assert(perf.profiler(opts))
      core.fault("process_vm_readv", "EPERM", 2 ^ 30) -- counts the calls
      assert(p:start())
      util.write_file(started, "")
      wait_for_file(ended)
      local extra = before_stop and before_stop(p)
      local prof = assert(p:stop())
      return report(prof, core.fault(), extra)
    end))
    profiler:go()
    wait_for_file(started)
    for _, other in ipairs(others or {}) do other:go() end
    kit.kill(profiler:pid(), STOP)
    repeat until host.status(profiler:pid()).State:find "^T"
    local status
    status, result = child:wait()
    util.write_file(ended, "")
    kit.kill(profiler:pid(), CONTINUE)
    assert.equal(0, status, result)
    status, text = profiler:wait()
    assert.equal(0, status, text)
  end)
  return text, result
end

local function clock() return tonumber(kit.clock_ns()) end

-- Waits until the named pipe has a writer.
local function wait_for_writer(path) io.open(path):close() end

-- Waits until a child has made a file, and sleeps.
local function wait_for_sleep(path, child)
  wait_for_file(path)
  repeat until host.status(child:pid()).State:find "^S"
end

describe("a profile of another process that reads its samples late", function()
  -- With native frames, each sample is written into the ring, and none is only counted.
  before_each(function()
    outside.requires { tracepoint = event }
  end)

  it("counts the samples for which there was no room", function()
    local CALLS = 30000 -- each sample takes some KB, and the ring has 32 MB
    local text = profile_while_stopped({ event = event, native = true }, function(prof)
      local a = prof.accounting
      return ("%d %d %d %d %d %d\n"):format(a.samples, a.resolved + a.labelled + a.dropped, tonumber(prof.total),
        tonumber(profiling.sum(prof)), a.dropped, tonumber(profiling.under(prof, "testkit.syscalls"))) .. profiling.text(prof)
    end, function() kit.syscalls(CALLS) end)
    local samples, counted, total, sum, dropped, under = text:match "^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)"
    for _, n in ipairs { samples, counted, total, sum, dropped + under } do assert.equal(CALLS, tonumber(n), text) end
    assert.is_true(tonumber(dropped) > 0, text)
  end)

  -- The story: if the ring was full when a thread returned to its CPU, the profiler did not learn of it, and counted the
  -- thread as off its CPU until the stop. A later story: if such a thread then ended, it stayed in a map of the BPF program.
  -- When the map was full of these threads, no switch was sampled any more. Another story: if a new thread then had its number
  -- and ended too, the BPF program counted two ended threads, and the profiler found only one. It looked for the other one for
  -- ever: 20 times a second it asked the kernel for each thread that was off its CPU.
  it("has the time off the CPU of threads that return while the ring is full", function()
    requires { tracepoint = "sched:sched_switch" }
    local WAITERS, SLEEPERS = 60, 20
    -- The number of threads that the BPF program keeps, and of the calls of bpf that a snapshot needs at least.
    local function kept_and_calls(p)
      local kept, calls = 0, math.huge
      p.sampler:snapshot() -- so that all samples have been read
      for _ = 1, 5 do -- the collector may also look on its own meanwhile
        core.fault("bpf", "EPERM", 2 ^ 30) -- counts the calls
        p.sampler:snapshot()
        calls = math.min(calls, core.fault())
      end
      for _ in p.sampler.obj:map "switches":pairs() do kept = kept + 1 end
      return { kept, calls }
    end
    local asleep = os.tmpname()
    local sleepers = {}
    finally(function()
      for _, sleeper in ipairs(sleepers) do sleeper:close() end
      for i = 0, SLEEPERS do os.remove(asleep .. (i > 0 and i or "")) end
    end)
    for i = 1, SLEEPERS do
      sleepers[i] = assert(kit.start(function()
        util.write_file(asleep .. i, "")
        kit.sleeps(1, 1e12)
      end))
    end
    local text, times = profile_while_stopped({ event = "context-switches" }, function(prof, _, extra)
      return ("%d %d %d %d %d\n"):format(tonumber(profiling.under(prof, "wait_for_writer")), prof.lost,
        tonumber(profiling.under(prof, "(unsampled)")), extra[1], extra[2]) .. profiling.text(prof)
    end, function()
      local shortest, sum, waiters
      util.with_directory(function(dir)
        util.execute("mkfifo " .. dir .. "/fifo")
        waiters = {}
        for i = 1, WAITERS do
          waiters[i] = assert(kit.start(function()
            local began = clock()
            util.write_file(dir .. "/" .. i, "")
            wait_for_writer(dir .. "/fifo")
            return ("%d"):format(clock() - began)
          end))
          waiters[i]:go()
        end
        for i = 1, SLEEPERS do wait_for_sleep(asleep .. i, sleepers[i]) end
        for i = 1, WAITERS do wait_for_sleep(dir .. "/" .. i, waiters[i]) end
        local full = clock()
        -- First large samples fill the ring, then small ones: those of programs without Lua.
        kit.sleeps(10000, 1)
        util.execute "i=0; while [ $i -lt 200 ]; do i=$((i + 1)); (exit); done"
        shortest = clock() - full
        io.open(dir .. "/fifo", "w"):close()
        sum = 0
        for i = 1, WAITERS do
          local pid = waiters[i]:pid()
          sum = sum + select(2, assert(waiters[i]:wait()))
          local again = kit.split(true, pid) -- if the kernel lets root choose a number
          if again == 0 then kit.exit(0) end
          if again then kit.reap(again) end
        end
      end)
      return ("%d %d"):format(WAITERS * shortest, sum)
    end, kept_and_calls, sleepers)
    local found, lost, unsampled, kept, calls = text:match "^(%d+) (%d+) (%d+) (%d+) (%d+)"
    local least, most = times:match "^(%d+) (%d+)"
    text = times .. "\n" .. text
    assert.is_true(tonumber(lost) > 0, text)
    assert.is_true(tonumber(found) >= tonumber(least), text)
    assert.is_true(tonumber(found) <= tonumber(most), text)
    assert.is_true(tonumber(unsampled) < tonumber(found), text) -- their time is counted once
    assert.equal(SLEEPERS, tonumber(kept), text)
    assert.is_true(tonumber(calls) < 2 * SLEEPERS, text) -- one for each sleeper, and one for the threads that have ended
  end)

  -- @return the number of reads of memory, of samples, of those under testkit.syscalls, and of those whose function is gone; and
  -- the text of the profile
  local function profile_ended(fn)
    local text = profile_while_stopped({ event = event, native = true }, function(prof, calls)
      return ("%d %d %d %d\n"):format(calls, prof.sample_count, tonumber(profiling.under(prof, "testkit.syscalls")),
        (prof.failures or {})["function gone"] or 0) .. profiling.text(prof)
    end, fn)
    local calls, samples, under, gone = text:match "^(%d+) (%d+) (%d+) (%d+)"
    return tonumber(calls), tonumber(samples), tonumber(under), tonumber(gone), text
  end

  it("asks the kernel once for the memory of a process that has ended", function()
    local calls, samples, under, _, text = profile_ended(function() kit.syscalls(500) end)
    assert.equal(500, samples, text)
    assert.equal(500, under, text)
    assert.is_true(calls <= 1, text)
  end)

  it("asks the kernel once for the memory of each child", function()
    local calls, samples, under, _, text = profile_ended(function()
      for _ = 1, 10 do kit.fork(function() kit.syscalls(20) end) end
    end)
    assert.equal(200, samples, text)
    assert.equal(200, under, text)
    assert.is_true(calls <= 11, text)
  end)

  -- The story: if a process had executed a program and ended, the profiler looked for its code in the mappings of its parent.
  -- There its C functions were in no file, or in another one.
  it("takes no mappings of the parent for a program that was executed", function()
    util.with_tmpname(function(path)
      util.write_file(path, 'require("testkit").syscalls(20)')
      local text = profile_while_stopped({ event = event }, function(prof, _, processes)
        return ("%d %d\n"):format(profiling.under(prof, path .. ":1 main chunk"), processes) .. profiling.text(prof)
      end, function()
        kit.fork(function() kit.exec(util.lua(), path) end)
      end, function(p)
        local processes = 0 -- images of code in no file
        for _, image in ipairs(p.sampler:snapshot().images) do processes = processes + (image.file and 0 or 1) end
        return processes
      end)
      local found, processes = text:match "^(%d+) (%d+)"
      assert.equal(20, tonumber(found), text)
      assert.equal(0, tonumber(processes), text)
    end)
  end)

  it("counts the samples of compiled code whose lines it could not read", function()
    requires { lua = "luajit", ffi = true }
    local calls, samples, _, gone, text = profile_ended(function()
      local C = require "ffi".C
      pcall(require "ffi".cdef, "int getppid(void);")
      jit.flush() -- code that was compiled before may delay the compilation of this loop by hundreds of iterations
      jit.opt.start("hotloop=2")
      local x = 0
      for _ = 1, 1000 do x = x + C.getppid() end
      return x
    end)
    assert.equal(1000, samples, text)
    assert.is_true(calls <= 1, text)
    assert.is_true(gone > 900, text) -- the first iterations are interpreted
  end)

  -- After it has read the samples that were in the ring, the profiler looks for processes that have ended, even if the ring has
  -- further samples by then.
  it("forgets processes that have ended while another one has events without end", function()
    local CHILDREN = 20
    local flood = assert(kit.start(function()
      while true do kit.syscalls(100) end
    end))
    local children, pids = {}, { flood:pid() }
    for i = 1, CHILDREN do
      children[i] = assert(kit.start(function() kit.syscalls(1) end))
      pids[#pids + 1] = children[i]:pid()
    end
    local p = assert(perf.profiler { pid = pids, event = event, native = true })
    assert(p:start())
    flood:go()
    local map = p.sampler.obj:map "processes"
    local samples, known
    for _, child in ipairs(children) do assert.equal(0, (child:wait())) end
    repeat
      core.watch({}, 0.1)
      known = 0
      for _ in map:pairs() do known = known + 1 end
      samples = tonumber(p.sampler:snapshot().samples)
    until known == 1 or samples > 3e5
    flood:close()
    local prof = assert(p:stop())
    p:close()
    local a = prof.accounting
    assert.equal(1, known, profiling.text(prof))
    assert.equal(a.samples, a.resolved + a.labelled + a.dropped)
    assert.equal(tonumber(prof.total), tonumber(profiling.sum(prof)))
  end)
end)
