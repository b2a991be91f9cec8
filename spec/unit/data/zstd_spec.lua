-- Compressed records: one stream of zstd over a file's records, cut anywhere. Twice: C decompresses them.
local data = require "perf.data"
local perfdata = require "spec.support.perfdata"
local util = require "spec.support.util"

local m = perfdata.maker "<"
local attrs = {{attr = m.attr{sample_type = 1 + 2, sample_id_all = true}, ids = {1}}}

local function sample(ip) return m.record(9, 2, m.u64(ip), m.u32(1), m.u32(2)) end

local function zstd(bytes)
  local packed
  util.with_tmpname(function(path)
    util.write_file(path, bytes)
    util.execute(("zstd -q -f '%s' -o '%s.zst'"):format(path, path))
    packed = util.read_file(path .. ".zst")
    os.remove(path .. ".zst")
  end)
  return packed
end

-- The bytes as compressed records of at most n bytes each, of the older kind (any size) or the newer (padded).
local function packed_records(bytes, n, newer)
  local out = {}
  for at = 1, #bytes, n do
    local part = bytes:sub(at, at + n - 1)
    out[#out + 1] = newer and m.record(83, 0, m.u64(#part), part, ("\0"):rep(-#part % 8)) or m.record(81, 0, part)
  end
  return out
end

local function with_file(bytes, fn)
  util.with_tmpname(function(path)
    util.write_file(path, bytes)
    local file = assert(data.open(path))
    local ok, err = pcall(fn, file)
    file:close()
    if not ok then error(err, 0) end
  end)
end

local function ips(file)
  local list = {}
  for rec in file:records() do list[#list + 1] = rec.ip or rec.type end
  return list
end

describe("compressed records", function()
  local plain, expected = {}, {}
  for i = 1, 2000 do plain[i], expected[i] = sample(i), i end
  plain = table.concat(plain)

  for _, newer in ipairs{false, true} do
    it("are read if the stream is cut at any byte" .. (newer and ", padded ones too" or ""), function()
      requires{cmd = "zstd", ext = "zstd"}
      local stream = zstd(plain)
      for _, n in ipairs{1, 7, 100, 1000, 60000} do
        with_file(m.file{attrs = attrs, data = table.concat(packed_records(stream, n, newer))}, function(file)
          assert.same(expected, ips(file))
          assert.is_nil(file:error())
        end)
      end
    end)
  end

  it("may have other records between them, at unaligned positions", function()
    requires{cmd = "zstd", ext = "zstd"}
    local records = packed_records(zstd(sample(1) .. sample(2)), 11)
    with_file(m.file{attrs = attrs, data = m.record(68, 0) .. table.concat(records) .. sample(3) .. m.record(68, 0)},
      function(file)
        assert.same({"finished_round", 1, 2, 3, "finished_round"}, ips(file))
      end)
  end)

  it("may unpack to more bytes than the reader's window", function()
    requires{cmd = "zstd", ext = "zstd"}
    local n = 0
    local text = m.record(3, 0, m.u32(1), m.u32(2), m.text(("a"):rep(1000)), m.u32(0), m.u32(0))
    with_file(m.file{attrs = attrs, data = table.concat(packed_records(zstd(text:rep(5000)), 60000))}, function(file)
      for rec in file:records() do
        n = n + 1
        assert(#rec.comm == 1000)
      end
      assert.is_nil(file:error())
    end)
    assert.equal(5000, n)
  end)

  it("end the reading if they cannot be unpacked", function()
    requires{cmd = "zstd", ext = "zstd"}
    local stream = zstd(plain)
    local records = packed_records(stream:sub(1, 200) .. ("\255"):rep(3000), 500)
    with_file(m.file{attrs = attrs, data = sample(7) .. table.concat(records)}, function(file)
      assert.equal(7, ips(file)[1])
      local msg, code = file:error()
      assert.equal("EBADMSG", code)
      assert.matches("a compressed record cannot be unpacked", msg)
    end)
    with_file(m.file{attrs = attrs, data = sample(7) .. m.record(83, 0, m.u64(100), "too short") .. sample(8)}, function(file)
      assert.same({7, 8}, ips(file))
      assert.matches("the compressed data exceeds its record", (file:error()))
    end)
    with_file(m.file{attrs = attrs, data = table.concat(packed_records(zstd(sample(1) .. sample(2):sub(1, -3)), 500))},
      function(file)
        assert.same({1}, ips(file))
        assert.matches("the data ends within a compressed record", (file:error()))
      end)
  end)

  it("are skipped, with one warning, if perf.ext.zstd is not built", function()
    local kept = package.loaded["perf.ext.zstd"]
    package.loaded["perf.ext.zstd"] = nil
    package.preload["perf.ext.zstd"] = function() error("module 'perf.ext.zstd' not found") end
    finally(function()
      package.loaded["perf.ext.zstd"], package.preload["perf.ext.zstd"] = kept, nil
    end)
    local packed = m.record(81, 0, "12345678")
    local bytes = m.file{attrs = attrs, data = sample(1) .. packed .. sample(2) .. packed .. sample(3)}
    with_file(bytes, function(file)
      assert.same({1, 2, 3}, ips(file))
      local msg, code, count = file:error()
      assert.same({"ENOSYS", 1}, {code, count})
      assert.matches("perf.ext.zstd", msg)
      assert.same({2, 81}, {file:skipped()})
    end)
    with_file(bytes, function(file)
      assert.equal(1, file:read_record().ip)
      assert.equal("ENOSYS", (select(3, file:read_record())))
      assert.equal(2, file:read_record().ip)
    end)
  end)

  it("are read if perf has written them", function()
    requires{cmd = "perf", ext = "zstd", perf_open = "user"}
    util.with_tmpname(function(path)
      local output = util.shell(("perf record -z -F 5000 -e cpu-clock -o '%s' -- %s -e 'for i = 1, 3e6 do math.sin(i) end'")
        :format(path, util.lua()))
      local file = assert(data.open(path), output)
      local n = 0
      for rec in file:records() do n = n + (rec.type == "sample" and 1 or 0) end
      assert.is_nil(file:error())
      assert.equal(1, file.features.compressed.type)
      local lines = util.shell(("perf script -F ip,time -i '%s' 2>/dev/null | wc -l"):format(path))
      assert.equal(tonumber(lines), n)
      file:close()
    end)
  end)
end)
