-- The story: 0.2 % of a profile were at perf/base/argument.lua. Profiler:stop called it to check its object, before the event was
-- disabled. Only the functions of the profiler's own file are hidden.
local argument = require "perf.base.argument"
local perf = require "perf"

describe("the start and the stop of a profiler", function()
  it("call no function that the profile would show", function()
    requires { perf_open = "user" }
    local p = assert(perf.profiler { event = "page-faults:u" })
    local check, called = argument.check_object, 0
    argument.check_object = function(...)
      called = called + 1
      return check(...)
    end
    local started, prof = p:start(), p:stop()
    argument.check_object = check
    assert.is_true(started)
    assert.is_truthy(prof)
    assert.equal(0, called)
    assert.matches("Profiler expected, got table", select(2, pcall(p.stop, {})), 1, true)
  end)
end)
