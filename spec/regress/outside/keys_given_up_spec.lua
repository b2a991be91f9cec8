-- The story: the keys of stacks, by which the kernel counts samples, were never given up, nor those of objects. After 8,192
-- stacks, each sample of another one went through the ring, as long as luaperf top ran beside a server that loads code or
-- makes processes. Later they were given up, but not where a seccomp filter refused membarrier(2): with it the profiler waited
-- until no sample was being taken that could have an old key.
-- Later: it needs thousands of stacks.
local core = require "perf.core"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local event = "syscalls:sys_enter_getppid"
local load = rawget(_G, "loadstring") or load
local STACKS = 8192 -- PF_SNAPSHOT_STACKS

-- The number of keys that the kernel counts at present, and whether one of them has many samples.
local function counted(p)
  local keys, busy = 0, false
  for _, value in p.sampler.obj:map "stacks":pairs() do
    keys = keys + 1
    busy = busy or value:byte(1) + 256 * value:byte(2) + 65536 * value:byte(3) >= 1000
  end
  return keys, busy
end

it("a profile of another process gives up the keys of functions that are not used any more", function()
  outside.requires { tracepoint = event }
  local child = assert(kit.start(function()
    local text = "local syscalls = ... return function(n) for _ = 1, n do syscalls(1) end return n end"
    for i = 1, 2 * STACKS do assert(load(text, "=old" .. i))(kit.syscalls)(1) end
    local hot = assert(load(text, "=hot"))(kit.syscalls)
    while true do hot(100) end
  end))
  local p = assert(perf.profiler { pid = child:pid(), event = event })
  assert(p:start())
  child:go()
  local keys, busy, polls = 0, false, 0
  while not busy and polls < 300 do
    core.watch({}, 0.1) -- the child needs a CPU
    keys, busy = counted(p)
    polls = polls + 1
  end
  child:close()
  local prof = assert(p:stop())
  p:close()
  assert.is_true(busy, keys)
  local a = prof.accounting
  assert.equal(a.samples, a.resolved + a.labelled + a.dropped)
  assert.equal(tonumber(prof.total), profiling.sum(prof))
end)
