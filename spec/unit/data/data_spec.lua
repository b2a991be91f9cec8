-- Reading perf.data files that are made here byte by byte, in either byte order (spec/support/perfdata.lua).
local core = require "perf.core"
local data = require "perf.data"
local perfdata = require "spec.support.perfdata"
local util = require "spec.support.util"

local SAMPLE = {ip = 1, tid = 2, time = 4, addr = 8, read = 16, callchain = 32, id = 64, cpu = 128, period = 256,
  stream_id = 512, raw = 1024, branch_stack = 2048, regs_user = 4096, stack_user = 8192, weight = 16384, data_src = 32768,
  identifier = 65536, transaction = 131072, regs_intr = 262144, phys_addr = 524288, aux = 1048576, cgroup = 2097152,
  data_page_size = 4194304, code_page_size = 8388608}

local function mask(...)
  local v = 0
  for _, name in ipairs{...} do v = v + SAMPLE[name] end
  return v
end

-- Opens bytes as a file and calls fn with it.
local function with_file(bytes, fn)
  util.with_tmpname(function(path)
    util.write_file(path, bytes)
    local file = assert(data.open(path))
    local ok, err = pcall(fn, file)
    file:close()
    if not ok then error(err, 0) end
  end)
end

-- All that a file holds, as plain tables.
local function all(bytes)
  local out = {}
  with_file(bytes, function(file)
    for rec in file:records() do out[#out + 1] = rec:totable() end
    assert.is_nil(file:error())
  end)
  return out
end

-- Every type of record of the kernel, with a trailer of tid, time, id, stream_id, cpu and identifier.
local function kernel_records(m)
  local function tail()
    return m.u32(11) .. m.u32(12) .. m.u64s{1000, 7, 77} .. m.u32(3) .. m.u32(0) .. m.u64(7)
  end
  local function rec(type, misc, ...)
    local parts = {...}
    parts[#parts + 1] = tail()
    return m.record(type, misc, table.concat(parts))
  end
  local function who(pid, tid) return m.u32(pid) .. m.u32(tid) end
  return table.concat{
    rec(1, 1, who(-1, 0), m.u64s{{0, 0xffff8000}, 4096, 0}, m.text "[kernel.kallsyms]_text"),
    rec(2, 0, m.u64s{7, 3}),
    rec(3, 8192, who(5, 6), m.text "a name"),
    rec(4, 0, who(5, 4), who(6, 4), m.u64(123456789012)),
    rec(5, 0, m.u64s{5, 7, 77}),
    rec(6, 0, m.u64s{6, 7, 77}),
    rec(7, 0, who(8, 5), who(8, 6), m.u64(123456789013)),
    rec(8, 0, who(5, 6), m.u64s{1, 99, {5, 6}, 70, 7}),
    rec(10, 2, who(5, 6), m.u64s{{0x1000, 0x7fff}, 8192, 4096}, m.u32(8), m.u32(1), m.u64s{424242, 9}, m.u32(5), m.u32(2),
      m.text "/usr/lib/libc.so.6"),
    rec(10, 2 + 16384, who(5, 6), m.u64s{{0x1000, 0x7fff}, 8192, 4096}, m.u8(20), m.u8(0), m.u8(0), m.u8(0),
      "abcdefghijklmnopqrst", m.u32(5), m.u32(2), m.text "/usr/lib/libm.so.6"),
    rec(11, 0, m.u64s{65536, 4096, 5}),
    rec(12, 0, who(5, 6)),
    rec(13, 0, m.u64(17)),
    rec(14, 8192),
    rec(15, 8192 + 16384, who(9, 10)),
    rec(16, 0, who(5, 6), m.u64s{2, 3, 4026532000, 3, 4026531838}),
    rec(17, 0, m.u64({0x1234, 0xffffffff}), m.u32(48), m.u16(1), m.u16(0), m.text "bpf_prog"),
    rec(18, 0, m.u16(1), m.u16(0), m.u32(33), "\1\2\3\4\5\6\7\8"),
    rec(19, 0, m.u64(88), m.text "/a/cgroup"),
    rec(20, 0, m.u64({0x1234, 0xffffffff}), m.u16(2), m.u16(2), "\1\2\3\4", ("\0"):rep(0)),
    rec(21, 0, m.u64(5)),
    rec(22, 2, m.u64s{4711, 2, {1, 2}, {3, 4}}),
  }
end

local all_ids = mask("ip", "tid", "time", "id", "stream_id", "cpu", "identifier")

local function kernel_file(m)
  return m.file{attrs = {{attr = m.attr{sample_type = all_ids, read_format = 1 + 2 + 4 + 8, sample_id_all = true}, ids = {7}}},
    data = kernel_records(m)}
end

local full = {sample_type = mask("identifier", "ip", "tid", "time", "addr", "id", "stream_id", "cpu", "period", "read",
  "callchain", "raw", "branch_stack", "regs_user", "stack_user", "weight", "data_src", "transaction", "regs_intr", "phys_addr",
  "cgroup", "data_page_size", "code_page_size", "aux"), read_format = 1 + 2 + 4 + 8, branch_sample_type = 2 ^ 17,
  sample_regs_user = 7, sample_regs_intr = 3, sample_id_all = true}

local function full_sample(m)
  return m.record(9, 2, m.u64s{7, {0x1234, 0xffffffff}}, m.u32(5), m.u32(6), m.u64s{123456789014, {1, 0x7fff}, 7, 77},
    m.u32(1), m.u32(0), m.u64(1000), m.u64s{2, 500, 400, 30, 7, 40, 8}, m.u64s{3, {0xffffff80, 0xffffffff}, {5, 0xffffffff}, 6},
    m.u32(12), "raw  bytes..", m.u64s{2, 0},
    m.branch{from = 1, to = 2, mispred = 1, cycles = 77, type = 5, spec = 2, priv = 1},
    m.branch{from = 3, to = 4, predicted = 1, in_tx = 1, abort = 1, cycles = 65535, type = 15, new_type = 6},
    m.u64s{2, 10, 11, 12}, m.u64(16), "stack bytes 1234", m.u64(8), m.u64(99), m.u64({0x68100142, 0}), m.u64s{{1, 2}, 1, 20, 21},
    m.u64s{4096, 66, 4096, 2097152}, m.u64(8), "aux data")
end

describe("a file in the other byte order", function()
  local little, big = perfdata.maker "<", perfdata.maker ">"

  it("has the same records of every type of the kernel", function()
    local a, b = all(kernel_file(little)), all(kernel_file(big))
    assert.equal(22, #a)
    for i = 1, #a do assert.same(a[i], b[i]) end
  end)

  it("has the same samples, with every field that a sample can have", function()
    local function file(m)
      return m.file{attrs = {{attr = m.attr(full), ids = {7}}}, data = full_sample(m)}
    end
    local a, b = all(file(little)), all(file(big))
    assert.equal(1, #a)
    assert.same(a, b)
    assert.equal("raw  bytes..", b[1].raw)
    assert.equal(77, b[1].branch_stack[1].cycles)
    assert.is_true(b[1].branch_stack[1].mispred)
    assert.is_false(b[1].branch_stack[1].predicted)
    assert.equal("ind_call", b[1].branch_stack[1].type)
    assert.equal(65535, b[1].branch_stack[2].cycles)
    assert.equal("stack by", b[1].user_stack)
    assert.equal(2, #b[1].counts)
  end)

  it("has the same attrs, with bits and fields of two bits in the same positions", function()
    local t = {type = 4, config = {5, 6}, sample_freq = 4000, sample_type = 7, read_format = 4, disabled = true, inherit = true,
      freq = true, exclude_hv = true, precise_ip = 2, sample_id_all = true, mmap2 = true, use_clockid = true, clockid = 1,
      namespaces = true, cgroup = true, build_id = true, config1 = 9, config2 = 10, branch_sample_type = 8,
      sample_regs_user = 3, sample_stack_user = 4096, sample_regs_intr = 1, aux_watermark = 5, sample_max_stack = 127,
      aux_sample_size = 6, aux_pause = true, sig_data = 12, wakeup_events = 2}
    local attrs = {}
    for i, m in ipairs{little, big} do
      with_file(m.file{attrs = {{attr = m.attr(t), ids = {1, {2, 3}}}}, data = ""}, function(file)
        attrs[i] = {attr = file.attrs[1].attr, ids = file.attrs[1].ids, endian = file.header.endian}
      end)
    end
    assert.equal("little", attrs[1].endian)
    assert.equal("big", attrs[2].endian)
    attrs[1].endian, attrs[2].endian = nil, nil
    assert.same(attrs[1], attrs[2])
    local a = attrs[1].attr
    assert.equal("raw", a.type)
    assert.equal(2, a.precise_ip)
    assert.is_true(a.exclude_hv and a.build_id and a.aux_pause and a.cgroup)
    assert.is_nil(a.pinned)
    assert.equal(127, a.sample_max_stack)
    assert.equal("monotonic", a.clockid)
    assert.same({1, core.u64(2, 3)}, attrs[1].ids)
  end)

  it("has the same features, from a recorder of 64 or 32 bits", function()
    local function features(m)
      return {[3] = m.string "host", [6] = m.string "ppc64", [7] = m.u32(4) .. m.u32(2), [10] = m.u64(123456),
        [11] = m.u32(2) .. m.string "perf" .. m.string "record", [21] = m.u64s{5, 6}, [70] = "what is not known yet",
        [13] = m.u32(1) .. m.string "0-3" .. m.u32(2) .. m.string "0-1" .. m.string "2-3" .. m.u32(0) .. m.u32(0) .. m.u32(1)
          .. m.u32(0) .. m.u32(2) .. m.u32(0) .. m.u32(3) .. m.u32(0)}
    end
    for _, order in ipairs{little, big} do
      for _, word in ipairs{64, 32} do
        local attrs = {{attr = order.attr{}}}
        local bytes = order.file{attrs = attrs, data = "", features = features(order), word = word}
        with_file(bytes, function(file)
          local f = file.features
          assert.equal("host", f.hostname)
          assert.equal("ppc64", file.header.arch)
          assert.same({available = 4, online = 2}, f.nrcpus)
          assert.equal(123456, f.total_mem)
          assert.same({"perf", "record"}, f.cmdline)
          assert.same({first = 5, last = 6}, f.sample_time)
          assert.same({"0-1", "2-3"}, f.cpu_topology.threads)
          assert.equal(4, #f.cpu_topology.cpus)
          assert.is_nil(next(file.damaged))
        end)
      end
    end
  end)

  it("has the same values of features with arrays, tables, bitmaps and records", function()
    local function features(m)
      return {[3] = m.string "host", [7] = m.u32(2) .. m.u32(2),
        [2] = m.u32(67) .. m.u16(32770) .. m.u16(52) .. m.u32(-1) .. "abcdefghijklmnopqrst" .. m.u8(16, 0, 0, 0)
          .. m.text "/bin/abcdef",
        [12] = m.u32(1) .. m.u32(128) .. m.attr{precise_ip = 1, config = 3} .. m.u32(2) .. m.string "cycles" .. m.u64s{5, 6},
        [13] = m.u32(1) .. m.string "0-1" .. m.u32(0) .. m.u32(4) .. m.u32(5) .. m.u32(6) .. m.u32(7)
          .. m.u32(1) .. m.string "0-1" .. m.u32(8) .. m.u32(9),
        [14] = m.u32(1) .. m.u32(3) .. m.u64s{5, 4} .. m.string "0-3", [16] = m.u32(1) .. m.u32(4) .. m.string "cpu",
        [17] = m.u32(1) .. m.string "{a,b}" .. m.u32(0) .. m.u32(2), [18] = m.u64s{1, 1000, 48},
        [20] = m.u32(1) .. m.u32(1) .. m.u32(1) .. m.u32(64) .. m.u32(128) .. m.u32(8)
          .. m.string "Data" .. m.string "32K" .. m.string "0",
        [22] = m.u64s{1, 4096, 1, 0, 70, 70, {5, 1}, 32}, [27] = m.u32(1) .. m.u32(1) .. m.u32(2) .. m.u32(3) .. m.u32(4096),
        [28] = m.u32(1) .. m.string "branches" .. m.string "32", [29] = m.u32(1) .. m.u32(2) .. m.u64s{3, 4},
        [30] = m.u32(1) .. m.string "cpu_core" .. m.string "0-3", [33] = m.u32(62) .. m.u32(1),
        [31] = m.u32(1) .. m.u32(1) .. m.string "branches" .. m.string "32" .. m.string "cpu_core"}
    end
    for _, m in ipairs{little, big} do
      with_file(m.file{attrs = {{attr = m.attr{}}}, data = "", features = features(m)}, function(file)
        local f = file.features
        assert.is_nil(next(file.damaged))
        assert.same({{pid = -1, misc = 32770, build_id = "6162636465666768696a6b6c6d6e6f70", filename = "/bin/abcdef"}},
          f.build_id)
        assert.same({"cycles", {5, 6}, 1}, {f.event_desc[1].name, f.event_desc[1].ids, f.event_desc[1].attr.precise_ip})
        assert.same({cores = {"0-1"}, threads = {}, dies = {"0-1"}, cpus = {{core_id = 4, socket_id = 5, die_id = 8},
          {core_id = 6, socket_id = 7, die_id = 9}}}, f.cpu_topology)
        assert.same({{node = 3, mem_total = 5, mem_free = 4, cpus = "0-3"}}, f.numa_topology)
        assert.same({{type = 4, name = "cpu"}}, f.pmu_mappings)
        assert.same({{name = "{a,b}", leader = 0, members = 2}}, f.group_desc)
        assert.same({{offset = 1000, size = 48}}, f.auxtrace)
        assert.same({{level = 1, line_size = 64, sets = 128, ways = 8, type = "Data", size = "32K", cpus = "0"}}, f.cache)
        assert.same({version = 1, block_size = 4096, nodes = {{node = 0, size = 70, blocks = {0, 2, 32, 69}}}}, f.mem_topology)
        assert.same({version = 1, type = 1, level = 2, ratio = 3, mmap_len = 4096}, f.compressed)
        assert.same({branches = "32"}, f.cpu_pmu_caps)
        assert.same({version = 1, clockid = 2, wall_ns = 3, clock_ns = 4}, f.clock_data)
        assert.same({{pmu = "cpu_core", cpus = "0-3"}}, f.hybrid_topology)
        assert.same({{name = "cpu_core", caps = {branches = "32"}}}, f.pmu_caps)
        assert.same({machine = 62, flags = 1}, f.e_machine)
      end)
    end
  end)

  it("has the same records of the perf tool's", function()
    local function file(m)
      return m.file{attrs = {{attr = m.attr{}, ids = {1}}}, data = table.concat{
        m.record(68, 0), m.record(69, 0, m.u64s{2, 1, 0, 0, {0xffffffff, 0xffffffff}, 2, 1, 1, 55}),
        m.record(70, 0, m.u32(1), m.u32(0), m.u64s{5, 6, 7}),
        m.record(71, 0, m.u64s{8, 4096, {1, 2}}, m.u32(1), m.u32(55), m.u32(-1), m.u32(0)), "auxtrace",
        m.record(72, 0, m.u32(1), m.u32(2), m.u32(3), m.u32(4), m.u32(5), m.u32(1), m.u64s{6, 7}, m.text(("e"):rep(63))),
        m.record(73, 0, m.u64(1), m.u64(55), "sh" .. ("\0"):rep(14)),
        m.record(74, 0, m.u16(0), m.u16(2), m.u16(0), m.u16(5)),
        m.record(74, 0, m.u16(1), m.u16(1), m.u16(8), "\0\0\0\0", m.u64({5, 1}), ("\0"):rep(6)),
        m.record(74, 0, m.u16(1), m.u16(1), m.u16(4), m.u32(6), ("\0"):rep(6)),
        m.record(74, 0, m.u16(2), "\1\0", m.u16(2), m.u16(4)),
        m.record(75, 0, m.u64s{1, 2, 3}), m.record(76, 0, m.u64(1), m.u32(2), m.u32(3), m.u64s{4, 5, 6}),
        m.record(77, 0, m.u64s{1, 99}), m.record(78, 0, m.u64s{0, 1}, m.text "msec"),
        m.record(78, 0, m.u64s{2, 1}, m.text "name"),
        m.record(78, 0, m.u64s{1, 1}, m.u64({0, 0x3fe00000})),
        m.record(79, 0, m.u64s{31, 99, {1, 2}, 5, 6}, ("\0"):rep(8)), m.record(82, 0), m.record(84, 0, m.text "prog")}}
    end
    local a, b = all(file(little)), all(file(big))
    assert.equal(19, #a)
    for i = 1, #a do assert.same(a[i], b[i]) end
    assert.same({{id = 1, idx = 0, cpu = 0, tid = -1}, {id = 2, idx = 1, cpu = 1, tid = 55}}, b[2].entries)
    assert.equal("auxtrace", b[4].type)
    assert.equal(8, b[4].data_size)
    assert.equal(-1, b[4].cpu)
    assert.same({0, 5}, b[7].cpus)
    assert.same({0, 2, 32}, b[8].cpus)
    assert.same({1, 2}, b[9].cpus)
    assert.same({2, 3, 4}, b[10].cpus)
    assert.equal(0.5, b[16].scale)
  end)
end)

describe("a file of the first format", function()
  for _, order in ipairs{"<", ">"} do
    local m = perfdata.maker(order)

    it("has sizes that show its byte order, and a separate section for the events' names " .. order, function()
      local types = m.u64(0) .. "cycles" .. ("\0"):rep(58) .. m.u64(2) .. "page-faults" .. ("\0"):rep(53)
      local bytes = m.file{old = true, types = types, data = m.record(3, 0, m.u32(1), m.u32(2), m.text "init"),
        attrs = {{attr = m.attr{size = 64}, ids = {1}}, {attr = m.attr{size = 64, type = 1, config = 2}, ids = {2}}}}
      with_file(bytes, function(file)
        assert.equal(1, file.header.version)
        assert.equal(order == "<" and "little" or "big", file.header.endian)
        assert.equal("cycles", file.attrs[1].name)
        assert.equal("page-faults", file.attrs[2].name)
        local rec = assert(file:read_record())
        assert.equal("init", rec.comm)
        assert.equal(2, rec.tid)
      end)
    end)

    it("comes as a pipe too " .. order, function()
      local attr = m.attr{size = 64, sample_type = mask("ip", "tid")}
      with_file(m.pipe(m.record(64, 0, attr, m.u64s{1, 2}) .. m.record(9, 2, m.u64(5), m.u32(6), m.u32(7)), true), function(file)
        assert.is_true(file.header.pipe)
        assert.equal("header_attr", file:read_record().type)
        assert.equal(6, file:read_record().pid)
      end)
    end)
  end
end)

describe("a pipe's stream", function()
  local m = perfdata.maker "<"
  local attr = m.attr{sample_type = mask("identifier", "ip"), sample_id_all = true}
  local function feature(bit, bytes) return m.record(80, 0, m.u64(bit), bytes) end
  local stream = m.pipe(table.concat{feature(3, m.string "host"), feature(6, m.string "x86_64"),
    m.record(64, 0, attr, m.u64s{11}), m.record(64, 0, m.attr{type = 1, config = 2, sample_type = mask("identifier", "time")},
      m.u64s{12}),
    m.record(78, 0, m.u64s{2, 11}, m.text "a name of mine"),
    m.record(67, 2, m.u32(-1), "abcdefghijklmnopqrst", m.u32(0), m.text "/bin/a"),
    m.record(66, 0, m.u32(16), m.u32(0)), "tracing data 16.",
    m.record(9, 2, m.u64s{11, 100}), m.record(9, 2, m.u64s{12, 200})})

  local function check(file)
    local types = {}
    for rec in file:records() do
      types[#types + 1] = rec.type
      if rec.type == "header_tracing_data" then assert.equal("tracing data 16.", file:payload()) end
      if rec.type == "sample" then types[#types] = rec.event .. "=" .. tostring(rec.ip or rec.time) end
    end
    assert.same({"header_feature", "header_feature", "header_attr", "header_attr", "event_update", "header_build_id",
      "header_tracing_data", "a name of mine=100", "page-faults=200"}, types)
    assert.equal("host", file.features.hostname)
    assert.equal("host", file.header.hostname)
    assert.same({{pid = -1, misc = 2, filename = "/bin/a", build_id = "6162636465666768696a6b6c6d6e6f7071727374"}},
      file.features.build_id)
    assert.equal(2, #file.attrs)
    assert.is_nil(file:error())
  end

  it("adds attrs, features and names as they are read, and each record finds its event", function()
    with_file(stream, check)
  end)

  it("is read from a fifo while it is written", function()
    requires{cmd = "mkfifo"}
    util.with_tmpname(function(path)
      util.write_file(path .. ".bytes", stream)
      os.remove(path)
      util.execute(("mkfifo '%s'; cat '%s.bytes' > '%s' &"):format(path, path, path))
      local file = assert(data.open(path))
      check(file)
      file:close()
      os.remove(path .. ".bytes")
    end)
  end)

  it("is read from standard input", function()
    util.with_tmpname(function(path)
      util.write_file(path, stream)
      local output, status = util.shell(([[%s -e 'local f = assert(require "perf.data".open "-")
        local n = 0 for _ in f:records() do n = n + 1 end print(n, f.features.hostname)' < '%s']]):format(util.lua(), path))
      assert.equal(0, status, output)
      assert.equal("9\thost\n", output)
    end)
  end)
end)

describe("reading", function()
  local m = perfdata.maker "<"
  local plain = {{attr = m.attr{sample_type = mask("ip", "tid", "time"), sample_id_all = true}, ids = {1}}}
  local function sample(ip, time) return m.record(9, 2, m.u64(ip), m.u32(1), m.u32(2), m.u64(time)) end

  it("finds each sample's event by its id if layouts differ", function()
    local attrs = {{attr = m.attr{sample_type = mask("identifier", "ip")}, ids = {1, 2}},
      {attr = m.attr{type = 1, config = 2, sample_type = mask("identifier", "addr", "period")}, ids = {3}}}
    with_file(m.file{attrs = attrs, data = m.record(9, 2, m.u64s{3, 50, 60}) .. m.record(9, 2, m.u64s{2, 70})}, function(file)
      local a, b = file:read_record(), file:read_record()
      assert.same({"page-faults", 50, 60}, {a.event, a.addr, a.period})
      assert.same({"cycles", 70}, {b.event, b.ip})
      assert.same({"cycles", file.attrs[1].attr}, {b:info().label, b:info().attr})
    end)
  end)

  it("skips and counts records of unknown types", function()
    with_file(m.file{attrs = plain, data = sample(1, 1) .. m.record(40, 0, m.u64(1)) .. m.record(200, 0) .. sample(2, 2)},
      function(file)
        assert.equal(1, file:read_record().ip)
        assert.equal(2, file:read_record().ip)
        assert.is_nil(file:read_record())
        assert.same({2, 200}, {file:skipped()})
        assert.is_nil(file:error())
      end)
  end)

  it("gives the data after an auxtrace record in parts, or skips it", function()
    local function aux(n) return m.record(71, 0, m.u64s{n, 0, 0}, m.u32(0), m.u32(0), m.u32(0), m.u32(0)) end
    with_file(m.file{attrs = plain, data = aux(300000) .. ("x"):rep(300000) .. aux(11) .. "hello world" .. aux(8) .. "ignored."
      .. sample(5, 6)}, function(file)
      assert.equal(300000, file:read_record().data_size)
      local sum = 0
      for part in function() return file:payload() end do sum = sum + #part end
      assert.equal(300000, sum)
      assert.equal("auxtrace", file:read_record().type)
      assert.equal("hello", file:payload(5))
      assert.equal("auxtrace", file:read_record().type)
      assert.equal(5, file:read_record().ip) -- at an odd place of the file now
      assert.is_nil(file:payload())
      assert.is_nil(file:read_record())
    end)
  end)

  it("gives plain values without Records", function()
    with_file(m.file{attrs = plain, data = sample(10, 1) .. m.record(3, 0, m.u32(5), m.u32(6), m.text "sh", m.u32(5), m.u32(6),
      m.u64(9)) .. sample(20, 2)}, function(file)
      local got = {}
      for i, ip, time, cpu in file:each("sample", "ip", "time", "cpu") do got[i] = {ip, time, cpu} end
      assert.same({{10, 1}, {20, 2}}, got)
      assert.error_matches(function() file:each("sample", "ip", "callchain") end,
        "field 'callchain' is not one number or string")
      assert.error_matches(function() file:each("nothing") end, "no record of the kernel has the type 'nothing'")
    end)
    with_file(m.file{attrs = plain, data = sample(10, 1) .. m.record(3, 0, m.u32(5), m.u32(6), m.text "sh", m.u32(5), m.u32(6),
      m.u64(9))}, function(file)
      for i, comm, pid in file:each("comm", "comm", "pid") do assert.same({1, "sh", 5}, {i, comm, pid}) end
    end)
  end)

  it("reads a file larger than its window, whatever the records' sizes", function()
    local parts, n = {}, 0
    for i = 1, 3000 do
      parts[i] = m.record(3, 0, m.u32(i), m.u32(i), m.text(("n"):rep(i % 500)), m.u32(0), m.u32(0), m.u64(i))
    end
    with_file(m.file{attrs = plain, data = table.concat(parts)}, function(file)
      for rec in file:records() do
        n = n + 1
        assert(rec.pid == n and #rec.comm == n % 500)
      end
    end)
    assert.equal(3000, n)
  end)

  it("continues to the end of a file whose recorder was killed", function()
    local bytes = m.file{attrs = plain, data = sample(1, 1) .. sample(2, 2), features = {[3] = m.string "host"},
      edit = function(h) h.data_size = 0 end}
    with_file(bytes:sub(1, -(16 + 68 + 1)), function(file) -- as long as the features are not written
      assert.is_true(file.header.unfinished)
      assert.is_nil(file.features.hostname)
      assert.equal(1, file:read_record().ip)
      assert.equal(2, file:read_record().ip)
      assert.is_nil(file:read_record())
      assert.is_nil(file:error())
    end)
    with_file(m.file{attrs = plain, data = "", features = {[3] = m.string "host"}}, function(file) -- finished, and empty
      assert.is_false(file.header.unfinished)
      assert.equal("host", file.features.hostname)
      assert.is_nil(file:read_record())
    end)
  end)

  it("keeps records when the file is closed, and refuses to read on", function()
    with_file(m.file{attrs = plain, data = sample(7, 8)}, function(file)
      local rec, iterate = file:read_record(), file:records()
      file:close()
      file:close()
      assert.equal(7, rec.ip)
      assert.equal("cycles", rec.event)
      assert.error_matches(function() file:read_record() end, "the perf.data file is closed")
      assert.error_matches(iterate, "the perf.data file is closed")
      assert.is_nil(file:error())
    end)
  end)

  it("names events as perf does if the file has no names", function()
    local function name(t)
      local got
      with_file(m.file{attrs = {{attr = m.attr(t)}}, data = ""}, function(file) got = file.attrs[1].name end)
      return got
    end
    assert.equal("cycles", name{})
    assert.equal("cycles:u", name{exclude_kernel = true, exclude_hv = true})
    assert.equal("instructions:pp", name{config = 1, precise_ip = 2})
    assert.equal("cycles", name{config = {0, 4}}) -- the PMU of a hybrid CPU above
    assert.equal("page-faults", name{type = 1, config = 2})
    assert.equal("L1-dcache-load-misses", name{type = 3, config = 65536})
    assert.equal("LLC-stores", name{type = 3, config = 2 + 256})
    assert.equal("rc4", name{type = 4, config = 0xc4})
    assert.equal("tracepoint:314", name{type = 2, config = 314})
    assert.equal("type=77,config=0x5", name{type = 77, config = 5})
  end)

  it("raises an error for an invalid path, and gives the reason why it cannot open one", function()
    assert.has_error(function() data.open(5) end, "bad argument #1 to 'open' (string expected, got number)")
    assert.same({nil, "/no/such/file: open: No such file or directory", "ENOENT"}, {data.open "/no/such/file"})
    local file, msg, code = data.open "/"
    assert.is_nil(file)
    assert.equal("/: read: Is a directory", msg)
    assert.equal("EISDIR", code)
  end)
end)
