-- The story: on LuaJIT an event that was closed within a loop over its records was a mistake in a line of the library's, in a
-- method that the program had not called.
local kit = require "testkit"
local perf = require "perf"

describe("an event that is closed in the loop over its records", function()
  it("is a mistake of the loop's line", function()
    local ev = assert(perf.open { event = "page-faults", sample_period = 1, sample_type = { "ip" }, disabled = true })
    assert(ev:map { pages = 1 })
    ev:enable()
    kit.touch_pages(10)
    ev:disable()
    local ok, message = pcall(function()
      for _ in ev:each("sample", "ip") do ev:close() end
    end)
    assert.is_false(ok)
    assert.matches("closed_in_a_loop_spec.lua:%d+: .*Event is closed", message)
    assert.is_nil(message:find("read_record", 1, true), message)
  end)
end)
