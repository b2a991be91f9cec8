-- perf.data files that are damaged, cut off, or malicious: an error with a code, everything before the damage, and never more
-- memory than the bytes justify.
local core = require "perf.core"
local data = require "perf.data"
local perfdata = require "spec.support.perfdata"
local util = require "spec.support.util"

local m = perfdata.maker "<"
local plain = {{attr = m.attr{sample_type = 1 + 2 + 4, sample_id_all = true}, ids = {1}}}

local function sample(ip) return m.record(9, 2, m.u64(ip), m.u32(1), m.u32(2), m.u64(ip)) end

local function with_path(bytes, fn)
  util.with_tmpname(function(path)
    util.write_file(path, bytes)
    fn(path)
  end)
end

-- The readable part of the bytes: the ips of samples; and the error of the file or of open.
local function read(bytes)
  local ips, msg, code, count = {}, nil, nil, nil
  with_path(bytes, function(path)
    local file
    file, msg, code = data.open(path)
    if not file then return end
    for rec in file:records() do ips[#ips + 1] = rec.ip end
    msg, code, count = file:error()
    file:close()
  end)
  return ips, msg, code, count
end

local function refused(bytes, pattern)
  local ips, msg, code = read(bytes)
  assert.equal("EBADMSG", code)
  assert.matches(pattern, msg)
  return ips
end

describe("the header of a file", function()
  it("must be that of a perf.data file", function()
    refused("", "too short")
    refused("PERFILE2", "too short")
    refused("PERFILE3" .. ("\0"):rep(200), "does not begin like a perf.data file")
    refused(("\0"):rep(200), "does not begin like a perf.data file")
    refused("PERFFILE" .. ("\255"):rep(200), "")
    refused("PERFILE2" .. ("\255"):rep(200), "a size that no perf.data file has")
    refused("#!/bin/sh\necho this is no perf.data file\n" .. ("#"):rep(200), "does not begin")
  end)

  it("may be cut off at any byte", function()
    local whole = m.file{attrs = plain, data = sample(1)}
    for n = 0, 104 + 8 + 144 - 1 do
      local ips, _, code = read(whole:sub(1, n))
      assert.same({}, ips)
      assert.equal("EBADMSG", code, "cut after " .. n)
    end
  end)

  it("may have offsets and sizes beyond the file", function()
    local huge = {0xffffffff, 0xffffffff}
    for _, edit in ipairs{
      function(h) h.attr_size = 0 end, function(h) h.attr_size = 79 end, function(h) h.attr_size = huge end,
      function(h) h.attrs_at = huge end, function(h) h.attrs_at = 8 end, function(h) h.attrs_size = huge end,
      function(h) h.attrs_at = {0xfffffff0, 0xffffffff} h.attrs_size = 32 end,
      function(h) h.data_at = huge end, function(h) h.data_at = 8 end, function(h) h.data_size = huge end,
      function(h) h.data_at = {0xfffffff0, 0x7fffffff} h.data_size = {0, 0x80000000} end,
      function(h) h.size = huge end, function(h) h.size = 17 end,
    } do
      local bytes = m.file{attrs = plain, data = sample(1), edit = edit}
      local _, msg, code = read(bytes)
      assert.equal("EBADMSG", code, msg)
    end
  end)

  it("cannot make the ids of many events use more memory than the file", function()
    -- 400 attrs, each with the whole file as its ids: a thousand times the file's size.
    local attrs, entry = {}, m.attr{}
    for i = 1, 400 do attrs[i] = {attr = entry} end
    local bytes = m.file{attrs = attrs, data = ""}
    local at = 104
    local out = {bytes:sub(1, at)}
    for _ = 1, 400 do out[#out + 1] = entry .. m.u64(0) .. m.u64(math.floor(#bytes / 8) * 8) end
    refused(table.concat(out) .. bytes:sub(at + 400 * 144 + 1), "more events or ids than the file can hold")
  end)

  it("may have features that lie beyond the file's end or are invalid: the others are read", function()
    local good = m.string "host"
    local bytes = m.file{attrs = plain, data = sample(1), features = {[3] = good, [4] = m.u32(100000) .. "short",
      [7] = m.u32(1), [11] = m.u32(4294967295) .. m.string "perf", [13] = m.u32(4000000000), [12] = m.u32(9) .. m.u32(8),
      [2] = m.u32(67) .. m.u16(0) .. m.u16(8), [16] = m.u32(1) .. m.u32(5), [20] = m.u32(1) .. m.u32(4294967295),
      [22] = m.u64s{1, 2, 1, 0, 5, {0, 0x80000000}}, [28] = m.u32(268435456) .. m.string "a"}}
    with_path(bytes, function(path)
      local file = assert(data.open(path))
      assert.equal("host", file.features.hostname)
      assert.equal("host", file.header.hostname)
      local damaged = {}
      for name in pairs(file.damaged) do damaged[#damaged + 1] = name end
      table.sort(damaged)
      assert.same({"build_id", "cache", "cmdline", "cpu_pmu_caps", "cpu_topology", "event_desc", "mem_topology", "nrcpus",
        "osrelease", "pmu_mappings"}, damaged)
      assert.equal(1, file:read_record().ip)
      file:close()
    end)
    with_path(bytes:sub(1, 104 + 8 + 144 + 32 + 20), function(path) -- the table of features cut off
      local file = assert(data.open(path))
      assert.is_nil(file.features.hostname)
      assert.matches("feature hostname", file.damaged.hostname)
      assert.equal(1, file:read_record().ip)
      file:close()
    end)
  end)
end)

describe("records", function()
  it("before the end of a file that is cut off are all read", function()
    local whole = m.file{attrs = plain, data = sample(1) .. sample(2) .. sample(3)}
    for n = #whole - 3 * 32, #whole - 1 do
      local left = #whole - 3 * 32
      local ips, msg, code, count = read(whole:sub(1, n))
      assert.equal(math.floor((n - left) / 32), #ips)
      assert.equal("EBADMSG", code)
      assert.matches("the data ends within a record, at offset " .. (left + math.floor((n - left) / 32) * 32), msg)
      assert.equal(1, count)
    end
  end)

  it("of size 0 or less than a header end the reading", function()
    for size = 0, 7 do
      local bytes = m.file{attrs = plain, data = sample(1) .. m.u32(9) .. m.u16(2) .. m.u16(size) .. sample(2)}
      local ips, msg, code = read(bytes)
      assert.same({1}, ips)
      assert.equal("EBADMSG", code)
      assert.matches("a record's size is smaller than its header, at offset 288", msg)
    end
  end)

  it("with inner lengths that do not fit are left out and reported", function()
    local attrs = {{attr = m.attr{sample_type = 1 + 32, sample_id_all = true}, ids = {1}}}
    local function chain(n) return m.record(9, 2, m.u64s{n, n, 5}) end
    local bytes = m.file{attrs = attrs, data = chain(1) .. chain(2) .. chain({0xffffffff, 0xffffffff}) .. chain(1)}
    local ips, msg, code, count = read(bytes)
    assert.same({1, 1}, ips)
    assert.equal("EBADMSG", code)
    assert.matches("a record's fields exceed its size, at offset 288", msg)
    assert.equal(2, count)
    with_path(bytes, function(path) -- one by one
      local file = assert(data.open(path))
      assert.equal(1, file:read_record().ip)
      assert.equal("EBADMSG", (select(3, file:read_record())))
      assert.equal("EBADMSG", (select(3, file:read_record())))
      assert.equal(1, file:read_record().ip)
      assert.same({n = 1}, {n = select("#", file:read_record())})
      for i, ip in file:each("sample", "ip") do error(i .. ip) end
      file:close()
    end)
    local big = perfdata.maker ">"
    local swapped = big.file{attrs = {{attr = big.attr{sample_type = 1 + 32}}}, data = big.record(9, 2, big.u64s{1, 9, 5})
      .. big.record(9, 2, big.u64s{2, 1, 5})}
    ips, msg, code = read(swapped)
    assert.same({2}, ips)
    assert.equal("EBADMSG", code, msg)
  end)

  it("that announce more data than the file has end the reading", function()
    local function aux(n) return m.record(71, 0, m.u64s{n, 0, 0}, m.u32(0), m.u32(0), m.u32(0), m.u32(0)) end
    for _, n in ipairs{33, 1e9, {0xffffffff, 0xffffffff}, {0xffffff00, 0x7fffffff}} do
      local ips, msg, code = read(m.file{attrs = plain, data = sample(1) .. aux(n) .. sample(2)})
      assert.same({1}, ips)
      assert.equal("EBADMSG", code)
      assert.matches("longer than the file", msg)
    end
    local whole = m.file{attrs = plain, data = aux(100) .. ("x"):rep(100)}
    with_path(whole:sub(1, -50), function(path)
      local file = assert(data.open(path))
      assert.equal("auxtrace", file:read_record().type)
      assert.equal("EBADMSG", (select(3, file:read_record())))
      file:close()
    end)
    with_path(whole:sub(1, -50), function(path)
      local file = assert(data.open(path))
      assert.equal(100, file:read_record().data_size)
      assert.equal(51, #file:payload(100))
      assert.equal("EBADMSG", (select(3, file:payload(100))))
      file:close()
    end)
  end)

  it("of a pipe may have invalid attrs and features", function()
    for _, bad in ipairs{m.record(64, 0), m.record(64, 0, ("\0"):rep(63)), m.record(64, 0, m.attr{}:sub(1, 100)),
      m.record(64, 0, m.u32(0) .. m.u32(4294967295) .. ("\0"):rep(100)), m.record(80, 0), m.record(80, 0, m.u64(12), "x"),
      m.record(80, 0, m.u64{0xffffffff, 0xffffffff}), m.record(78, 0), m.record(78, 0, m.u64(1)), m.record(78, 0, m.u64s{3, 1}),
      m.record(67, 0, "abc"), m.record(65, 0, "a"), m.record(66, 0), m.record(69, 0, m.u64{0, 0x80000000}),
      m.record(73, 0, m.u64(4000000000)), m.record(74, 0, m.u16(0), m.u16(65535)), m.record(74, 0, m.u16(1), m.u16(9), m.u16(3)),
      m.record(70, 0), m.record(72, 0, "x"), m.record(75, 0, m.u64(3)), m.record(79, 0, "abcd")} do
      for _, order in ipairs{"<", ">"} do
        local o = perfdata.maker(order)
        local text = order == "<" and bad or bad:sub(4, 4) .. bad:sub(3, 3) .. bad:sub(2, 2) .. bad:sub(1, 1) .. bad:sub(6, 6)
          .. bad:sub(5, 5) .. bad:sub(8, 8) .. bad:sub(7, 7) .. bad:sub(9)
        with_path(o.pipe(text .. o.record(68, 0)), function(path)
          local file = assert(data.open(path))
          local last
          for rec in file:records() do
            last = rec.type
            assert.is_string(tostring(rec))
            rec:totable()
          end
          assert.equal("finished_round", last)
          file:close()
        end)
      end
    end
  end)

  it("without any attr are refused one by one", function()
    local _, _, code, count = read(m.pipe(sample(1) .. sample(2) .. m.record(68, 0)))
    assert.equal("EBADMSG", code)
    assert.equal(2, count)
  end)

  it("end at a failed read", function()
    with_path(m.file{attrs = plain, data = sample(1):rep(20000)}, function(path)
      local file = assert(data.open(path))
      local n, last = 0, nil
      core.fault("pread", "EIO", 0)
      for rec in file:records() do n, last = n + 1, rec.ip end
      core.fault()
      assert.equal(1, last)
      assert.is_true(n > 0 and n < 20000)
      local msg, code, count = file:error()
      assert.matches("Input/output error", msg)
      assert.same({"EIO", 1}, {code, count})
      file:close()
    end)
    with_path(m.file{attrs = plain, data = sample(1)}, function(path)
      for _, call in ipairs{"open", "fstat", "pread"} do
        core.fault(call, "EIO", 0)
        local file, _, code = data.open(path)
        core.fault()
        assert.is_nil(file)
        assert.equal("EIO", code)
      end
    end)
  end)
end)

describe("a file from a real machine", function()
  it("with a sample of size 0 gives the records before it", function()
    requires{corpus = "perf.data.piped.corrupted.zero_size_sample-3.2"}
    local file = assert(data.open(util.corpus_path "perf.data.piped.corrupted.zero_size_sample-3.2"))
    local types, n = {}, 0
    for rec in file:records() do
      types[rec.type] = (types[rec.type] or 0) + 1
      n = n + 1
    end
    assert.equal(570, n)
    assert.same({header_attr = 1, header_event_type = 1, mmap = 468, comm = 100}, types)
    local msg, code = file:error()
    assert.equal("EBADMSG", code)
    assert.matches("a record's size is smaller than its header, at offset 49104", msg)
    file:close()
  end)
end)
