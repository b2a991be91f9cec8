--- The functions that make events. Their specs that need a kernel are in spec/live/names/names_spec.lua.
local core = require "perf.core"
local events = require "perf.names.constructors"
local golden = require "spec.support.golden"

-- fn raises the error: bad argument #position to 'name' (part
local function raises(position, part, fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, part)
  assert.matches("names/constructors_spec.lua:%d+: bad argument #" .. position, message)
  assert.matches(part, message, 1, true)
end

local function labels(list)
  local out = {}
  for i, attr in ipairs(list) do out[i] = attr.label end
  return out
end

describe("attr", function()
  it("is a table of attr fields", function()
    golden.same({type = 1, config = 2, exclude_kernel = true, exclude_hv = true}, events.attr("page-faults:u"))
    golden.same({type = 1, config = 1, sample_freq = 99}, events.attr{event = "task-clock", sample_freq = 99})
    assert.equal("ns", events.attr("task-clock").unit)
    raises(1, "cylces: unknown event", events.attr, "cylces")
    raises(1, "event name or table expected, got nil", events.attr)
  end)

  it("names the function that was called, and the line that called it", function()
    local ok, message = pcall(function() return (events.attr("cylces")) end)
    assert.is_false(ok)
    assert.matches("^spec/unit/names/constructors_spec.lua:%d+: bad argument #1 to 'attr' %(cylces: unknown event", message)
  end)
end)

