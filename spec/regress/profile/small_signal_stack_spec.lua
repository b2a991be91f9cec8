-- The story: the signal handler runs on the thread's alternate stack, and the library used the program's, however small. Threads
-- of Rust have 8 KB, as has each program that uses SIGSTKSZ. Unwinding compiled code takes more, and the kernel's saved registers
-- take 3 KB: the handler overran the stack, and the program ended by SIGSEGV. So it did later, if the program set its small stack
-- while the profiler was running. So did the learner of PUC Lua's unwinder, whose handler unwinds at each machine instruction of
-- a probe, before the first profile of a process.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local SMALL = util.small_stack()

local function work()
  local keep = {}
  for i = 1, 5000 do keep[i % 1000 + 1] = { tostring(i), { i } } end
  kit.touch_pages(100)
  return #keep
end

describe("a profiler in a thread with a small alternate stack", function()
  it("uses a larger one, and restores the program's", function()
    requires { perf_open = true, paranoid = 2 }
    local said = util.in_child(function()
      kit.alternate_stack(SMALL)
      local prof = assert(perf.profile({ event = "page-faults:u", period = 1, native = true }, work))
      assert(prof.total >= 100, prof.total)
      return kit.alternate_stack(false)
    end)
    assert.equal(SMALL, math.floor(tonumber(said)))
  end)

  it("uses a larger one from the first sample after the program has set its own", function()
    requires { perf_open = true, paranoid = 2 }
    local said = util.in_child(function()
      local rounds = 0
      local prof = assert(perf.profile({ event = "page-faults:u", period = 1, native = true }, function()
        for _, size in ipairs { SMALL, 2 * SMALL, SMALL } do
          kit.alternate_stack(size)
          work()
          rounds = rounds + 1
        end
      end))
      local sum = 0
      for _, s in ipairs(prof:samples()) do sum = sum + s.weight end
      assert(prof.total >= 300 and sum == prof.total, prof.total)
      return ("%d %d"):format(rounds, kit.alternate_stack(false))
    end)
    assert.equal(("3 %d"):format(SMALL), said)
  end)

  -- While a handler of the program runs on such a stack, the kernel says that the thread has none.
  it("does not use up one with SS_AUTODISARM on which the program's handler runs", function()
    requires { perf_open = true, paranoid = 2 }
    assert.equal(("true %d"):format(2 * SMALL), (util.in_child(function()
      local prof = assert(perf.profile({ event = "page-faults:u", period = 1, native = true }, function()
        kit.touch_in_handler(100, 2 * SMALL) -- room for two signals
      end))
      return ("%s %d"):format(tostring(prof.total >= 100), kit.alternate_stack(false))
    end)))
  end)

  it("uses a larger one for the first profile of a process", function()
    requires { perf_open = true, paranoid = 2 }
    util.with_tmpname(function(path)
      util.write_file(path, ([[
        local kit = require "testkit"
        kit.alternate_stack(%d)
        local prof = assert(require "perf".profile({ event = "page-faults:u", period = 1 }, function() kit.touch_pages(100) end))
        io.write(tostring(prof.total >= 100), " ", kit.alternate_stack(false))
      ]]):format(SMALL))
      local said, status = util.shell(("%s %s"):format(util.lua(), path))
      assert.same({ 0, ("true %d"):format(SMALL) }, { status, said })
    end)
  end)
end)
