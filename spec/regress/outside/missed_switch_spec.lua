-- The story: a kernel hid the switches of some threads from all tracers. When such a thread left a CPU to a thread of the
-- profiled process, the profiler from outside did not see that this one had returned, and the time that it had been off the CPU
-- was lost. If the ring was full and the thread ended, this time was counted until another thread with the same number began.
-- Twice: C counts the time, whatever the process runs.
local core = require "perf.core"
local host = require "perf.kernel.host"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local SPUN = 5e7 -- ns

local function clock() return tonumber(kit.clock_ns()) end

-- Waits until the named pipe has a writer.
local function wait_for_writer(path) io.open(path):close() end

-- Returns the entry of the only thread that is off its CPU, as the bytes in the BPF program's map; nil if the map is empty.
local function left(p)
  local found
  for _, thread in p.sampler.obj:map "switches":pairs() do found = thread end
  return found
end

-- Profile a child that waits. The BPF program is off when the child returns to its CPU. The child turns it on again, uses CPU
-- time, and calls `last`.
local function profile_unseen(last)
  outside.requires { tracepoint = "sched:sched_switch" }
  local found, least, most, text
  util.with_directory(function(dir)
    local fifo = dir .. "/fifo"
    util.execute("mkfifo " .. fifo)
    local other = assert(kit.start(function() end))
    finally(function() other:close() end)
    local p = assert(perf.profiler { pid = other:pid(), event = "context-switches" })
    local variables = p.sampler.obj:map ".bss":fd() -- it has only "active"
    local child = assert(kit.start(function() -- it begins after p is made, so that it has this descriptor
      local from = clock()
      wait_for_writer(fifo)
      assert(kit.poke_map(variables, "\1\0\0\0"))
      kit.spin(SPUN)
      last()
      -- SPUN / 2 is a margin for time that the kernel counts neither as CPU time nor as time off the CPU.
      return ("%d"):format(clock() - from - SPUN / 2)
    end))
    assert(p.sampler.collector:attach(child:pid()))
    assert(p:start())
    child:go()
    local thread
    repeat thread = left(p) until thread and host.status(child:pid()).State:find "^S" and left(p) == thread
    local asleep = clock()
    p.sampler.obj:set_global("active", 0)
    core.watch({}, 0.01)
    least = clock() - asleep
    io.open(fifo, "w"):close()
    local status, result = child:wait()
    local prof = assert(p:stop())
    p:close()
    assert.equal(0, status, result)
    found, most = profiling.under(prof, "wait_for_writer"), tonumber(result)
    text = ("%d %d %d\n"):format(least, tonumber(found), most) .. profiling.text(prof)
  end)
  assert.is_true(found >= least / 2, text) -- the CPU time was last updated a little before the program read it
  assert.is_true(found <= most, text)
end

describe("the time off the CPU of a thread whose return was not seen", function()
  it("is known when the thread leaves its CPU again", function()
    profile_unseen(function() kit.sleeps(1) end)
  end)

  it("is known when the thread ends", function()
    profile_unseen(function() end)
  end)
end)
