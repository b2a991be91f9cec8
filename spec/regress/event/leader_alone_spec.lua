-- A Group had its own note of whether it was enabled, and its own copy of its leader's descriptor. What the program did with the
-- leader by itself was not known to the Group: after leader:disable() a measurement counted nothing, and after leader:close() the
-- Group read whatever file had got the number of the descriptor since.
local perf = require "perf"

local function work()
  for _ = 1, 100 do os.time() end
end

describe("the leader of a group, used by itself", function()
  before_each(function() requires { perf_open = true } end)

  it("is enabled again by a measurement of the group", function()
    local g = assert(perf.group { "task-clock", "cpu-clock" })
    g:measure(work)
    assert.truthy(g[1]:disable())
    local counts = g:measure(work)
    assert.truthy(counts["task-clock"] > 0)
    assert.is_false(g[1]:is_off())
    g:close()
  end)

  it("closes the group when it is closed", function()
    local g = assert(perf.group { "task-clock", "cpu-clock" })
    g:measure(work)
    g[1]:close()
    local file = assert(io.open("/dev/zero")) -- most likely it gets that number
    assert.error_matches(function() g:measure(work) end, "Group is closed, or a member of it")
    file:close()
    g:close()
  end)
end)
