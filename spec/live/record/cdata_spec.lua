-- Reading many records: fields without Records, Records that are used again, and on LuaJIT Records that are cdata.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local rings = require "spec.support.rings"

local faults, touch, raises = rings.faults, rings.touch, rings.raises
local MORE = { sample_id_all = true,
  sample_type = { "ip", "tid", "time", "addr", "id", "stream_id", "cpu", "period", "identifier" } }
local FIELDS = { "ip", "pid", "tid", "time", "addr", "id", "stream_id", "cpu", "period", "event_id" }

describe("ev:each", function()
  setup(function() rings.compiler(false) end)
  teardown(function() rings.compiler(true) end)
  after_each(rings.close_all)

  it("gives the fields of every sample in the ring, with a number from 1 on", function()
    local ev = faults(MORE)
    touch(ev, 64)
    local n, seen = 0, {}
    for i, tid, addr, id in ev:each("sample", "tid", "addr", "event_id") do
      n = n + 1
      assert.same({ n, kit.gettid(), ev:id() }, { i, tid, id })
      seen[perf.hex(addr)] = true
    end
    assert.equal(64, n)
    local different = 0
    for _ in pairs(seen) do different = different + 1 end
    assert.equal(64, different)
    for _ in ev:each("sample", "ip") do error "there is no more" end
  end)

  it("gives the same values as Records", function()
    local ev, same = faults(MORE), faults(MORE)
    assert(ev:enable() and same:enable())
    kit.touch_pages(32)
    assert(ev:disable() and same:disable())
    local addresses = {}
    for rec in ev:records() do addresses[#addresses + 1] = rec.addr end
    local i = 0
    for n, addr, comm in same:each("sample", "addr", "comm") do
      i = i + 1
      assert.same({ i, addresses[i] }, { n, addr })
      assert.is_nil(comm)
    end
    assert.equal(#addresses, i)
  end)

  it("skips other types, and may be left by break", function()
    local ev = rings.open({ event = "dummy", task = true, sample_id_all = true, sample_type = { "tid", "time" } }, nil,
      { pages = 8 })
    ev:enable()
    for _ = 1, 3 do kit.fork(function() end) end
    ev:disable()
    local step, state, first = ev:each("fork", "pid", "ppid", "time")
    local i, pid, ppid, time = step(state, first)
    assert.same({ 1, kit.getpid(), true }, { i, ppid, time > 0 })
    assert.is_true(pid ~= ppid)
    assert.equal("fork", ev:read_record().type)
    for _ in ev:each("exit") do error "it has none: those are its children's" end
    assert.is_false(ev:has_record())
  end)

  it("counts lost records", function()
    local ev = faults({ read_format = { "lost" } }, { pages = 1 })
    touch(ev, 1000)
    local n = 0
    for i in ev:each("sample") do n = i end
    assert.equal(1000, n + ev:lost())
  end)

  it("reads records of any size", function()
    local ev = faults { sample_type = { "addr", "stack_user" }, sample_stack_user = 4096 }
    touch(ev, 8)
    local addresses, n = {}, 0
    for i, addr in ev:each("sample", "addr") do
      addresses[perf.hex(addr)], n = true, i
    end
    assert.equal(8, n)
    for _ in pairs(addresses) do n = n - 1 end
    assert.equal(0, n)
  end)

  it("has one function for all loops of a kind, which LuaJIT compiles once", function()
    rings.needs_compiler() -- on other interpreters each loop has a closure in C
    local ev = faults()
    local step, state = ev:each("sample", "addr")
    local same, other = ev:each("sample", "addr")
    assert.equal(step, same)
    assert.is_true(state ~= other)
  end)

  it("raises an error for unknown types and fields, and for a closed event", function()
    local ev = faults()
    raises("no record of the kernel has the type 'smaple'", function() ev:each("smaple") end)
    raises("field 'callchain' is not one number or string; read it from a Record, as records() gives them",
      function() ev:each("sample", "callchain") end)
    raises("field 'x y' is not one number or string)", function() ev:each("sample", "x y") end)
    raises("field 'tod' is not one number or string; did you mean 'tid'?", function() ev:each("sample", "ip", "tod") end)
    local step, state, first = ev:each("sample", "addr")
    touch(ev, 1)
    assert.equal(1, (step(state, first)))
    ev:close()
    raises("Event is closed", step, state, 1)
    raises("Event is closed", function() ev:each("sample") end)
    raises("not mapped", function() faults(nil, false):each("sample") end)
  end)
end)

describe("a Record", function()
  setup(function() rings.compiler(false) end)
  teardown(function() rings.compiler(true) end)
  after_each(rings.close_all)

  it("outlives its event, and still has its label", function()
    local ev = faults(MORE)
    touch(ev, 1)
    local rec, id = ev:read_record(), ev:id()
    local text = tostring(rec)
    ev:close()
    ev = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.same({ "page-faults:u", id, 1, "page-faults:u" }, { rec.event, rec.event_id, rec.period, rec:info().label })
    assert.equal(text, tostring(rec))
  end)

  it("has the same fields of a sample as a record that is a userdata", function()
    local ev = faults(MORE)
    touch(ev, 1)
    local rec = ev:read_record()
    local layouts = core.layouts()
    local attr = ev:attr()
    layouts:add(attr, { label = "page-faults:u" })
    local other = layouts:record(rec:bytes()) -- a userdata on every interpreter
    layouts:close()
    for _, field in ipairs(FIELDS) do
      assert.is_truthy(rec[field] ~= nil, field)
      assert.equal(other[field], rec[field], field)
    end
    assert.same(other:totable(), rec:totable())
    assert.equal(tostring(other), tostring(rec))
    for _, name in ipairs(core.record_fields()) do assert.same(other[name], rec[name], name) end
    assert.is_nil(rec.no_such_field)
    assert.is_nil(rec[1])
    assert.has_error(function() rec.ip = 1 end)
  end)

  it("is filled again if it has room, and otherwise a new one is made", function()
    local small, large = faults { sample_type = { "addr" } }, faults(MORE)
    touch(small, 2)
    touch(large, 2)
    local first = small:read_record()
    local addr = first.addr
    local again = small:read_record(0, first)
    assert.equal(first, again)
    assert.is_true(first.addr ~= addr)
    local grown = large:read_record(0, first)
    assert.is_true(first ~= grown)
    assert.equal(grown, large:read_record(0, grown))
    assert.is_nil(first.tid)
    assert.equal(kit.gettid(), grown.tid)
  end)

  it("is not read with a wrong timeout, or into another object", function()
    local ev = faults()
    touch(ev, 1)
    raises("bad argument #1 to 'read_record'", function() ev:read_record "now" end)
    raises("0 or more seconds", function() ev:read_record(-1) end)
    raises("Record expected, got table", function() ev:read_record(0, {}) end)
    assert.equal("sample", ev:read_record().type)
  end)

  it("has the label of the event that wrote it into another event's ring", function()
    local a, b = faults(MORE), faults({ event = "minor-faults:u", sample_type = MORE.sample_type, sample_id_all = true }, false)
    assert(b:set_output(a))
    assert(a:enable() and b:enable())
    kit.touch_pages(1)
    assert(a:disable() and b:disable())
    local names = {}
    for rec in a:records() do names[#names + 1] = rec.event end
    table.sort(names)
    assert.same({ "minor-faults:u", "page-faults:u" }, names)
  end)
end)

describe("LuaJIT", function()
  after_each(rings.close_all)

  local function reading(fn)
    return function()
      rings.needs_compiler()
      local ev = faults(MORE, { pages = 256 })
      touch(ev, 1)
      for _ in ev:records() do end -- the first record of its kind gets its tag
      touch(ev, 2000)
      rings.compiled("packed", function() fn(ev, 1900) end)
    end
  end

  it("compiles a loop that creates Records", reading(function(ev, n)
    local sum = 0
    for rec in ev:records() do
      sum = sum + rec.tid + rec.time
      n = n - 1
      if n == 0 then break end
    end
  end))

  it("compiles a loop that fills the same Record, which leaves no garbage", reading(function(ev, n)
    local sum, rec = 0, ev:read_record()
    local function read(times)
      for _ = 1, times do
        rec = ev:read_record(0, rec)
        sum = sum + rec.ip + rec.tid + rec.time + rec.addr
      end
    end
    read(500)
    collectgarbage()
    collectgarbage "stop"
    local before = collectgarbage "count"
    read(n - 501)
    local after = collectgarbage "count"
    collectgarbage "restart"
    assert.is_true((after - before) * 1024 < 8 * n, "a Record has 56 bytes, the compiler a few for all")
  end))

  it("compiles a loop over fields", reading(function(ev, n)
    local sum = 0
    for i, ip, time in ev:each("sample", "ip", "time") do
      sum = sum + ip + time
      if i == n then break end
    end
  end))
end)
