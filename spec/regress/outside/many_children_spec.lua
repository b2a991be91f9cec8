-- The story: luaperf kept 200 KiB for each process that the profiled one had started, also for those that had ended, and grew by
-- 50 MB a second beside a program that runs commands. After 4,096 of them, it no longer found the Lua states of new ones.
-- Twice: processes are remembered by C and a BPF program, whatever they run.
local core = require "perf.core"
local outside = require "spec.support.outside"
local kit = require "testkit"
local perf = require "perf"

it("a profile of another process forgets its children that have ended", function()
  outside.requires()
  local child = assert(kit.start(function()
    while true do os.execute "exec true" end
  end))
  local p = assert(perf.profiler { pid = child:pid(), event = "page-faults", period = 50 })
  assert(p:start())
  child:go()
  local seen, all, known = {}, 0
  local map = p.sampler.obj:map "processes"
  repeat
    core.watch({}, 0.001) -- the child needs a CPU
    known = 0
    for process in map:pairs() do
      known = known + 1
      if not seen[process] then seen[process], all = true, all + 1 end
    end
  until all >= 200 and known < 150 or all >= 3000
  child:close()
  assert(p:stop())
  p:close()
  assert.is_true(known < 150, known)
end)
