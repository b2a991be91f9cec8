-- The story: a kernel before Linux 5.13 cannot send SIGTRAP by the event itself, so the profiler lets the descriptor send it
-- (F_SETSIG). The handler recognized such a signal by si_code POLL_IN; since Linux 4.17 the code is SI_SIGIO, because SIGTRAP has
-- codes of its own. So the signal was taken for a foreign one and passed on, to the default action: the first sample ended the
-- process.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

describe("a profiler without the kernel's sigtrap", function()
  it("handles the signals of its descriptor", function()
    requires { perf_open = true, paranoid = 2 }
    local said = util.in_child(function()
      core.fault("perf_event_open", "EINVAL", 0) -- such a kernel's answer for attr.sigtrap
      local p = assert(perf.profiler { event = "page-faults:u", period = 1 })
      core.fault()
      assert(p:start())
      for _ = 1, 50 do kit.touch_pages(1) end
      local prof = assert(p:stop())
      assert(prof.total >= 50, prof.total)
      return "done"
    end)
    assert.equal("done", said)
  end)
end)
