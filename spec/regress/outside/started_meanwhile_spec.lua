-- The story: a child or a thread that a process started after luaperf had listed its threads, and before the events were open,
-- was missed by the profile. Twice: the kernel lists threads and children, whatever they run.
local host = require "perf.kernel.host"
local outside = require "spec.support.outside"
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

it("a child that starts while the events are opened is profiled once", function()
  outside.requires()
  local fifo = os.tmpname()
  os.remove(fifo)
  assert(util.shell("mkfifo " .. fifo) == "")
  local function in_child()
    io.open(fifo, "r"):close() -- until the profile has started
    kit.touch_pages(300)
  end
  local child = assert(kit.start(function() assert(kit.fork(in_child) == 0) end))
  local list = host.with_descendants
  finally(function()
    host.with_descendants = list
    os.remove(fifo)
  end)
  local listed = 0
  function host.with_descendants(pids)
    local found = list(pids)
    listed = listed + 1
    if listed == 1 then
      child:go()
      repeat until #list(pids) > #found -- the child has started after its parent was listed
    end
    return found
  end
  local p = assert(perf.profiler { pid = child:pid(), event = "page-faults", period = 1 })
  assert(p:start())
  io.open(fifo, "w"):close()
  child:wait()
  local prof = assert(p:stop())
  p:close()
  local n = profiling.under(prof, "testkit.touch_pages", "in_child")
  assert.is_true(n >= 300 and n < 600, profiling.text(prof)) -- twice as many, if its events were opened twice
end)
