-- The story: a kernel hid from all tracers what some threads of the system did. When such a thread left its CPU, the profiler
-- from outside did not learn which thread had returned to it. So the time that this one had been off its CPU was lost. Or, if the
-- ring was full and the thread ended, the time went on until another thread with the same number began.
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

-- The only thread that the BPF program knows to be off its CPU, as the bytes of its map; nil if there is none.
local function left(p)
  local found
  for _, thread in p.sampler.obj:map "switches":pairs() do found = thread end
  return found
end

-- Profile a child that waits, and returns to its CPU unseen: only it lets the program see switches again. Then it uses CPU time,
-- and runs `last`.
local function profile_unseen(last)
  outside.requires { tracepoint = "sched:sched_switch" }
  local found, least, most, text
  util.with_directory(function(dir)
    local fifo = dir .. "/fifo"
    util.execute("mkfifo " .. fifo)
    local other = assert(kit.start(function() end))
    finally(function() other:close() end)
    local p = assert(perf.profiler { pid = other:pid(), event = "context-switches" })
    local variables = p.sampler.obj:map ".bss":fd() -- "active" is the only one
    local child = assert(kit.start(function() -- after p, so that it has this descriptor
      local from = clock()
      wait_for_writer(fifo)
      assert(kit.poke_map(variables, "\1\0\0\0"))
      kit.spin(SPUN)
      last()
      -- Half of the time is left for what the kernel counts neither as CPU time nor as time off the CPU.
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
  assert.is_true(found >= least / 2, text) -- the kernel counts CPU time up to a moment that is a little before the program's
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
