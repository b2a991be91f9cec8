-- The story: if the event counts the system calls by which the signal handler asks whether its loads may fault, the handler did
-- not ask, and loaded anyway. A program that had installed its own handler of SIGSEGV during an earlier profile got the faults of
-- those loads.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

describe("a profile of the system calls that the signal handler makes", function()
  it("causes no fault in the program's handler of SIGSEGV", function()
    requires { perf_open = true, registers = true, root = true, tracefs = true }
    local said = util.in_child(function()
      local at = kit.region "guarded"
      local first = assert(perf.profiler { event = "page-faults:u" })
      assert(first:start())
      kit.handle_faults()
      first:stop()
      local prof = assert(perf.profile({ event = "syscalls:sys_enter_rt_sigaction", period = 1 }, function()
        for _ = 1, 10 do kit.ask_below(at) end
      end))
      return ("%d %d"):format(prof.total, kit.send_fault())
    end)
    assert.equal("10 1", said)
  end)
end)
