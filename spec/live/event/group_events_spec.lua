-- Iterating over the Events of a Group.
local perf = require "perf"

describe("the Events of a Group", function()
  it("are given in order, on every Lua", function()
    requires { perf_open = "user" }
    local g = assert(perf.group "dummy,page-faults:u")
    local seen = {}
    for i, ev in g:each() do seen[i] = ev:label() end
    assert.same({ "dummy", "page-faults:u" }, seen)
    g:close()
    assert.error_matches(function() local c = g:read() return c end, "read.*Group is closed")
  end)
end)
