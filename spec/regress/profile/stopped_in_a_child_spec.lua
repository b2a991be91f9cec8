-- The story: the child of a fork stopped two profilers of its parent, and gave SIGTRAP back twice. The second time, the library
-- concluded that the program had installed a handler over its own, and from then on it never replaced a handler of the program.
-- So the child's own profilers took no samples, and their signals went to the program.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local SIGTRAP = 5

describe("a child that has stopped its parent's profilers", function()
  it("can profile although the program handles SIGTRAP", function()
    requires { perf_open = true, registers = true, paranoid = 2 }
    local first, second = assert(perf.profiler { event = "page-faults:u" }), assert(perf.profiler { event = "page-faults:u" })
    assert.is_true(first:start())
    assert.is_true(second:start())
    local said = util.in_child(function()
      first:stop()
      second:stop()
      kit.count_signals(SIGTRAP)
      local prof = assert(perf.profile({ event = "page-faults:u", period = 1 }, kit.touch_pages, 100))
      return (kit.count_signals(SIGTRAP, false)) .. " " .. tostring(profiling.under(prof, "testkit.touch_pages") >= 100)
    end)
    first:stop()
    second:stop()
    assert.equal("0 true", said)
  end)
end)
