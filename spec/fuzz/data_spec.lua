--- For any bytes, reading a perf.data file gives records, or nil with a reason, and raises no error: the header, the features,
-- every record and all its fields, also as text. (data_fuzz.c does the same for the core, a million times.)
--
-- The files are valid ones that were damaged, by a generator with a fixed seed ($FUZZ_SEED), so that a failure can be reproduced;
-- $FUZZ_ROUNDS is their number.
local data = require "perf.data"
local perfdata = require "spec.support.perfdata"
local util = require "spec.support.util"

local state = tonumber(os.getenv("FUZZ_SEED") or 1)

-- 0 to n - 1, the same on every interpreter.
local function random(n)
  state = (state * 16807) % 2147483647
  return state % n
end

local function features(m)
  return {[2] = m.record(67, 1, m.u32(-1), ("\1"):rep(20), m.u32(0), m.text "/bin/a"), [3] = m.string "host",
    [6] = m.string "x86_64", [7] = m.u32(2) .. m.u32(2), [10] = m.u64(5), [11] = m.u32(1) .. m.string "perf",
    [12] = m.u32(1) .. m.u32(128) .. m.attr{} .. m.u32(1) .. m.string "cycles" .. m.u64(1),
    [13] = m.u32(1) .. m.string "0-1" .. m.u32(1) .. m.string "0" .. m.u64s{0, 1} .. m.u32(1) .. m.string "0-1" .. m.u64(0),
    [14] = m.u32(1) .. m.u32(0) .. m.u64s{5, 4} .. m.string "0-1", [16] = m.u32(1) .. m.u32(4) .. m.string "cpu",
    [17] = m.u32(1) .. m.string "{a,b}" .. m.u64(2), [18] = m.u64s{1, 100, 48},
    [20] = m.u32(1) .. m.u32(1) .. m.u64s{1, 2} .. m.string "Data" .. m.string "32K" .. m.string "0", [21] = m.u64s{1, 2},
    [22] = m.u64s{1, 4096, 1, 0, 64, 64, 7}, [27] = m.u32(1) .. m.u64s{1, 1}, [28] = m.u32(1) .. m.string "a" .. m.string "b",
    [29] = m.u64s{1, 2, 3}, [30] = m.u32(1) .. m.string "cpu" .. m.string "0", [31] = m.u32(1) .. m.u32(0) .. m.string "cpu",
    [33] = m.u64(62)}
end

local function u32s(m, ...)
  local out = {...}
  for i = 1, #out do out[i] = m.u32(out[i]) end
  return table.concat(out)
end

local function records(m)
  local tail = m.u64s{1, 2, 1}
  return table.concat{m.record(1, 1, m.u64s{1, 2, 3, 4}, m.text "[kernel]", tail), m.record(3, 0, m.u64(1), m.text "comm", tail),
    m.record(10, 2, m.u64s{1, 2, 3, 4, 5, 6, 7, 8}, m.text "/lib/a", tail), m.record(15, 0, m.u64(7), tail),
    m.record(16, 0, m.u64s{1, 2, 3, 4, 5, 6}, tail), m.record(17, 0, m.u64s{1, 2}, m.text "f", tail),
    m.record(20, 0, m.u64(1), m.u16(2), m.u16(2), "abcd", tail), m.record(11, 0, m.u64s{1, 2, 3}, tail),
    m.record(9, 2, m.u64s{1, 2, 3, 4, 9, 2, 500, 400, 30, 7, 40, 8, 2, 5, 6}, m.u32(4), "raw.", m.u64s{1, 1, 2, 3, 2, 10, 16},
      "sixteen bytes...", m.u64(8)),
    m.record(68, 0), m.record(69, 0, m.u64s{1, 1, 0, 0, 5}), m.record(70, 0, m.u64s{1, 5}),
    m.record(71, 0, m.u64s{8, 0, 0, 0, 0}), "auxtrace", m.record(72, 0, u32s(m, 1, 2, 3, 4, 5, 0), m.u64s{6, 7}, ("e"):rep(64)),
    m.record(73, 0, m.u64s{1, 55}, "sh" .. ("\0"):rep(14)), m.record(74, 0, m.u16(0), m.u16(2), m.u16(0), m.u16(1)),
    m.record(75, 0, m.u64s{1, 2, 3}), m.record(76, 0, m.u64s{1, 2, 3, 4, 5}), m.record(77, 0, m.u64s{1, 2}),
    m.record(78, 0, m.u64s{2, 1}, m.text "name"), m.record(79, 0, m.u64s{1, 2, 3, 4, 5, 6}), m.record(82, 0)}
