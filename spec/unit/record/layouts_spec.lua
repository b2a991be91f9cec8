-- Layouts: the records of several events, distinguished by their ids.
local bytes = require "spec.support.bytes"
local core = require "perf.core"

local b = bytes.native
local T = {}
for _, row in ipairs(core.defs().record) do T[row.sym] = row.value end

describe("the event that wrote a record", function()
  local function table_of(specs)
    local ls = core.layouts()
    for i, spec in ipairs(specs) do
      assert.equal(i, ls:add(spec, { label = "event " .. i }))
      assert.is_true(ls:bind(100 + i, i))
    end
    return ls
  end

  it("is found by the identifier", function()
    local ls = table_of {
      { sample_type = { "identifier", "ip" }, sample_id_all = true },
      { sample_type = { "identifier", "tid", "time" }, sample_id_all = true },
    }
    local rec = ls:record(b.record(T.SAMPLE, 0, b.u64s(101, 0x1234)))
    assert.equal("event 1", rec.event)
    assert.equal(0x1234, rec.ip)
    rec = ls:record(b.record(T.SAMPLE, 0, b.u64(102), b.u32(5), b.u32(6), b.u64(7)))
    assert.equal("event 2", rec.event)
    assert.equal(6, rec.tid)
    assert.equal(102, rec.id)
    rec = ls:record(b.record(T.LOST, 0, b.u64s(102, 9), b.u32(5), b.u32(6), b.u64s(7, 102)))
    assert.equal("event 2", rec.event)
    assert.equal(7, rec.time)
    rec = ls:record(b.record(T.LOST, 0, b.u64s(102, 9), b.u64(101)))
    assert.equal("event 1", rec.event)
    assert.is_nil(rec.time)
    -- Ids are found after many more were bound, and the latest binding counts.
    for i = 1, 1000 do ls:bind(1000 + i, 2) end
    for i = 1, 1000, 2 do ls:bind(1000 + i, 1) end
    assert.equal("event 2", ls:record(b.record(T.SAMPLE, 0, b.u64(2000), b.u64(1), b.u64(7))).event)
    assert.equal("event 1", ls:record(b.record(T.SAMPLE, 0, b.u64(1999), b.u64(1))).event)
  end)

  it("is found by id if all events have it at the same position", function()
    local ls = table_of {
      { sample_type = { "ip", "id", "cpu" }, sample_id_all = true },
      { sample_type = { "ip", "id", "cpu", "period" }, sample_id_all = true },
    }
    assert.equal(55, ls:record(b.record(T.SAMPLE, 0, b.u64s(1, 102, 3, 55))).period)
    assert.equal("event 1", ls:record(b.record(T.SAMPLE, 0, b.u64s(1, 101, 3))).event)
    assert.equal("event 2", ls:record(b.record(T.SWITCH, 0, b.u64s(102, 3))).event)
  end)

  it("is the first one for an unbound id, as in records made by a tool", function()
    local ls = table_of {
      { sample_type = { "identifier", "ip" }, sample_id_all = true },
      { sample_type = { "identifier", "tid" }, sample_id_all = true },
    }
    assert.equal("event 1", ls:record(b.record(T.COMM, 0, b.u64(1), b.text "x", b.u64(0))).event)
  end)

  it("cannot be found if layouts differ and have no common position for the id", function()
    local ls = table_of { { sample_type = { "ip" } }, { sample_type = { "ip", "tid" } } }
    local _, _, code = ls:record(b.record(T.SAMPLE, 0, b.u64s(1, 2)))
    assert.equal("EBADMSG", code)
    assert.equal("x", ls:record(b.record(T.COMM, 0, b.u64(1), b.text "x")).comm)
  end)
end)
