-- Ends of profiled programs: one of each kind of spec/soak/ending.lua, with more or fewer finalizers. `make ends` runs 1,000.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local ends = require "spec.soak.ends"

describe("a profiled program", function()
  before_each(function() requires { perf_open = "user" } end)

  it("ends as it would without a profiler, and its profile is written", function()
    assert.same({}, ends.run_all(1, ends.kinds))
  end)
end)