end

local SAMPLE = 1 + 2 + 4 + 16 + 32 + 256 + 1024 + 2048 + 4096 + 8192 + 65536

local function whole(m, pipe)
  local attr = m.attr{sample_type = SAMPLE, read_format = 15, branch_sample_type = 8, sample_regs_user = 1, sample_id_all = true}
  if not pipe then return m.file{attrs = {{attr = attr, ids = {1}}}, data = records(m), features = features(m)} end
  local front = {}
  for bit, section in pairs(features(m)) do front[#front + 1] = m.record(80, 0, m.u64(bit), section) end
  table.sort(front)
  return m.pipe(table.concat(front) .. m.record(64, 0, attr, m.u64(1)) .. m.record(65, 0, m.u64(0), m.text "cycles")
    .. m.record(67, 2, m.u32(-1), ("\1"):rep(24), m.text "/bin/a") .. m.record(66, 0, u32s(m, 8, 0)) .. "tracing."
    .. records(m))
end

local function damaged(bytes)
  for _ = 1, 1 + random(3) do
    local at, how = random(#bytes) + 1, random(5)
    if how == 0 then
      bytes = bytes:sub(1, at)
    elseif how == 1 then
      bytes = bytes:sub(1, at - 1) .. ("\255"):rep(8) .. bytes:sub(at + 8)
    elseif how == 2 then
      bytes = bytes:sub(1, at - 1) .. ("\0"):rep(4) .. bytes:sub(at + 4)
    else
      bytes = bytes:sub(1, at - 1) .. string.char(random(256)) .. bytes:sub(at + 1)
    end
  end
  return bytes
end

local codes = {EBADMSG = true, ENOSYS = true, EFBIG = true}

-- Calls everything that a file offers.
local function read_all(path)
  local file, msg, code = data.open(path)
  if not file then
    assert(type(msg) == "string" and codes[code], code)
    return 0
  end
  for _, f in ipairs{"tracing_data", "bpf_prog_info", "hostname"} do
    local _ = file.features[f]
  end
  for name, why in pairs(file.damaged) do assert(type(name) == "string" and type(why) == "string") end
  local n = 0
  for rec in file:records() do
    n = n + 1
    assert(type(rec.type) == "string" and type(rec:totable()) == "table" and type(tostring(rec)) == "string")
    if n % 2 == 0 then file:payload(100) end
  end
  for _, e in ipairs(file.attrs) do assert(type(e.name) == "string" and type(e.attr) == "table") end
  msg, code = file:error()
  assert(msg == nil or type(msg) == "string" and codes[code], code)
  file:close()
  return n, msg
end

describe("a damaged perf.data file", function()
  local files = {}
  for _, order in ipairs{"<", ">"} do
    for _, pipe in ipairs{true, false} do files[#files + 1] = whole(perfdata.maker(order), pipe) end
  end

  it("is read without an error if it is not damaged", function()
    util.with_tmpname(function(path)
      for i, bytes in ipairs(files) do
        util.write_file(path, bytes)
        assert.same({i % 2 == 1 and 47 or 22}, {read_all(path)})
      end
    end)
  end)

  it("raises nothing", function()
    local rounds = tonumber(os.getenv("FUZZ_ROUNDS")) or (os.getenv("PERF_GCSTRESS") or os.getenv("PERF_SAN")) and 200 or 1500
    local good = 0
    util.with_tmpname(function(path)
      for i = 1, rounds do
        local seed, bytes = state, damaged(files[1 + random(#files)])
        util.write_file(path, bytes)
        local ok, result = pcall(read_all, path)
        if not ok then error(("round %d, FUZZ_SEED=%d: %s"):format(i, seed, tostring(result))) end
        good = good + result
      end
    end)
    assert.is_true(good > rounds)
  end)
end)
