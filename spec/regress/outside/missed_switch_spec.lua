-- The story: a kernel hid the switches of some threads from all tracers. When such a thread left a CPU to a thread of the
-- profiled process, the profiler from outside did not see that this one had returned, and the time that it had been off the CPU
-- was lost. If the ring was full and the thread ended, this time was counted until another thread with the same number began.
-- Later this was mended for a thread that left its CPU again, or whose end was seen. But while such a thread ran, a snapshot and
-- the end of the profile still counted it as off its CPU. And if its end was not seen either, its time went on.
-- Twice: C counts the time, whatever the process runs.
local core = require "perf.core"
local host = require "perf.kernel.host"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local SPUN, MARGIN = 3e8, 5e7 -- ns; MARGIN is for time that the kernel counts neither as CPU time nor as time off the CPU

local function clock() return tonumber(kit.clock_ns()) end

-- Waits until the named pipe has a writer.
local function wait_for_writer(path) io.open(path):close() end

-- Returns the entry of the only thread that is off its CPU, as the bytes in the BPF program's map; nil if the map is empty.
local function left(p)
  local found
  for _, thread in p.sampler.obj:map "switches":pairs() do found = thread end
  return found
end

local function nothing() end

-- The time when a thread left its CPU: the first field of its entry.
local function time_of(thread)
  local time = 0
  for i = 8, 1, -1 do time = time * 256 + thread:byte(i) end
  return time
end

-- Profile a child that waits. The BPF program is off when the child returns to its CPU. The child then calls after(dir, fd); fd
-- is the BPF map with the program's variable "active". Meanwhile this process calls during(p, dir), which may return a snapshot
-- and its time. When the child has ended, this process calls last(p, pid).
-- @return the time off the CPU in wait_for_writer, from the snapshot if there is one, else from the whole profile; the least and
-- the most that it can be; and a text for messages
local function profile_unseen(after, during, last)
  outside.requires { tracepoint = "sched:sched_switch" }
  local found, least, most, text
  util.with_directory(function(dir)
    local fifo = dir .. "/fifo"
    util.execute("mkfifo " .. fifo)
    local other = assert(kit.start(nothing))
    finally(function() other:close() end)
    local p = assert(perf.profiler { pid = other:pid(), event = "context-switches" })
    local variables = p.sampler.obj:map ".bss":fd() -- it has only "active"
    local child = assert(kit.start(function() -- it begins after p is made, so that it has this descriptor
      wait_for_writer(fifo)
      after(dir, variables)
      return ("%d"):format(clock())
    end))
    local pid = child:pid()
    assert(p.sampler.collector:attach(pid))
    assert(p:start())
    child:go()
    local thread
    repeat thread = left(p) until thread and host.status(pid).State:find "^S" and left(p) == thread
    local asleep = clock()
    p.sampler.obj:set_global("active", 0)
    core.watch({}, 0.01)
    least = clock() - asleep
    io.open(fifo, "w"):close()
    local prof, taken = during(p, dir)
    local status, ended = child:wait()
    last(p, pid)
    prof = prof or assert(p:stop())
    p:close()
    assert.equal(0, status, ended)
    found, most = profiling.under(prof, "wait_for_writer"), (taken or tonumber(ended)) - time_of(thread) - SPUN + MARGIN
    text = ("%d %d %d\n"):format(least, tonumber(found), most) .. profiling.text(prof)
  end)
  return found, least, most, text
end

local function check(found, least, most, text)
  assert.is_true(found >= least / 2, text) -- the CPU time was last updated a little before the program read it
  assert.is_true(found <= most, text)
end

local function spin_seen(_, active)
  assert(kit.poke_map(active, "\1\0\0\0"))
  kit.spin(SPUN)
end

describe("the time off the CPU of a thread whose return was not seen", function()
  it("is known when the thread leaves its CPU again", function()
    check(profile_unseen(function(...)
      spin_seen(...)
      kit.sleeps(1)
    end, nothing, nothing))
  end)

  it("is known when the thread ends", function() check(profile_unseen(spin_seen, nothing, nothing)) end)

  it("is known while the thread runs", function()
    check(profile_unseen(function(dir)
      kit.spin(SPUN)
      util.write_file(dir .. "/spun", "")
      repeat until io.open(dir .. "/seen")
    end, function(p, dir)
      repeat core.watch({}, 0.01) until io.open(dir .. "/spun")
      local prof = assert(p:snapshot())
      local taken = clock()
      util.write_file(dir .. "/seen", "")
      return prof, taken
    end, nothing))
  end)

  it("does not go on after an end that was not seen either, not even if another thread gets its number", function()
    local found, _, most, text = profile_unseen(function() kit.spin(SPUN) end, nothing, function(p, pid)
      for _ = 1, 500 do
        if not left(p) then break end
        core.watch({}, 0.1)
      end
      p.sampler.obj:set_global("active", 1)
      local other = kit.split(true, pid) -- nil if the kernel lets nobody choose the number, or another process has it
      if other == 0 then kit.exit(0) end
      if other then kit.reap(other) end
    end)
    assert.is_true(found <= most, text)
  end)
end)
