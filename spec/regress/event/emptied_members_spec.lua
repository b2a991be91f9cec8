-- The story: a Group points to the state of its leader, which is in the Event, and so has to keep the Event alive. It did so by
-- the array of its Events that group:members() returns. When the program took the leader out of that array, the Event was
-- collected, and the Group read freed memory: LuaJIT crashed.
local perf = require "perf"

describe("a group whose array of members was emptied", function()
  before_each(function() requires { perf_open = true } end)

  it("still has its events", function()
    local g = assert(perf.group { "page-faults" })
    g:members()[1] = nil
    collectgarbage()
    collectgarbage()
    assert.equal("page-faults", g:read()[1].label)
    assert.is_true(g:enable())
    assert.truthy(g:measure(function() end))
  end)
end)
