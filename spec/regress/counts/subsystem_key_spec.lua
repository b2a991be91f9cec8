-- The story: results of perf.bench and perf.compare took "irq" for the name of the tracepoint irq:entry without a modifier, and
-- so stats["irq"] was its row. Counts did not. Now both look names up by the same rule.
local counts = require "perf.counts"

describe("an entry's key", function()
  local function label_of(key, ...)
    local list = {}
    for i, label in ipairs { ... } do list[i] = { label = label } end
    local found = counts.find(list, key)
    return found and found.label
  end

  it("may lack the modifier, but not the name of a tracepoint", function()
    assert.equal("cycles:u", label_of("cycles", "irq:entry", "cycles:u"))
    assert.equal("cpu/event=1/k", label_of("cpu/event=1/", "cpu/event=1/k"))
    assert.equal("irq:entry", label_of("irq:entry", "irq:entry"))
    assert.is_nil(label_of("irq", "irq:entry"))
  end)

  it("without the modifier must be unambiguous", function()
    assert.is_nil(label_of("cycles", "cycles:u", "cycles:k"))
    assert.equal("cycles", label_of("cycles", "cycles:u", "cycles"))
  end)
end)
