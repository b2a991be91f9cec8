local kit = require "testkit"
local perf = require "perf"

local function in_order(records)
  for i = 2, #records do assert.is_true(records[i - 1].time <= records[i].time) end
end

describe("the records of a group", function()
  it("come from all members, in time order, each with its event", function()
    local g = assert(perf.group {
      { event = "page-faults", sample_period = 1, sample_type = { "tid", "addr" } },
      { event = "context-switches", sample_period = 1 },
    })
    assert(g:map { pages = 16 })
    g:enable()
    for _ = 1, 5 do
      kit.touch_pages(3)
      kit.sleeps(1)
    end
    g:disable()
    local list, seen = {}, {}
    for rec in g:records() do
      assert.equal("sample", rec.type)
      list[#list + 1] = rec
      seen[rec.event] = (seen[rec.event] or 0) + 1
    end
    in_order(list)
    assert.equal(5, seen["context-switches"])
    assert.is_true(seen["page-faults"] >= 15)
    assert.is_false(g:has_record())
    local rec, message, code = g:read_record(0)
    assert.is_nil(rec)
    assert.equal("ETIMEDOUT", code, message)
    g:close()
  end)
end)

describe("the records of a set", function()
  it("come from all CPUs, in time order", function()
    requires { ncpu = 2 }
    local s = assert(perf.set({ event = "page-faults", sample_period = 1, sample_type = { "tid", "cpu" } },
      { pid = kit.getpid(), deferred_enable = true }))
    assert(s:map { pages = 64 })
    s:enable()
    for cpu = 0, 1 do
      kit.pin(cpu)
      kit.touch_pages(100)
    end
    kit.unpin()
    s:disable()
    local list, by_cpu = {}, { [0] = 0, [1] = 0 }
    for rec in s:records() do
      list[#list + 1] = rec
      by_cpu[rec.cpu] = by_cpu[rec.cpu] + 1
    end
    in_order(list)
    assert.is_true(by_cpu[0] >= 100 and by_cpu[1] >= 100)
    assert.equal(s:read().value, #list)
    s:close()
  end)
end)
