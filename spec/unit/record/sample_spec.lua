-- Samples from bytes: every bit of sample_type, in both byte orders, and every way in which one can be damaged.
local bytes = require "spec.support.bytes"
local core = require "perf.core"

local b = bytes.native
local SAMPLE = 9
local hex = core.hex

-- Registers have the names of x86-64 wherever the specs run, unless another machine is given.
local function layouts(attr, machine)
  local ls = core.layouts()
  ls:add(attr, { label = "x", attr = attr }, machine or "x86_64")
  return ls
end

-- A sample of that attr in both byte orders: make(o) gives the body, check looks at the Record.
local function both_ways(attr, make, check, machine)
  local ls = layouts(attr, machine)
  for _, order in ipairs { "native", "swapped" } do
    local o = bytes[order]
    local rec = assert(ls:record(o.record(SAMPLE, 0x4002, make(o)), order == "swapped"))
    assert.equal("sample", rec.type)
    assert.equal("user", rec.cpu_mode)
    assert.is_true(rec.exact_ip)
    assert.equal(8 + #make(o), rec.size)
    assert.is_string(tostring(rec))
    check(rec)
  end
end

local function bad(attr, ...)
  local rec, message, code = layouts(attr):record(b.record(SAMPLE, 0, ...))
  assert.is_nil(rec)
  assert.is_string(message)
  assert.equal("EBADMSG", code)
end

-- For every bit: an attr, the bytes, and the expected fields of the Record.
local bits = {}

bits.ip = { {}, function(o) return o.u64 "0xffffffff81000000" end, function(r)
  assert.equal("0xffffffff81000000", hex(r.ip))
end }
bits.tid = { {}, function(o) return o.u32(11) .. o.u32 "0xffffffff" end, function(r)
  assert.equal(11, r.pid)
  assert.equal(-1, r.tid)
end }
bits.time = { {}, function(o) return o.u64(123456789012) end, function(r) assert.equal(123456789012, r.time) end }
bits.addr = { {}, function(o) return o.u64(0x7fffdeadbeef) end, function(r) assert.equal(0x7fffdeadbeef, r.addr) end }
bits.id = { {}, function(o) return o.u64(77) end, function(r)
  assert.equal(77, r.id)
  assert.equal(77, r.event_id)
end }
bits.cpu = { {}, function(o) return o.u32(3) .. o.u32(0) end, function(r) assert.equal(3, r.cpu) end }
bits.period = { {}, function(o) return o.u64(1000) end, function(r) assert.equal(1000, r.period) end }
bits.stream_id = { {}, function(o) return o.u64(78) end, function(r) assert.equal(78, r.stream_id) end }
bits.identifier = { {}, function(o) return o.u64(79) end, function(r)
  assert.equal(79, r.id)
  assert.equal(79, r.event_id)
end }
bits.read = { { read_format = { "group", "total_time_enabled", "total_time_running", "id", "lost" } }, function(o)
  return o.u64s(2, 300, 200, 11, 1, 5, 12, 2, 6)
end, function(r)
  assert.same({ enabled_ns = 300, running_ns = 200, { value = 11, id = 1, lost = 5 }, { value = 12, id = 2, lost = 6 } },
    r.counts)
end }
bits.callchain = { {}, function(o)
  return o.u64s(6, "0xffffffffffffff80", "0xffffffff81000010", "0xfffffffffffffe00", 0x1000, 0x2000, 0x3000)
end, function(r)
  local chain = r.callchain
  assert.equal(4, #chain)
  assert.equal("0xffffffff81000010", hex(chain[1]))
  assert.same({ 0x1000, 0x2000, 0x3000 }, { chain[2], chain[3], chain[4] })
  assert.same({ { index = 1, context = "kernel" }, { index = 2, context = "user" } }, r.callchain_contexts)
end }
bits.raw = { {}, function(o) return o.u32(12) .. "abcdefghijkl" end, function(r) assert.equal("abcdefghijkl", r.raw) end }
bits.branch_stack = { { branch_sample_type = { "any" } }, function(o)
  local little = o.u32(1):byte(1) == 1
  -- mispred, abort, cycles 300, type call: bit fields have the opposite order in the other byte order.
  local flags = little and o.u64(1 + 8 + 300 * 16 + 4 * 2 ^ 20) or o.u64 "0x9012c40000000000"
  return o.u64(2) .. o.u64s(0x10, 0x20) .. flags .. o.u64s("0xffffffff81000000", 0x40, 0)
end, function(r)
  local stack = r.branch_stack
  assert.equal(2, #stack)
  assert.same({ from = 0x10, to = 0x20, mispred = true, predicted = false, in_tx = false, abort = true, cycles = 300,
    type = "call" },
    stack[1])
  assert.equal("0xffffffff81000000", hex(stack[2].from))
  assert.equal("unknown", stack[2].type)
  assert.is_nil(r.hw_idx)
end }
bits.regs_user = { { sample_regs_user = 0x103 }, function(o) return o.u64s(2, 1, 2, 0x7f0000001234) end, function(r)
  assert.same({ abi = 2, ax = 1, bx = 2, ip = 0x7f0000001234 }, r.user_regs)
end }
bits.stack_user = { { sample_stack_user = 16 }, function(o) return o.u64(16) .. "0123456789abcdef" .. o.u64(11) end, function(r)
  assert.equal("0123456789a", r.user_stack)
end }
bits.weight = { {}, function(o) return o.u64(12345) end, function(r)
  assert.equal(12345, r.weight)
  assert.is_nil(r.var1_dw)
end }
bits.weight_struct = { {}, function(o) return o.u64 "0x0003000200000001" end, function(r)
  assert.equal(1, r.var1_dw)
  assert.equal(2, r.var2_w)
  assert.equal(3, r.var3_w)
  assert.is_nil(r.weight)
end }
bits.data_src = { {}, function(o) return o.u64 "0x68100142" end, function(r)
  local d = r.data_src
  assert.same({ "load", load = true }, d.op)
  assert.same({ "hit", "l1", hit = true, l1 = true }, d.lvl)
  assert.same({ "none", none = true }, d.snoop)
  assert.same({ "hit", "l1", "l2", hit = true, l1 = true, l2 = true }, d.dtlb)
  assert.is_nil(d.lock)
  assert.is_false(d.remote)
  assert.equal(0x68100142, d.value)
end }
bits.transaction = { {}, function(o) return o.u64 "0x0000002a00000012" end, function(r)
  assert.same({ "transaction", "retry", transaction = true, retry = true, abort_code = 42, value = 0x2a00000012 },
    r.transaction)
end }
bits.regs_intr = { { sample_regs_intr = 0x300000080 }, function(o) return o.u64s(2, 7, 8, 9) end, function(r)
  assert.same({ abi = 2, sp = 7, xmm0 = 8, xmm0_high = 9 }, r.intr_regs)
end }
bits.phys_addr = { {}, function(o) return o.u64(0x123456000) end, function(r) assert.equal(0x123456000, r.phys_addr) end }
bits.aux = { { aux_sample_size = 16 }, function(o) return o.u64(8) .. "auxdata!" end, function(r)
  assert.equal("auxdata!", r.aux)
end }
bits.cgroup = { {}, function(o) return o.u64(99) end, function(r) assert.equal(99, r.cgroup) end }
bits.data_page_size = { {}, function(o) return o.u64(4096) end, function(r) assert.equal(4096, r.data_page_size) end }
bits.code_page_size = { {}, function(o) return o.u64(2097152) end, function(r) assert.equal(2097152, r.code_page_size) end }

-- The order in which the kernel writes them.
local order = { "identifier", "ip", "tid", "time", "addr", "id", "stream_id", "cpu", "period", "read", "callchain", "raw",
  "branch_stack", "regs_user", "stack_user", "weight", "weight_struct", "data_src", "transaction", "regs_intr", "phys_addr",
    "cgroup",
  "data_page_size", "code_page_size", "aux" }

-- An attr with the fields of several bits.
local function attr_of(names)
  local attr = { sample_type = names }
  for _, name in ipairs(names) do
    for k, v in pairs(bits[name][1]) do attr[k] = v end
  end
  return attr
end

describe("a sample", function()
  it("has a spec here for each bit of sample_type", function()
    local known = {}
    for _, row in ipairs(core.defs().sample) do
      assert.is_truthy(bits[row.name], row.name)
      known[row.name] = true
    end
    for _, name in ipairs(order) do known[name] = nil end
    assert.same({}, known)
  end)

  for _, name in ipairs(order) do
    it("with " .. name, function()
      both_ways(attr_of { name }, bits[name][2], bits[name][3])
    end)

    it("with " .. name .. ", too short", function()
      local attr, body = attr_of { name }, bits[name][2](b)
      for n = 0, #body - 1 do bad(attr, body:sub(1, n)) end
      -- More bytes than the known fields may follow: a newer kernel's fields.
      local rec = assert(layouts(attr):record(b.record(SAMPLE, 0, body, b.u64(1))))
      bits[name][3](rec)
    end)
  end

  it("with any two of the bits, and with all", function()
    local function try(names)
      both_ways(attr_of(names), function(o)
        local body = {}
        for i, name in ipairs(names) do body[i] = bits[name][2](o) end
        return table.concat(body)
      end, function(rec)
        for _, name in ipairs(names) do
          if name ~= "identifier" and name ~= "id" then bits[name][3](rec) end
        end
      end)
    end
    for i = 1, #order do
      for k = i + 1, #order do
        if not (order[i] == "weight" and order[k] == "weight_struct") then try { order[i], order[k] } end
      end
    end
    for _, leave in ipairs { "weight", "weight_struct" } do
      local names = {}
      for _, name in ipairs(order) do
        if name ~= leave then names[#names + 1] = name end
      end
      try(names)
    end
  end)

  it("without any field", function()
    local rec = layouts {}:record(b.record(SAMPLE, 0))
    assert.same({ type = "sample", type_id = 9, size = 8, misc = 0, cpu_mode = "unknown", event = "x", exact_ip = false },
      rec:totable())
  end)
end)

describe("a sample's", function()
  it("cpu_mode is one of six", function()
    local ls = layouts {}
    for misc, mode in pairs { [0] = "unknown", "kernel", "user", "hypervisor", "guest_kernel", "guest_user", "unknown",
      "unknown" } do
      assert.equal(mode, ls:record(b.record(SAMPLE, misc)).cpu_mode)
    end
  end)

  it("values may have any read_format", function()
    local ls = layouts { sample_type = { "read", "ip" }, read_format = {} }
    assert.equal(nil, ls:record(b.record(SAMPLE, 0, b.u64(1))))
    for bit = 0, 31 do
      local has = function(n) return math.floor(bit / 2 ^ n) % 2 == 1 end
      local attr = { sample_type = { "read", "phys_addr" }, read_format = bit }
      local expected, body = {}, {}
      local entries = has(3) and 3 or 1
      local function times()
        if has(0) then
          expected.enabled_ns = 500
          body[#body + 1] = b.u64(500)
        end
        if has(1) then
          expected.running_ns = 400
          body[#body + 1] = b.u64(400)
        end
      end
      if has(3) then
        body[1] = b.u64(entries)
        times()
      end
      for i = 1, entries do
        body[#body + 1] = b.u64(i * 10)
        if not has(3) then times() end
        expected[i] = { value = i * 10, id = has(2) and i or nil, lost = has(4) and i + 5 or nil }
        if entries == 1 then
          expected[i].label = "x"
          expected.x = i * 10
        end
        if has(2) then body[#body + 1] = b.u64(i) end
        if has(4) then body[#body + 1] = b.u64(i + 5) end
      end
      local rec = assert(layouts(attr):record(b.record(SAMPLE, 0, table.concat(body), b.u64(0xabc))))
      assert.same(expected, rec.counts)
      assert.equal(0xabc, rec.phys_addr)
    end
  end)

  it("callchain names each context", function()
    local ls = layouts { sample_type = { "callchain" } }
    local marks = { { "0xffffffffffffffe0", "hypervisor" }, { "0xffffffffffffff80", "kernel" }, { "0xfffffffffffffe00", "user" },
      { "0xfffffffffffff800", "guest" }, { "0xfffffffffffff780", "guest_kernel" }, { "0xfffffffffffff600", "guest_user" },
      { "0xfffffffffffff001", "max" }, { "0xfffffffffffff123", "unknown" } }
    for _, mark in ipairs(marks) do
      local rec = ls:record(b.record(SAMPLE, 0, b.u64s(3, 0x10, mark[1], 0x20)))
      assert.same({ 0x10, 0x20 }, rec.callchain)
      assert.same({ { index = 2, context = mark[2] } }, rec.callchain_contexts)
    end
    -- The highest address that is not a marker.
    local rec = ls:record(b.record(SAMPLE, 0, b.u64s(1, "0xfffffffffffff000")))
    assert.equal("0xfffffffffffff000", hex(rec.callchain[1]))
    assert.same({}, rec.callchain_contexts)
  end)

  it("callchain that is deferred has its cookie in a field of its own", function()
    local ls = layouts { sample_type = { "callchain" } }
    local rec = ls:record(b.record(SAMPLE, 0, b.u64s(4, "0xffffffffffffff80", 0x10, "0xfffffffffffffd80", 0x500000003)))
    assert.same({ 0x10 }, rec.callchain)
    assert.same({ { index = 1, context = "kernel" }, { index = 2, context = "user_deferred", cookie = 0x500000003 } },
      rec.callchain_contexts)
    rec = ls:record(b.record(SAMPLE, 0, b.u64s(1, "0xfffffffffffffd80")))
    assert.same({ { index = 1, context = "user_deferred" } }, rec.callchain_contexts)
    assert.same({}, rec.callchain)
  end)

  it("callchain may be empty", function()
    local rec = layouts { sample_type = { "callchain" } }:record(b.record(SAMPLE, 0, b.u64(0)))
    assert.same({}, rec.callchain)
  end)

  it("branches have all fields", function()
    local ls = layouts { sample_type = { "branch_stack" }, branch_sample_type = { "any", "type_save", "priv_save" } }
    local function flags(t)
      local v = (t.mispred or 0) + 2 * (t.predicted or 0) + 4 * (t.in_tx or 0) + 8 * (t.abort or 0) + 16 * (t.cycles or 0)
      v = v + 2 ^ 20 * (t.type or 0) + 2 ^ 24 * (t.spec or 0) + 2 ^ 26 * (t.new_type or 0) + 2 ^ 30 * (t.priv or 0)
      return b.u64(v)
    end
    local function first(t) return ls:record(b.record(SAMPLE, 0, b.u64s(1, 1, 2), flags(t))).branch_stack[1] end
    local types = { [0] = "unknown", "cond", "uncond", "ind", "call", "ind_call", "ret", "syscall", "sysret", "cond_call",
      "cond_ret",
      "eret", "irq", "serror", "no_tx" }
    for value, name in pairs(types) do assert.equal(name, first { type = value }.type) end
    for value, name in pairs { [0] = "fault_algn", "fault_data", "fault_inst", "arch_1", "arch_2", "arch_3", "arch_4", "arch_5",
      "extend_abi" } do
      assert.equal(name, first { type = 15, new_type = value }.type)
    end
    for value, name in pairs { "wrong_path", "non_spec_correct_path", "correct_path" } do
      assert.equal(name, first { spec = value }.spec)
    end
    for value, name in pairs { "user", "kernel", "hv" } do assert.equal(name, first { priv = value }.priv) end
    assert.is_nil(first {}.spec)
    assert.is_nil(first {}.priv)
    assert.equal(65535, first { cycles = 65535 }.cycles)
    assert.is_true(first { predicted = 1 }.predicted)
    assert.is_true(first { in_tx = 1 }.in_tx)
  end)

  it("branches in the other byte order have all fields too", function()
    local ls = layouts { sample_type = { "branch_stack" }, branch_sample_type = { "any" } }
    local o = bytes.swapped
    if o.u32(1):byte(1) == 1 then return end
    -- From bit 63 down: predicted, in_tx, cycles 0x1234, type ret, spec 2, new_type 9, priv 3.
    -- 0 1 1 0 | 0001001000110100 | 0110 | 10 | 1001 | 011
    local rec = ls:record(o.record(SAMPLE, 0, o.u64s(1, 1, 2, "0x612346a580000000")), true)
    local e = rec.branch_stack[1]
    assert.same({ from = 1, to = 2, mispred = false, predicted = true, in_tx = true, abort = false, cycles = 0x1234, type = "ret",
      spec = "non_spec_correct_path", priv = "hv" }, e)
  end)

  it("branches may have an index and counters", function()
    local attr = { sample_type = { "branch_stack", "phys_addr" }, branch_sample_type = { "any", "hw_index", "counters" } }
    both_ways(attr, function(o)
      return o.u64s(2, 30, 0x1, 0x2, 0, 0x3, 0x4, 0, 111, 112, 0xabc)
    end, function(rec)
      assert.equal(30, rec.hw_idx)
      assert.equal(111, rec.branch_stack[1].counters)
      assert.equal(112, rec.branch_stack[2].counters)
      assert.equal(0xabc, rec.phys_addr)
    end)
    for n = 0, 10 do bad(attr, (b.u64s(2, 30, 1, 2, 0, 3, 4, 0, 111, 112, 0xabc):sub(1, 8 * n))) end
  end)

  it("branches may be none, with an index or without", function()
    -- For an event without branches the kernel writes only the zero.
    local attr = { sample_type = { "branch_stack", "phys_addr", "weight" }, branch_sample_type = { "any", "hw_index" } }
    local ls = layouts(attr)
    local rec = ls:record(b.record(SAMPLE, 0, b.u64s(0, 30, 5, 0xabc)))
    assert.equal(30, rec.hw_idx)
    assert.equal(5, rec.weight)
    assert.equal(0xabc, rec.phys_addr)
    rec = ls:record(b.record(SAMPLE, 0, b.u64s(0, 5, 0xabc)))
    assert.is_nil(rec.hw_idx)
    assert.same({}, rec.branch_stack)
    assert.equal(5, rec.weight)
    assert.equal(0xabc, rec.phys_addr)
    -- If unknown fields of a newer kernel follow, the record is read as one that has the index.
    rec = ls:record(b.record(SAMPLE, 0, b.u64s(0, 30, 5, 0xabc, 1, 2)))
    assert.equal(30, rec.hw_idx)
    assert.equal(0xabc, rec.phys_addr)
    bad(attr, b.u64s(0, 5))
  end)

  it("registers have the names of their machine", function()
    local all = "0xffffffffffffffff"
    local body = { b.u64(2) }
    for bit = 0, 63 do body[#body + 1] = b.u64(bit) end
    local raw = b.record(SAMPLE, 0, table.concat(body))
    local function regs(machine) return layouts({ sample_type = { "regs_user" }, sample_regs_user = all },
      machine):record(raw).user_regs end
    local expect = {
      x86_64 = { ax = 0, bx = 1, cx = 2, dx = 3, si = 4, di = 5, bp = 6, sp = 7, ip = 8, flags = 9, cs = 10, ss = 11, gs = 15,
        r8 = 16,
        r15 = 23, r24 = 24, xmm0 = 32, xmm0_high = 33, xmm15 = 62, xmm15_high = 63 },
      i686 = { ax = 0, ip = 8 },
      aarch64 = { x0 = 0, x29 = 29, lr = 30, sp = 31, pc = 32, vg = 46, r33 = 33, r63 = 63 },
      armv7l = { r0 = 0, r10 = 10, fp = 11, ip = 12, sp = 13, lr = 14, pc = 15, r16 = 16 },
      riscv64 = { pc = 0, ra = 1, sp = 2, gp = 3, tp = 4, t0 = 5, t2 = 7, s0 = 8, a0 = 10, a7 = 17, s2 = 18, s11 = 27, t3 = 28,
        t6 = 31 },
      sparc64 = { r0 = 0, r63 = 63 },
    }
    for machine, names in pairs(expect) do
      local r = regs(machine)
      local n = 0
      for _ in pairs(r) do n = n + 1 end
      assert.equal(65, n, machine)
      for name, value in pairs(names) do assert.equal(value, r[name], machine .. " " .. name) end
    end
  end)

  it("registers may be absent", function()
    local ls = layouts { sample_type = { "regs_user", "regs_intr", "phys_addr" }, sample_regs_user = 7, sample_regs_intr = 1 }
    local rec = ls:record(b.record(SAMPLE, 0, b.u64s(0, 1, 5, 9)))
    assert.same({ abi = 0 }, rec.user_regs)
    assert.same({ abi = 1, ax = 5 }, rec.intr_regs)
    assert.equal(9, rec.phys_addr)
  end)

  it("stack may be absent, and then has no dyn_size", function()
    local rec = layouts { sample_type = { "stack_user", "phys_addr" }, sample_stack_user = 8 }:record(b.record(SAMPLE, 0,
      b.u64s(0, 9)))
    assert.equal("", rec.user_stack)
    assert.equal(9, rec.phys_addr)
  end)

  it("data source has every field", function()
    local ls = layouts { sample_type = { "data_src" } }
    local function decode(shift, value)
      return ls:record(b.record(SAMPLE, 0, b.u64(core.shl(value, shift)))).data_src
    end
    local flags = {
      op = { 0, "na", "load", "store", "pfetch", "exec" },
      lvl = { 5, "na", "hit", "miss", "l1", "lfb", "l2", "l3", "loc_ram", "rem_ram1", "rem_ram2", "rem_cce1", "rem_cce2", "io",
        "unc" },
      snoop = { 19, "na", "none", "hit", "miss", "hitm" },
      lock = { 24, "na", "locked" },
      dtlb = { 26, "na", "hit", "miss", "l1", "l2", "wk", "os" },
      snoopx = { 38, "fwd", "peer" },
      blk = { 40, "na", "data", "addr" },
    }
    for field, row in pairs(flags) do
      for i = 2, #row do
        local d = decode(row[1], 2 ^ (i - 2))
        assert.same({ row[i], [row[i]] = true }, d[field], field)
        for other in pairs(flags) do
          if other ~= field then assert.is_nil(d[other]) end
        end
      end
    end
    local names = {
      lvl_num = { 33, "l1", "l2", "l3", "l4", "l2_mhb", "msc", "l0", "unc", "cxl", "io", "any_cache", "lfb", "ram", "pmem",
        "na" },
      hops = { 43, "hops_0", "hops_1", "hops_2", "hops_3" },
      region = { 46, "rsvd", "l_share", "l_non_share", "o_io", "o_share", "o_non_share", "mmio", "mem0", "mem1", "mem2", "mem3",
        "mem4",
        "mem5", "mem6", "mem7" },
    }
    for field, row in pairs(names) do
      for i = 2, #row do assert.equal(row[i], decode(row[1], i - 1)[field], field) end
      assert.is_nil(decode(row[1], 0)[field])
    end
    assert.is_true(decode(37, 1).remote)
  end)

  it("transaction has every flag", function()
    local ls = layouts { sample_type = { "transaction" } }
    for i, name in ipairs { "elision", "transaction", "sync", "async", "retry", "conflict", "capacity_write", "capacity_read" } do
      local t = ls:record(b.record(SAMPLE, 0, b.u64(2 ^ (i - 1)))).transaction
      assert.same({ name, [name] = true, abort_code = 0, value = 2 ^ (i - 1) }, t)
    end
  end)

  it("raw bytes may be empty or large", function()
    local ls = layouts { sample_type = { "raw" } }
    assert.equal(("x"):rep(4), ls:record(b.record(SAMPLE, 0, b.u32(4), "xxxx")).raw)
    local long = ("x"):rep(65516)
    assert.equal(long, ls:record(b.record(SAMPLE, 0, b.u32(#long), long)).raw)
  end)

  it("raw fields come from a function that knows the format", function()
    local ls = core.layouts()
    ls:add({ sample_type = { "raw" } }, { decode_raw = function(raw) return { length = #raw } end })
    local rec = ls:record(b.record(SAMPLE, 0, b.u32(4), "xxxx"))
    assert.same({ length = 4 }, rec.raw_fields)
    assert.same({ length = 4 }, rec:totable().raw_fields)
  end)
end)