describe("generic events", function()
  it("are returned all at once", function()
    assert.same({"cpu-cycles", "instructions", "cache-references", "cache-misses", "branch-instructions", "branch-misses",
      "bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"}, labels(events.all_hardware()))
    local software = events.all_software()
    assert.equal(12, #software)
    for i, attr in ipairs(software) do golden.same({type = 1, config = i - 1}, attr) end
    assert.equal(32, #events.all_cache())
  end)

  it("of caches are all valid combinations", function()
    assert.same({"L1-dcache-loads", "L1-dcache-load-misses", "L1-dcache-stores", "L1-dcache-store-misses"},
      labels(events.hardware_cache("L1-dcache", {"load", "store"})))
    assert.same({"LLC-loads", "LLC-stores", "iTLB-loads"},
      labels(events.hardware_cache({"LL", "ITLB"}, {"READ", "WRITE"}, "ACCESS")))
    assert.same({"dTLB-prefetch-misses"}, labels(events.hardware_cache(3, 2, 1)))
    assert.same({"node-loads"}, labels(events.hardware_cache("NODE", "read", 0)))
    assert.same({}, events.hardware_cache("iTLB", "store"))
    assert.equal(6, #events.hardware_cache("LLC"))
    assert.equal(16, #events.hardware_cache(nil, nil, "misses"))
    raises(1, "unknown cache 'L4'; there are L1-dcache, L1-icache, LLC, dTLB, iTLB, branch, node",
      events.hardware_cache, "L4")
    raises(2, "unknown cache op 'loda'; there are load, store, prefetch", events.hardware_cache, "LLC", "loda")
    raises(3, "unknown cache result '2'; there are access, misses", events.hardware_cache, "LLC", "load", {0, 2})
    raises(1, "unknown cache 'true'", events.hardware_cache, true)
  end)
end)

describe("breakpoint", function()
  it("has an address, a length and an access", function()
    golden.same({type = 5, bp_addr = 4096, bp_len = 4, bp_type = 3}, events.breakpoint{addr = 4096})
    golden.same({type = 5, bp_addr = 4096, bp_len = 8, bp_type = 2}, events.breakpoint{addr = 4096, len = 8, access = "w"})
    golden.same({type = 5, bp_addr = "0xffffffff81000000", bp_len = 1, bp_type = 3},
      events.breakpoint{addr = "0xffffffff81000000", len = 1})
    golden.same(events.attr("mem:0x1000:x"), events.breakpoint{addr = 4096, access = "x"})
    assert.equal("mem:0x1000/8:w", events.breakpoint{addr = 4096, len = 8, access = "w"}.label)
  end)

  it("names its mistakes", function()
    raises(1, "option 'addr' expected", events.breakpoint, {})
    raises(1, "option 'addr': integer expected, got table", events.breakpoint, {addr = {}})
    raises(1, "option 'addr': integer expected, got string", events.breakpoint, {addr = "main"})
    raises(1, "option 'len': number expected, got string", events.breakpoint, {addr = 1, len = "4"})
    raises(1, "option 'len': number of bytes expected, got 0", events.breakpoint, {addr = 1, len = 0})
    raises(1, "option 'len': number of bytes expected, got 1.5", events.breakpoint, {addr = 1, len = 1.5})
    local _, machine = core.uname()
    if machine == "x86_64" then -- the story: the refusal came only when the event was opened
      raises(1, "option 'len': 1, 2, 4 or 8 expected, got 3", events.breakpoint, {addr = 1, len = 3})
      raises(1, "option 'len': 1, 2, 4 or 8 expected, got 16", events.breakpoint, {addr = 1, len = 16})
    else
      assert.equal(3, events.breakpoint{addr = 1, len = 3}.bp_len)
    end
    raises(1, "option 'access': one to three of r, w, x expected, got 'q'", events.breakpoint, {addr = 1, access = "q"})
    raises(1, "unknown option 'lne'; did you mean 'len'?", events.breakpoint, {addr = 1, lne = 4})
    raises(1, "table of options expected, got nil", events.breakpoint)
  end)
end)

describe("probes", function()
  it("name their mistakes", function()
    raises(1, "one of 'func' and 'addr' expected", events.kprobe, {})
    raises(1, "one of 'func' and 'addr' expected", events.kprobe, {func = "f", addr = 1})
    raises(1, "option 'offset': only with 'func'", events.kprobe, {addr = 1, offset = 1})
    raises(1, "option 'func': string expected, got number", events.kprobe, {func = 1})
    raises(1, "option 'func': not a name", events.kprobe, {func = ""})
    raises(1, "option 'func': not a name", events.kprobe, {func = "a\0b"})
    raises(1, "option 'ret': boolean expected, got number", events.kprobe, {func = "f", ret = 1})
    raises(1, "unknown option 'fnuc'; did you mean 'func'?", events.kprobe, {fnuc = "f"})
    raises(1, "option 'path': string expected", events.uprobe, {offset = 1})
    raises(1, "one of 'symbol' and 'offset' expected", events.uprobe, {path = "/bin/sh"})
    raises(1, "option 'offset': integer expected, got string", events.uprobe, {path = "/bin/sh", offset = "main"})
    raises(1, "unknown option 'sym'", events.uprobe, {path = "/bin/sh", sym = "main"})
    raises(1, "table of options expected, got string", events.uprobe, "/bin/sh")
  end)
end)

describe("tracepoints and PMUs", function()
  it("have names that are not paths", function()
    for _, name in ipairs{"..", ".", "", "a/b", "a\0b", "a\nb"} do
      raises(1, "cannot be a tracepoint's group", events.tracepoint, name, "x")
      raises(2, "cannot be a tracepoint's name", events.tracepoint_id, "sched", name)
      raises(1, "cannot be a PMU's name", events.pmu_type, name)
    end
    raises(1, "string expected, got nil", events.tracepoint_id)
    raises(2, "string expected, got nil", events.tracepoint, "sched")
    raises(1, "string expected, got number", events.tracepoints, 5)
    raises(1, "string expected, got number", events.list, 5)
    raises(1, "'[a': malformed pattern", events.list, "[a")
    raises(1, "'%': malformed pattern", events.tracepoints, "%")
    raises(1, "string expected, got nil", events.pmu_type)
  end)
end)

describe("64-bit numbers in names", function()
  local u64 = require "perf.base.u64"

  it("are exact", function()
    for text, hex in pairs{
      ["0"] = "0x0", ["18446744073709551615"] = "0xffffffffffffffff", ["9007199254740993"] = "0x20000000000001",
      ["0xfFfFfFfFfFfFfFfF"] = "0xffffffffffffffff", ["0x0000000000000000001"] = "0x1", ["0X10"] = "0x10",
      ["4294967296"] = "0x100000000", ["010"] = "0xa",
    } do
      assert.equal(hex, core.hex((u64.parse(text))), text)
    end
    for _, text in ipairs{"18446744073709551616", "0x10000000000000000", "99999999999999999999999"} do
      assert.is_nil((u64.parse(text)), text)
    end
    for _, text in ipairs{"", "x", "0x", "-1", "1.5", "1e3", " 1", "0x1g"} do assert.is_nil((u64.parse(text)), text) end
  end)

  it("are added up and put into ranges of bits", function()
    assert.equal("0x100000000", core.hex(u64.add("0xffffffff", 1)))
    assert.equal("0x0", core.hex(u64.add("0xffffffffffffffff", 1)))
    assert.equal("0x123456789", core.hex(u64.add("0x123450000", 0x6789)))
    assert.equal("0xffffffffffffffff", core.hex(u64.scatter("0xffffffffffffffff", {{0, 63}})))
    assert.equal("0x8000000000000000", core.hex(u64.scatter(1, {{63, 63}})))
    assert.equal("0xf00000000000000f", core.hex(u64.scatter(0xff, {{0, 3}, {60, 63}})))
    assert.is_true(u64.fits(255, 8))
    assert.is_false(u64.fits(256, 8))
    assert.is_true(u64.fits("0xffffffffffffffff", 64))
    assert.is_false(u64.fits("0xffffffffffffffff", 63))
  end)
end)

describe("perf.list", function()
  it("tells the events that this machine counts from those that it only names", function()
    requires { perf_open = "user" }
    local perf = require "perf"
    for _, row in ipairs(perf.list()) do
      if row.kind == "hardware" or row.kind == "cache" or row.kind == "software" then
        local ev, _, code = perf.open { event = row.name, exclude_kernel = true }
        if ev then ev:close() end
        if ev or code ~= "EACCES" then assert.equal(ev ~= nil, row.counted, row.name) end
      else
        assert.is_nil(row.counted, row.name)
      end
    end
    local row = perf.list "dummy"[1]
    assert.is_nil(tostring(row):find("(not counted here)", 1, true))
    row.counted = false
    assert.matches("^dummy +software +%(not counted here%) ", tostring(row))
  end)

  it("prints one line for the tracepoints of a subsystem if it is long", function()
    local list = require "perf.names.list"
    local rows = setmetatable({}, getmetatable(require "perf".list "dummy"))
    for i = 1, 150 do rows[i] = { name = "sched:e" .. i, kind = "tracepoint" } end
    assert.matches('\nsched:%*  tracepoint +150 events: perf.list "sched:%*"$', tostring(rows))
    assert.matches("\nsched:e150 ", list.text(rows) .. " ")
  end)
end)
