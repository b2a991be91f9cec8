-- The order in which perf.event.merge returns the records of several rings. The rings are tables here: records that have been
-- written into them, and records that are written while they are being read.
local bytes = require "spec.support.bytes"
local core = require "perf.core"
local merge = require "perf.event.merge"

local b = bytes.native
local timed, untimed = core.layouts(), core.layouts()
timed:add { sample_type = { "time", "period" } }
untimed:add { sample_type = { "period" } }

local function at(time, tag) return timed:record(b.record(9, 0, b.u64(time), b.u64(tag or 0))) end
local function without(tag) return untimed:record(b.record(9, 0, b.u64(tag or 0))) end

-- A ring: on_read is called before each read, and may write more.
local function ring(...)
  local r = { queue = { ... }, reads = 0 }
  function r.is_open() return true end
  function r:is_mapped() return not self.unmapped end
  function r:has_record()
    if self.on_look then self.on_look() end
    return self.queue[1] ~= nil
  end
  function r:read_record()
    self.reads = self.reads + 1
    local rec = table.remove(self.queue, 1)
    if rec == "bad" then return nil, "bad", "EBADMSG" end
    return rec
  end
  function r:info() return self.attr and { attr = self.attr } or {} end
  return r
end

local wait = core.wait

describe("a reader of several rings", function()
  local ended
  before_each(function()
    ended = "ETIMEDOUT"
    core.wait = function() return nil, "nothing", ended end
  end)
  after_each(function() core.wait = wait end)

  local function drain(reader)
    local list = {}
    for rec in reader:records() do list[#list + 1] = rec.time or "-" end
    return list
  end

  it("gives all records in the order of their times", function()
    local r = merge.reader { ring(at(1), at(4), at(9)), ring(), ring(at(2), at(3), at(10)), ring(at(5)) }
    assert.is_true(r:has_record())
    assert.is_true(r:poll(0))
    assert.same({ 1, 2, 3, 4, 5, 9, 10 }, drain(r))
    assert.is_false(r:has_record())
    local rec, message, code = r:read_record()
    assert.is_nil(rec)
    assert.is_string(message)
    assert.equal("ETIMEDOUT", code)
  end)

  it("gives records of the same time in the order in which it read them", function()
    local r = merge.reader { ring(at(1, 1), at(1, 2)), ring(at(1, 3)), ring(at(1, 4)) }
    local tags = {}
    for rec in r:records() do tags[#tags + 1] = rec.period end
    assert.same({ 1, 2, 3, 4 }, tags)
  end)

  it("sorts records that are out of order within a ring", function()
    assert.same({ 1, 2, 3, 4, 5 }, drain(merge.reader { ring(at(2), at(1), at(4)), ring(at(5), at(3)) }))
  end)

  it("distinguishes times to the nanosecond, whatever the clock", function()
    local list = {}
    for i = 9, 0, -1 do list[#list + 1] = at("0x18d3a2b1f4c5d6e" .. i) end
    local r = merge.reader { ring(list[1], list[3], list[5], list[7], list[9]), ring(list[2], list[4], list[6], list[8],
      list[10]) }
    local got = {}
    for rec in r:records() do got[#got + 1] = core.hex(rec.time):sub(-1) end
    assert.equal("0123456789", table.concat(got))
  end)

  it("holds a record until every ring was read again", function()
    -- While the second ring is read, an earlier record is written into the first.
    local first, second = ring(), ring(at(20))
    local written
    second.on_look = function()
      if not written then
        written = true
        table.insert(first.queue, at(10))
      end
    end
    assert.same({ 10, 20 }, drain(merge.reader { first, second }))
  end)

  it("holds no more records than its limit, and keeps the order", function()
    local first, second = ring(), ring()
    for i = 1, 100 do
      first.queue[i] = at(2 * i)
      second.queue[i] = at(2 * i + 1)
    end
    local r = merge.reader({ first, second }, { ahead = 4 })
    local last, most, n = 0, 0, 0
    for rec in r:records() do
      assert.is_true(rec.time > last)
      last, n = rec.time, n + 1
      most = math.max(most, first.reads + second.reads - n)
    end
    assert.equal(200, n)
    assert.is_true(most <= 16)
  end)

  it("holds records that may be later than those in a full ring", function()
    -- The first ring has more records than one round takes; the second is far ahead of it.
    local first, second = ring(), ring(at(1000))
    for i = 1, 50 do first.queue[i] = at(i) end
    local list = drain(merge.reader({ first, second }, { ahead = 3 }))
    assert.equal(51, #list)
    for i = 1, 50 do assert.equal(i, list[i]) end
    assert.equal(1000, list[51])
  end)

  it("reads all records of a ring in overwrite mode, which gives the latest first", function()
    local r = ring()
    r.attr = { write_backward = true }
    for i = 100, 1, -1 do r.queue[#r.queue + 1] = at(i) end
    local list = drain(merge.reader({ r, ring(at(50)) }, { ahead = 4 }))
    assert.equal(101, #list)
    for i = 2, 101 do assert.is_true(list[i - 1] <= list[i]) end
  end)

  -- The story: a round took all records of a ring in overwrite mode, also those that were written while it read. If they came
  -- faster than it read them, the round did not end, and held ever more records. This ring has a new one at each look.
  for _, write in ipairs { at, function() return without() end, function() return "bad" end } do
    it("a round ends although a ring in overwrite mode is written faster than it is read", function()
      local r, n = ring(), 0
      r.attr = { write_backward = true }
      r.on_look = function()
        n = n + 1
        assert.is_true(n < 1000, "the round does not end")
        table.insert(r.queue, 1, write(n))
      end
      local reader = merge.reader({ r, ring(at(5)) }, { ahead = 4 })
      for _ = 1, 20 do reader:read_record() end
    end)
  end

  it("returns the records of rounds that ended early in order", function()
    -- The first ring is written while it is read: each of its pieces is given from the latest record back.
    local pieces = { { 8, 6, 5 }, { 15, 12, 11, 9 }, { 30, 20, 18, 16 }, {} }
    local r, n = ring(), 0
    r.attr = { write_backward = true }
    r.on_look = function()
      if r.queue[1] or n == #pieces then return end
      n = n + 1
      for i, time in ipairs(pieces[n]) do r.queue[i] = at(time) end
    end
    assert.same({ 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 17, 18, 20, 30 }, drain(merge.reader({ r, ring(at(7), at(10), at(17)) },
      { ahead = 2 })))
  end)

  it("keeps a record without a time after the one before it", function()
    assert.same({ "-", 1, 2, "-", "-", 3, 4 }, drain(merge.reader { ring(at(2), without(), without(), at(4)), ring(without(),
      at(1), at(3)) }))
    assert.same({ "-", "-", "-" }, drain(merge.reader { ring(without(), without()), ring(without()) }))
  end)

  it("reports a damaged ring, and continues", function()
    local r = merge.reader { ring(at(1), "bad", at(3)), ring(at(2)) }
    local codes, times = {}, {}
    repeat
      local rec, _, code = r:read_record()
      if rec then times[#times + 1] = rec.time else codes[#codes + 1] = code end
    until code == "ETIMEDOUT"
    assert.same({ "EBADMSG", "ETIMEDOUT" }, codes)
    assert.same({ 1, 2, 3 }, times)
    assert.same({ 1, 2, 3 }, drain(merge.reader { ring(at(1), "bad", at(3)), ring("bad", at(2)) }))
  end)

  it("skips events without a ring", function()
    local counts, other = ring(at(1)), ring(at(1))
    counts.unmapped, other.unmapped = true, true
    local r = merge.reader { counts, ring(at(2)) }
    assert.same({ 2 }, drain(r))
    counts.unmapped = nil
    assert.same({ 1 }, drain(r))
    local ok, err = pcall(drain, merge.reader { other })
    assert.is_false(ok)
    assert.is_truthy(err:find("call map() first", 1, true))
  end)

  it("ends when all watched processes have ended", function()
    ended = "EPIPE"
    local r = merge.reader { ring(at(1)), ring() }
    assert.same({ 1 }, drain(r))
    assert.equal("EPIPE", select(3, r:read_record(1)))
    assert.equal("EPIPE", select(3, r:poll(1)))
  end)

  it("refuses unknown options", function()
    local r = merge.reader { ring() }
    assert.has_error(function() r:records { time = 1 } end,
      "bad argument #1 to 'records' (unknown option 'time'; did you mean 'timeout'?)")
  end)

  it("keeps the order of many random records", function()
    local seed = 7
    local function random(n)
      seed = seed * 16807 % 2147483647
      return seed % n
    end
    for _ = 1, 50 do
      local rings, all = {}, 0
      for i = 1, 1 + random(6) do
        rings[i] = ring()
        local time = 0
        for k = 1, random(60) do
          time = time + random(4)
          rings[i].queue[k] = at(time)
          all = all + 1
        end
      end
      local list = drain(merge.reader(rings, { ahead = 1 + random(20) }))
      assert.equal(all, #list)
      for i = 2, #list do assert.is_true(list[i - 1] <= list[i]) end
    end
  end)
end)
