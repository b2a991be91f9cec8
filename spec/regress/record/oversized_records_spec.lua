-- The story: the records of a BPF program's load named no event, or a wrong one, while another process recorded all CPUs. The
-- kernel makes such a record larger for each further event that gets it, and leaves the added bytes as they were in the ring. The
-- fields of sample_id_all were read from there.
local bytes = require "spec.support.bytes"
local core = require "perf.core"
local kit = require "testkit"
local rings = require "spec.support.rings"

local T = {}
for _, row in ipairs(core.defs().record) do T[row.sym] = row.value end

local function bodies(o)
  return {
    [T.KSYMBOL] = o.u64 "0xffffffffc0000000" .. o.u32(20) .. o.u16(1) .. o.u16(0) .. o.text "bpf_prog_x",
    [T.BPF_EVENT] = o.u16(1) .. o.u16(0) .. o.u32(42) .. "\1\35\69\103\137\171\205\239",
    [T.TEXT_POKE] = o.u64(4096) .. o.u16(5) .. o.u16(3) .. "\15\31\68\0\0abc" .. ("\0"):rep(4),
  }
end

local TRAILER = { "tid", "time", "identifier" }

describe("a record that is larger than its content", function()
  after_each(rings.close_all)

  for _, order in ipairs { "native", "swapped" } do
    it("has its fields of sample_id_all after the body, " .. order, function()
      local o = bytes[order]
      local one, two = core.layouts(), core.layouts()
      one:add({ sample_type = TRAILER, sample_id_all = true }, { label = "only" })
      for i, sample_type in ipairs { { "identifier" }, TRAILER } do
        two:add({ sample_type = sample_type, sample_id_all = true }, { label = "event " .. i })
        two:bind(100 + i, i)
      end
      for type, body in pairs(bodies(o)) do
        for _, stale in ipairs { "", o.u64s(0, 0, 0), o.u64s(7, 8, 101, 9, 10, 101) } do
          local raw = o.record(type, 0, body, o.u32(71), o.u32(72), o.u64s(7300, 102), stale)
          for ls, label in pairs { [one] = "only", [two] = "event 2" } do
            local rec = assert(ls:record(raw, order == "swapped"))
            assert.equal(label, rec.event)
            assert.equal(72, rec.tid)
            assert.equal(7300, rec.time)
            assert.equal(102, rec.event_id)
            assert.equal(#raw, rec.size)
          end
        end
      end
    end)
  end

  it("names its event, of two that get it", function()
    requires { perf_open = "user", bpf = true, root = true }
    local attr = { event = "dummy", ksymbol = true, bpf_event = true, sample_id_all = true, disabled = true,
      sample_type = { "tid", "time", "identifier" } }
    local events = {}
    for i = 1, 2 do
      events[i] = rings.open(attr)
      assert(events[i]:enable())
    end
    assert(kit.can_bpf())
    for _, ev in ipairs(events) do
      assert(ev:disable())
      local n = 0
      for rec in ev:records() do
        assert.equal(ev:id(), rec.event_id)
        assert.equal(kit.gettid(), rec.tid)
        n = n + 1
      end
      assert.is_true(n >= 2)
    end
  end)
end)
