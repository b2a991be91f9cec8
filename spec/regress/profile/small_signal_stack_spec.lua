-- The story: the signal handler runs on the thread's alternate stack, and the library used the program's, however small. Threads
-- of Rust have 8 KB, as has each program that uses SIGSTKSZ. Unwinding compiled code takes more, and the kernel's saved registers
-- take 3 KB: the handler overran the stack, and the program ended by SIGSEGV.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local SMALL = 8192

describe("a profiler in a thread with a small alternate stack", function()
  it("uses a larger one, and restores the program's", function()
    requires { perf_open = true, paranoid = 2 }
    local said = util.in_child(function()
      kit.alternate_stack(SMALL)
      local prof = assert(perf.profile({ event = "page-faults:u", period = 1, native = true }, function()
        local keep = {}
        for i = 1, 5000 do keep[i % 1000 + 1] = { tostring(i), { i } } end
        kit.touch_pages(100)
        return #keep
      end))
      assert(prof.total >= 100, prof.total)
      return kit.alternate_stack(false)
    end)
    assert.equal(SMALL, math.floor(tonumber(said)))
  end)
end)
