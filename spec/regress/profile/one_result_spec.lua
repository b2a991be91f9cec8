-- The story: the methods of a profiler and of a heap returned nil for a message and a code beside their result. So
-- `print(p:stop())`, as in the pages, ended with "nil nil".
local perf = require "perf"

local function count(...)
  assert(...)
  return select("#", ...)
end

it("the methods of a profiler return one value if they succeed", function()
  requires { registers = true }
  for event, method in pairs { alloc = "snapshot", heap = "live" } do
    local p = assert(perf.profiler { event = event, period = 1 })
    local counts = { count(p:start()), count(p[method](p)), count(p:stop()) }
    p:close()
    assert.same({ 1, 1, 1 }, counts)
  end
end)

it("heap:wait returns one value if it succeeds", function()
  requires { registers = true }
  local h = assert(perf.heap { fork = true })
  assert.equal(1, count(h:wait()))
  h:close()
end)
