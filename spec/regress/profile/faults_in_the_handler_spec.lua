-- The story: the signal's handler unwinds by loads that may fault. Such a fault is a page fault, so a profile of page faults got
-- a signal for it, while its handler ran and the signal was blocked. Linux began the handler again all the same, before that of
-- SIGSEGV, which then saw a fault that seemed to come from the profiler's handler, and ended the process.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

describe("a profile of page faults", function()
  it("survives page faults of its own handler, and does not count them", function()
    requires { perf_open = true, registers = true }
    local at = kit.region "guarded"
    local line
    local prof = perf.profile({ event = "page-faults", period = 1 }, function()
      line = profiling.next_line()
      kit.touch_below(500, at)
      return 1
    end)
    profiling.check(assert, prof, 500, line)
  end)
end)
