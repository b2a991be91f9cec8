-- Rings with bytes that no kernel writes. The memory of a mapped ring is replaced by the spec's own, into which the spec writes
-- like the kernel: data at data_head, then data_head. For the kernel the event no longer has a ring, so a wait ends with "EPIPE".
-- Twice: rings are read in C, and LuaJIT has its own access to their records.
local bytes = require "spec.support.bytes"
local core = require "perf.core"
local kit = require "testkit"
local rings = require "spec.support.rings"

local b = bytes.native
local PAGE = core.page_size()
local HEAD, TAIL = 1024, 1032 -- in struct perf_event_mmap_page
local COMM, SWITCH, LOST = 3, 14, 2

-- Maps an event's ring and replaces its memory.
local function own_ring(attr)
  local ev = rings.open(attr, nil, { pages = 1 })
  if attr.write_backward then assert(ev:pause_output()) end
  local ring = kit.rings()[1]
  assert(kit.take(ring.addr, ring.size))
  return ev, ring.addr
end

describe("a damaged ring", function()
  local ev, addr, head

  -- Write as the kernel does.
  local function write(raw)
    for i = 1, #raw do
      kit.poke(addr + PAGE + (head + i - 1) % PAGE, raw:sub(i, i))
    end
    head = head + #raw
  end
  local function publish(at) kit.poke(addr + HEAD, b.u64(at or head)) end
  local function tail()
    local raw = kit.peek(addr + TAIL, 8)
    local low = 0
    for i = 4, 1, -1 do low = low * 256 + raw:byte(i) end
    return low
  end

  local function comm(name) return b.record(COMM, 0, b.u32(1), b.u32(2), b.text(name)) end
  local function good(name)
    write(comm(name))
    publish()
    local rec = assert(ev:read_record())
    assert.equal(name, rec.comm)
    assert.equal(head, tail())
    assert.is_false(ev:has_record())
  end
  local function bad(read)
    local rec, message, code = ev[read or "read_record"](ev)
    assert.is_nil(rec)
    assert.is_string(message)
    assert.equal("EBADMSG", code)
  end
  local function damaged() return select(2, ev:lost()).damaged end

  before_each(function()
    ev, addr = own_ring { event = "dummy", comm = true }
    head = 0
  end)
  after_each(rings.close_all)

  it("is read like an intact one before the damage", function()
    requires { nostress = true }
    for i = 1, 1000 do good("name " .. i) end
  end)

  it("loses the records in it if a length is impossible, and continues with later ones", function()
    local dropped = 0
    for _, size in ipairs { 0, 1, 4, 7, 9, 15, 17, 28, 32, 4096, 65528, 65535 } do
      good "before"
      write(b.header(SWITCH, 0, size) .. b.header(SWITCH, 0, 8) .. b.header(SWITCH, 0, 8))
      publish()
      assert.is_true(ev:has_record())
      bad()
      dropped = dropped + 24
      assert.equal(dropped, damaged())
      assert.equal(head, tail())
      assert.is_false(ev:has_record())
      good "after"
    end
  end)

  it("loses only a record with invalid content", function()
    write(comm "one" .. b.record(COMM, 0, b.u64(1), "no zero!") .. comm "two")
    publish()
    assert.equal("one", ev:read_record().comm)
    bad()
    assert.equal("two", ev:read_record().comm)
    assert.equal(0, damaged())
    -- An iterator skips it.
    write(comm "one" .. b.record(COMM, 0, b.u64(1), "no zero!") .. comm "two")
    publish()
    local names = {}
    for rec in ev:records() do names[#names + 1] = rec.comm end
    assert.same({ "one", "two" }, names)
    -- Raw bytes are not checked.
    local odd = b.record(COMM, 0, b.u64(1), "no zero!")
    write(odd .. odd)
    publish()
    assert.equal(odd, ev:read_raw())
    assert.equal(odd, ev:drain())
  end)

  it("is read on after an iterator", function()
    write(comm "one" .. b.header(SWITCH, 0, 3))
    publish()
    local n = 0
    for _ in ev:records() do n = n + 1 end
    assert.equal(1, n)
    assert.equal(8, damaged())
    good "after"
  end)

  it("reads raw bytes and drains up to the damage", function()
    write(comm "one" .. comm "two" .. b.header(SWITCH, 0, 3))
    publish()
    assert.equal(comm "one", ev:read_raw())
    assert.equal(comm "two", ev:drain())
    assert.equal(8, damaged())
    assert.equal("", ev:drain())
    write(b.header(SWITCH, 0, 3))
    publish()
    bad "drain"
    write(b.header(SWITCH, 0, 0))
    publish()
    bad "read_raw"
    good "after"
  end)

  it("may have a head outside of it", function()
    for _, at in ipairs { 4, 7, PAGE + 8, 2 * PAGE, "0x7ffffffffffffff8", "0xfffffffffffffff8", "0x8000000000000000" } do
      good "before"
      local low, high = core.halves(at)
      if high == 0 then publish(head + low) else publish(at) end
      bad()
      assert.is_false(ev:has_record())
      -- From here on the positions agree again, wherever that is: start over.
      ev:close()
      ev, addr = own_ring { event = "dummy", comm = true }
      head = 0
    end
  end)

  -- Found by ring_fuzz: the tail was at an odd position from then on, and a header was read across the end of the mapping.
  it("may have a head between two records, and later a correct one", function()
    for odd = 1, 7 do
      publish(head + PAGE - 8 + odd)
      bad()
      head = head + PAGE
      publish()
      bad()
      assert.equal(head, tail())
      good "after"
    end
  end)

  it("has records that wrap around its end at every offset", function()
    requires { nostress = true }
    local long = ("n"):rep(200)
    for _ = 1, 3 * PAGE / 8 do
      write(b.record(SWITCH, 0))
      publish()
      assert.equal("switch", ev:read_record().type)
      good(long)
    end
  end)

  it("may be full to the last byte", function()
    write(b.record(SWITCH, 0))
    publish()
    ev:read_record()
    local name = ("x"):rep(PAGE - 17)
    assert.equal(PAGE, #comm(name))
    good(name)
    write(comm(name))
    publish()
    assert.equal(comm(name), ev:drain())
  end)

  it("counts the losses in lost records", function()
    write(b.record(LOST, 0, b.u64s(1, 5)) .. b.record(13, 0, b.u64(7)) .. b.record(LOST, 0, b.u64s(1, 6)))
    publish()
    local function said()
      local _, detail = ev:lost()
      return detail.records + detail.samples
    end
    assert.equal(0, said())
    ev:read_record()
    assert.equal(5, said())
    ev:drain()
    local n, detail = ev:lost()
    assert.equal(detail.kernel and 7 or 18, n) -- the kernel did not lose any of these
    assert.equal(11, detail.records)
    assert.equal(7, detail.samples)
    -- A record that is too short has no number.
    write(b.record(LOST, 0, b.u64(1)) .. b.record(13, 0))
    publish()
    bad()
    bad()
    assert.equal(18, said())
  end)

  it("returns an error at worst, whatever its bytes are", function()
    requires { nostress = true }
    local seed = 20240229
    local function random(n)
      seed = (seed * 16807) % 2147483647
      return seed % n
    end
    local codes = {}
    for _ = 1, 3000 do
      local raw = {}
      for i = 1, random(12) do
        local size = 8 + 8 * random(6)
        local body = {}
        for k = 1, size - 8 do body[k] = string.char(random(4) == 0 and random(256) or 0) end
        if random(5) == 0 then size = random(100) end
        raw[i] = b.header(random(25), random(65536), size) .. table.concat(body)
      end
      write(table.concat(raw))
      publish()
      repeat
        local rec, message, code = ev:read_record()
        if rec then
          local line = tostring(rec)
          code = "record"
          if #line == 0 or #rec:bytes() ~= rec.size then error "strange" end
          rec:totable()
        elseif not message then
          error "no message"
        end
        codes[code] = (codes[code] or 0) + 1
      until code == "EPIPE"
      if tail() ~= head % 2 ^ 32 then error "left something" end
    end
    assert.equal(3000, codes.EPIPE)
    assert.is_true(codes.EBADMSG > 1000 and codes.record > 1000)
    codes.EPIPE, codes.EBADMSG, codes.record = nil, nil, nil
    assert.same({}, codes)
  end)
end)

describe("a damaged ring in overwrite mode", function()
  local ev, addr
  before_each(function() ev, addr = own_ring { event = "dummy", comm = true, write_backward = true } end)
  after_each(rings.close_all)

  -- The latest record is at data_head, older ones after it.
  local function write(head, raw)
    for i = 1, #raw do kit.poke(addr + PAGE + (head + i - 1) % PAGE, raw:sub(i, i)) end
    kit.poke(addr + HEAD, head < 0 and b.u32(2 ^ 32 + head) .. b.u32 "0xffffffff" or b.u64(head))
  end
  local function comm(name) return b.record(COMM, 0, b.u32(1), b.u32(2), b.text(name)) end
  local function names()
    local list = {}
    for rec in ev:records() do list[#list + 1] = rec.comm end
    return table.concat(list, " ")
  end

  it("is read like an intact one before the damage", function()
    write(-48, comm "two" .. comm "one")
    assert.equal("two one", names())
    assert.is_false(ev:has_record())
    write(-96, comm "four" .. comm "three")
    assert.equal("four three", names())
  end)

  it("ends at bytes that were never written, or at a record that is partly overwritten", function()
    write(-PAGE, comm "two" .. comm "one")
    assert.equal("two one", names())
    write(-2 * PAGE - 24, comm "three" .. b.header(COMM, 0, 60000))
    assert.equal("three", names())
    assert.equal(0, select(2, ev:lost()).damaged)
  end)

  it("loses the rest if a length is impossible, and gives later records", function()
    for i, size in ipairs { 1, 7, 9, 25 } do
      write(-i * 1000 * 8, comm "new" .. b.header(COMM, 0, size) .. comm "old")
      assert.equal("new", ev:read_record().comm)
      local rec, _, code = ev:read_record()
      assert.is_nil(rec)
      assert.equal("EBADMSG", code)
    end
    assert.is_true(select(2, ev:lost()).damaged > 0)
    write(-40000, comm "after")
    assert.equal("after", ev:read_record().comm)
  end)
end)
