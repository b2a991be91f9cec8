-- The story: memory ran out while finished spans were taken out of the tracer's queue: those taken so far were lost, the queue
-- still counted them, and every later flush raised "attempt to index a boolean value".
local queue = require "perf.exporter.queue"

describe("the queue of spans", function()
  it("keeps the spans that could not be taken out", function()
    local q, got = queue.new(5), {}
    for i = 1, 3 do q:push(i) end
    q:take(2, got)
    for i = 4, 6 do q:push(i) end
    local full = setmetatable({}, { __newindex = function(t, i, v)
      if i == 3 then error "not enough memory" end
      rawset(t, i, v)
    end })
    assert.is_false(pcall(q.take, q, 4, full))
    assert.equal(3, q:peek())
    assert.equal(4, q:take(9, got))
    assert.same({ 3, 4, 5, 6 }, got)
    assert.is_nil(q:peek())
  end)
end)
