-- perf.pool without descriptors left: luv makes an event loop for each thread before any of our code runs there, and where
-- that failed it ended the whole process. With a few left the thread could not load its modules, and perf.pool waited for half a
-- minute to say so. A pool that ran out of memory between two threads left the first one for good.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local function threads() return tonumber(util.read_file("/proc/self/status"):match "\nThreads:%s*(%d+)") end

describe("perf.pool", function()
  before_each(function() requires { perf_open = true, module = "luv" } end)

  it("says that descriptors have run out", function()
    assert.equal("fine", util.in_child(function()
      perf.pool({ size = 2, cpus = false, events = "page-faults:u" }):close()
      local soft = kit.rlimit "nofile"
      for free = 0, 9 do
        local taken, limit, left = kit.fds(), 0, free
        while left > 0 or taken[limit] do
          if not taken[limit] then left = left - 1 end
          limit = limit + 1
        end
        kit.rlimit("nofile", limit)
        local pool, message, code = perf.pool { size = 2, cpus = false, events = "page-faults:u" }
        kit.rlimit("nofile", soft)
        assert(pool == nil and code == "EMFILE" and message, tostring(code))
      end
      return "fine"
    end))
  end)

  it("leaves no thread when memory runs out", function()
    requires { nostress = true }
    assert.equal("fine", util.in_child(function()
      local jit = rawget(_G, "jit")
      if jit then
        jit.off()
        jit.flush()
      end
      local function use() perf.pool({ size = 2, cpus = false, events = false }):close() end
      local before = threads()
      use()
      local n = kit.fail_alloc(0, use)
      for place = 1, n do
        kit.fail_alloc(place, use)
        collectgarbage()
        collectgarbage()
        assert(util.eventually(function() return threads() == before end), place .. " of " .. n)
      end
      return "fine"
    end))
  end)
end)
