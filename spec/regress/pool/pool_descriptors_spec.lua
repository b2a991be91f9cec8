-- The story: perf.pool without descriptors left. Its threads were luv's, which made an event loop for each thread before any of
-- our code ran there; if that failed, it ended the whole process. With a few descriptors left the thread could not load its
-- modules, and perf.pool waited for half a minute before it reported that. A pool that ran out of memory between two threads left
-- the first one behind for good. Twice: C makes the threads.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

describe("perf.pool", function()
  before_each(function() requires { perf_open = "user" } end)

  it("says that descriptors have run out", function()
    assert.equal("fine", util.in_child(function()
      perf.pool({ size = 2, cpus = false, events = "page-faults:u" }):close()
      local soft = kit.rlimit "nofile"
      local opened = 0
      for free = 0, 19 do
        local taken, limit, left = kit.fds(), 0, free
        while left > 0 or taken[limit] do
          if not taken[limit] then left = left - 1 end
          limit = limit + 1
        end
        kit.rlimit("nofile", limit)
        local pool, message, code = perf.pool { size = 2, cpus = false, events = "page-faults:u" }
        kit.rlimit("nofile", soft)
        if pool then
          opened = opened + 1
          assert(pool:submit(function(n) return n + 1 end, 1):get() == 2)
          pool:close()
        else
          assert(code == "EMFILE" and message, tostring(code))
        end
        assert(free > 0 or not pool)
      end
      assert(opened > 0)
      return "fine"
    end))
  end)

  -- The heap is collected twice for each place, so this runs in a new process, whose heap is small. In a child of this one it
  -- took more than a minute on a busy machine.
  it("leaves no thread when memory runs out", function()
    local script = [[
      local kit, perf, watch = require "testkit", require "perf", require "perf.core".watch
      if jit then jit.off() end
      local function use() perf.pool({size = 2, cpus = false, events = false}):close() end
      local before = kit.living_threads()
      use()
      local n = kit.fail_alloc(0, use)
      for place = 1, n do
        kit.fail_alloc(place, use)
        collectgarbage()
        collectgarbage()
        -- A thread that was refused memory before anything could wait for it ends by itself, a little later.
        for _ = 1, 1000 do
          if kit.living_threads() == before then break end
          watch({}, 0.01)
        end
        assert(kit.living_threads() == before, ("threads are left at place %d"):format(place))
      end
      print(n > 10)
    ]]
    assert.same({ "true\n", 0 }, { util.shell(("%s -e '%s'"):format(util.lua(), script)) })
  end)
end)
