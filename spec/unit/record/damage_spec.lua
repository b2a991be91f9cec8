-- Bytes that no kernel writes, as records: refused with "EBADMSG", whatever is wrong with them.
local bytes = require "spec.support.bytes"
local core = require "perf.core"

local b = bytes.native
local SAMPLE = 9
local T = {}
for _, row in ipairs(core.defs().record) do T[row.sym] = row.value end

local function layouts(attr)
  local ls = core.layouts()
  ls:add(attr, { label = "dummy", attr = attr })
  return ls
end
local plain = layouts { sample_type = { "ip" } }
local full = layouts { sample_type = { "tid", "time", "id", "stream_id", "cpu", "identifier" }, sample_id_all = true,
  read_format = { "total_time_enabled", "id", "lost" } }

-- A sample of that attr is refused.
local function bad_sample(attr, ...)
  local rec, message, code = layouts(attr):record(b.record(SAMPLE, 0, ...))
  assert.is_nil(rec)
  assert.is_string(message)
  assert.equal("EBADMSG", code)
end

describe("bytes that no kernel writes", function()
  local function bad(raw, ls)
    local rec, message, code = (ls or plain):record(raw)
    assert.is_nil(rec)
    assert.is_string(message)
    assert.equal("EBADMSG", code)
  end

  it("are refused if the header is wrong", function()
    bad ""
    bad "1234567"
    bad(b.header(T.SWITCH, 0, 0))
    bad(b.header(T.SWITCH, 0, 16))
    bad(b.header(T.SWITCH, 0, 7) .. "x")
    bad(b.record(T.ITRACE_START, 0, b.u32(1), b.u32(2), "x"))
    bad(("x"):rep(65536))
    bad(("x"):rep(100000))
    bad(b.record(T.SWITCH, 0), core.layouts())
  end)

  it("are refused at every length that is too short", function()
    local bodies = {
      MMAP = b.u32(1) .. b.u32(1) .. b.u64s(1, 2, 3) .. b.text "name",
      MMAP2 = b.u32(1) .. b.u32(1) .. b.u64s(1, 2, 3, 4, 5, 6, 7) .. b.text "name",
      LOST = b.u64s(1, 2),
      COMM = b.u32(1) .. b.u32(1) .. b.text "name",
      EXIT = b.u64s(1, 2, 3),
      FORK = b.u64s(1, 2, 3),
      THROTTLE = b.u64s(1, 2, 3),
      UNTHROTTLE = b.u64s(1, 2, 3),
      READ = b.u64s(1, 2),
      AUX = b.u64s(1, 2, 3),
      ITRACE_START = b.u64s(1),
      LOST_SAMPLES = b.u64s(1),
      SWITCH_CPU_WIDE = b.u64s(1),
      NAMESPACES = b.u64s(1, 2, 3, 4, 5, 6),
      KSYMBOL = b.u64s(1, 2) .. b.text "name",
      BPF_EVENT = b.u64s(1, 2),
      CGROUP = b.u64s(1) .. b.text "name",
      TEXT_POKE = b.u64(1) .. b.u16(3) .. b.u16(9) .. ("x"):rep(12),
      AUX_OUTPUT_HW_ID = b.u64s(1),
      CALLCHAIN_DEFERRED = b.u64s(1, 2, 3, 4),
    }
    for sym in pairs(T) do
      local body = bodies[sym]
      if sym ~= "SAMPLE" and sym ~= "SWITCH" then
        assert.is_truthy(plain:record(b.record(T[sym], 0, body)), sym)
        for n = 0, #body - 1 do bad(b.record(T[sym], 0, body:sub(1, n))) end
        -- With sample_id_all the last bytes belong to it: the same bytes are too few.
        bad(b.record(T[sym], 0, body), full)
      end
    end
    for n = 0, 47 do bad(b.record(T.SWITCH, 0, ("x"):rep(n)), full) end
  end)

  it("are refused if an inner length does not fit", function()
    for _, n in ipairs { 2, 3, "0x1fffffffffffffff", "0x8000000000000000", "0xffffffffffffffff" } do
      bad(b.record(T.NAMESPACES, 0, b.u64s(1), b.u64(n), b.u64s(1, 2)))
      bad(b.record(T.CALLCHAIN_DEFERRED, 0, b.u64s(1), b.u64(n), b.u64s(1)))
    end
    bad(b.record(T.TEXT_POKE, 0, b.u64(1), b.u16(4), b.u16(1), "abcd"))
    bad(b.record(T.TEXT_POKE, 0, b.u64(1), b.u16(5), b.u16(0), "abcd"))
    bad(b.record(T.TEXT_POKE, 0, b.u64(1), b.u16(65535), b.u16(65535), "abcd"))
  end)

  it("are refused if a string has no end", function()
    bad(b.record(T.COMM, 0, b.u64(1), "12345678"))
    bad(b.record(T.CGROUP, 0, b.u64(1), "12345678"))
    bad(b.record(T.KSYMBOL, 0, b.u64s(1, 2), "12345678"))
    -- The zero that follows is sample_id_all's.
    bad(b.record(T.COMM, 0, b.u64(1), "12345678", ("\0"):rep(48)), full)
  end)
end)

describe("a damaged sample is refused", function()
  local huge = { 3, 100, "0x2000000000000000", "0x7fffffffffffffff", "0xffffffffffffffff", "0x1555555555555556" }

  it("if its callchain, branches, stack or aux have more bytes than the sample", function()
    for _, n in ipairs(huge) do
      bad_sample({ sample_type = { "callchain" } }, b.u64(n), b.u64s(1, 2))
      bad_sample({ sample_type = { "branch_stack" } }, b.u64(n), b.u64s(1, 2, 3))
      bad_sample({ sample_type = { "branch_stack" }, branch_sample_type = { "any", "hw_index", "counters" } }, b.u64(n),
        b.u64s(1, 2, 3))
      bad_sample({ sample_type = { "read" }, read_format = { "group" } }, b.u64(n), b.u64s(1, 2))
      bad_sample({ sample_type = { "read" }, read_format = { "group", "id", "lost" } }, b.u64(n), b.u64s(1, 2))
      bad_sample({ sample_type = { "stack_user" } }, b.u64(n), b.u64s(1, 2))
    end
    for _, n in ipairs { 17, "0xffffffffffffffff" } do bad_sample({ sample_type = { "aux" } }, b.u64(n), b.u64s(1, 2)) end
    bad_sample({ sample_type = { "read" }, read_format = { "group", "id", "lost" } }, b.u64s(2, 1, 1, 1, 2, 2))
  end)

  it("if its raw bytes have a size that no kernel writes", function()
    for _, n in ipairs { 0, 5, 8, 20, "0xfffffffc", "0xffffffff" } do bad_sample({ sample_type = { "raw" } }, b.u32(n),
      ("x"):rep(12)) end
  end)

  it("if its stack has a dynamic size beyond its size, or an unaligned size", function()
    bad_sample({ sample_type = { "stack_user" } }, b.u64(8), "12345678", b.u64(9))
    bad_sample({ sample_type = { "stack_user" } }, b.u64(4), "1234", "5678", b.u64(0))
    bad_sample({ sample_type = { "stack_user" } }, b.u64(8), "12345678", b.u64 "0x10000")
  end)

  it("if its registers are of an unknown kind", function()
    for _, abi in ipairs { 3, 4, "0xffffffffffffffff" } do
      bad_sample({ sample_type = { "regs_user" }, sample_regs_user = 1 }, b.u64(abi), b.u64s(1, 2, 3))
      bad_sample({ sample_type = { "regs_intr" }, sample_regs_intr = 1 }, b.u64(abi), b.u64s(1, 2, 3))
    end
  end)

  it("and shows nothing of the previous sample", function()
    local ls = layouts { sample_type = { "ip" } }
    assert.equal(5, ls:record(b.record(SAMPLE, 0, b.u64(5))).ip)
    assert.is_nil(ls:record(b.record(SAMPLE, 0)))
  end)
end)
