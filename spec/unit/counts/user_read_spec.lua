-- Counters read without a system call: the arithmetic of the kernel's pages, with simulated pages and Lua functions for the CPU's
-- instructions; and the events that are read in this way. spec/vm/user_read_spec.lua reads real counters.
local kit = require "testkit"
local user_read = require "perf.event.user_read"

local CAPS = 2 + 4 + 8 -- split, counter, clock
local SHORT = 32

local function page(p, i, fields)
  p:set(i, "capabilities", CAPS)
  p:set(i, "pmc_width", 48)
  p:set(i, "index", 1)
  p:set(i, "time_mult", 1)
  for name, v in pairs(fields) do p:set(i, name, v) end
end

local function pages(...)
  local p = kit.pages(select("#", ...))
  for i = 1, select("#", ...) do page(p, i, (select(i, ...))) end
  return p
end

local function zero() return 0 end

-- {value, enabled, running} of one page.
local function one(fields, counter, clock)
  local words = pages(fields):read(32, type(counter) == "number" and function() return counter end or counter or zero,
    type(clock) == "number" and function() return clock end or clock or zero)
  return words and { words[4], words[2], words[3] }
end

describe("a counter's page", function()
  it("gives the sum of offset and counter", function()
    assert.same({ 1000, 0, 0 }, one({ offset = 1000 }))
    assert.same({ 1042, 0, 0 }, one({ offset = 1000 }, 42))
    assert.same({ 100, 0, 0 }, one({ offset = -1000 }, 1100))
  end)

  it("has an index that is one more than the counter's number", function()
    local asked
    local function counter(n) asked = n return 0 end
    one({ index = 1 }, counter)
    assert.equal(0, asked)
    one({ index = 32 }, counter)
    assert.equal(31, asked)
  end)

  it("uses the counter's highest bit as its sign, whatever its width", function()
    for _, width in ipairs { 1, 8, 31, 32, 40, 47, 48 } do
      local half = 2 ^ (width - 1)
      local base = 2 ^ 50
      assert.same({ base + half - 1, 0, 0 }, one({ pmc_width = width, offset = base }, half - 1), width)
      assert.same({ base - half, 0, 0 }, one({ pmc_width = width, offset = base }, half), width)
      assert.same({ base - 1, 0, 0 }, one({ pmc_width = width, offset = base }, 2 ^ width - 1), width)
    end
    assert.same({ 90, 0, 0 }, one({ pmc_width = 64, offset = 100 }, -10))
    assert.same({ 2 ^ 52, 0, 0 }, one({ pmc_width = 64 }, 2 ^ 52))
    assert.same({ 0, 0, 0 }, one({ pmc_width = 64, offset = -2 ^ 63 }, -2 ^ 63))
  end)

  it("ignores bits above its width", function()
    assert.same({ 5, 0, 0 }, one({ pmc_width = 32 }, 2 ^ 40 + 2 ^ 32 + 5))
  end)

  it("is exact for a counter that the kernel starts below zero and that passes zero", function()
    -- 2^31 left before the overflow: the count so far is offset + counter at each moment.
    local start = 2 ^ 31
    for _, counted in ipairs { 0, 1, 2 ^ 31 - 1 } do
      assert.same({ 7 + counted, 0, 0 }, one({ pmc_width = 32, offset = 7 + start }, start + counted))
    end
    assert.same({ 7 + 2 ^ 31, 0, 0 }, one({ pmc_width = 32, offset = 7 + start }, 0))
    assert.same({ 7 + 2 ^ 31 + 3, 0, 0 }, one({ pmc_width = 32, offset = 7 + start }, 3))
  end)

  it("is right after a reset, when the kernel has read a counter below zero as a positive number", function()
    for _, width in ipairs { 32, 40, 48 } do
      local raw = 2 ^ (width - 1) + 5000 -- started at -2^(width - 1), and 5000 counted before the reset
      for _, counted in ipairs { 0, 1, 2 ^ 30 } do
        assert.same({ counted, 0, 0 }, one({ pmc_width = width, offset = -raw }, raw + counted), width)
      end
    end
  end)

  it("adds the time since it was written to both times", function()
    assert.same({ 0, 5100, 3100 }, one({ time_enabled = 5000, time_running = 3000, time_offset = -900 }, 0, 1000))
    -- clock * mult / 2^shift: 62.5 MHz are 16 ns each
    assert.same({ 0, 16000, 16000 }, one({ time_mult = 16 * 2 ^ 20, time_shift = 20 }, 0, 1000))
    assert.same({ 0, 333, 333 }, one({ time_mult = 2 ^ 31 / 3, time_shift = 31 }, 0, 1000))
  end)

  it("keeps the high bits of a clock that has run for years", function()
    local clock = 3e9 * 86400 * 365 -- 3 GHz, a year: clock * mult has 85 bits
    local mult, shift = 2 ^ 31, 31
    assert.same({ 0, clock, clock }, one({ time_mult = mult, time_shift = shift }, 0, clock))
    assert.same({ 0, 1248, 1248 }, one({ time_mult = mult, time_shift = shift, time_offset = 1248 - clock }, 0, clock))
  end)

  it("follows a clock of fewer bits when it wraps around", function()
    local fields = { capabilities = CAPS + SHORT, time_mask = 2 ^ 32 - 1, time_cycles = 2 ^ 32 - 100,
      time_offset = -(2 ^ 32 - 100) }
    assert.same({ 0, 50, 50 }, one(fields, 0, 2 ^ 32 - 50))
    assert.same({ 0, 150, 150 }, one(fields, 0, 50)) -- it has passed its end
    fields.capabilities = CAPS -- and a page without that capability is used unchanged
    assert.same({ 0, 50 - (2 ^ 32 - 100), 50 - (2 ^ 32 - 100) }, one(fields, 0, 50))
  end)

  it("is not read if it cannot be exact", function()
    local function never() error "a counter was read" end
    assert.is_nil(one({ index = 0 }, never)) -- disabled, or waiting for a counter
    assert.is_nil(one({ index = 33 }, never)) -- a counter that this machine does not have
    for _, missing in ipairs { 2, 4, 8 } do assert.is_nil(one({ capabilities = CAPS - missing }, never), missing) end
    assert.is_nil(one({ pmc_width = 0 }, never))
    assert.is_nil(one({ pmc_width = 65 }, never))
  end)
end)

describe("a page that changes while it is read", function()
  it("is read again", function()
    local p, reads = pages { offset = 100 }, 0
    local words = p:read(32, function()
      reads = reads + 1
      if reads == 1 then -- it lost its counter and got another one
        p:set(1, "lock", 2)
        p:set(1, "index", 3)
        p:set(1, "offset", 500)
        p:set(1, "time_enabled", 70)
        return 99
      end
      return 1
    end, zero)
    assert.equal(2, reads)
    assert.same({ 1, 70, 0, 501, 101 }, words)
  end)

  it("is read again also if it seems to have no counter", function()
    local p, looks = pages { index = 0 }, 0
    local words = p:read(32, function() return 8 end, function()
      looks = looks + 1
      if looks == 1 then p:set(1, "lock", 2) elseif looks == 2 then p:set(1, "lock", 4) p:set(1, "index", 1) end
      return 0
    end)
    assert.equal(3, looks)
    assert.equal(8, words[4])
  end)

  it("is given up if the changes do not end", function()
    local p, reads = pages {}, 0
    assert.is_nil(p:read(32, function()
      reads = reads + 1
      p:set(1, "lock", 2 * reads)
      return 0
    end, zero))
    assert.equal(16, reads)
  end)

  it("is not used while it is being written", function()
    assert.is_nil(one { lock = 1 })
    assert.same({ 0, 0, 0 }, one { lock = 2 ^ 32 - 2 })
  end)

  it("is noticed even if the number of changes wraps around", function()
    local p, reads = pages { lock = 2 ^ 32 - 2 }, 0
    p:read(32, function()
      reads = reads + 1
      if reads == 1 then p:set(1, "lock", 0) end
      return 0
    end, zero)
    assert.equal(2, reads)
  end)
end)

describe("the pages of a group", function()
  it("give every value, and the leader's times", function()
    local words = pages({ offset = 10, index = 1, time_enabled = 400, time_running = 300 },
      { offset = 20, index = 2, time_enabled = 1 }, { offset = 30, index = 32, pmc_width = 64 })
      :read(32, function(n) return n * 1000 end, function() return 50 end)
    assert.same({ 3, 450, 350, 10, 101, 1020, 102, 31030, 103 }, words)
  end)

  it("are all read again if one of them changes", function()
    for changed = 1, 3 do
      local p, asked = pages({ index = 1 }, { index = 2 }, { index = 3 }), {}
      local words = p:read(32, function(n)
        asked[#asked + 1] = n
        if #asked == 2 then p:set(changed, "lock", 2) end
        return #asked
      end, zero)
      assert.same({ 0, 1, 2, 0, 1, 2 }, asked, changed)
      assert.same({ 4, 5, 6 }, { words[4], words[6], words[8] })
    end
  end)

  it("are not read if one has no counter", function()
    for without = 1, 3 do
      local p = pages({}, {}, {})
      p:set(without, "index", 0)
      assert.is_nil(p:read(32, zero, zero))
    end
  end)
end)

describe("an event's counter", function()
  local function machine(fields)
    local cores = {}
    for i = 1, fields.cores or 1 do
      cores[i] = { type = 3 + i, text = function(_, file)
        assert.equal("format/rdpmc", file)
        return fields.format
      end }
    end
    return { config1 = fields.config1, uniform = function() return #cores == 1 end, cores = function() return cores end,
      allowed = function() return fields.allowed end }
  end
  local x86 = machine { config1 = 0 }
  local arm = machine { config1 = 2, format = "config1:1", allowed = true }
  local cycles = { type = "hardware", config = 0 }

  it("is read on x86 without a request", function()
    for _, kind in ipairs { "hardware", "hw_cache", "raw", 0, 3, 4 } do
      local attr = { type = kind, config = 1 }
      local same, may = user_read.request(attr, x86)
      assert.equal(attr, same)
      assert.is_true(may)
    end
  end)

  it("is requested on Arm by a bit of config1", function()
    local attr, may = user_read.request(cycles, arm)
    assert.is_true(may)
    assert.same({ type = "hardware", config = 0, config1 = 2 }, attr)
    assert.is_nil(cycles.config1)
    for before, after in pairs { [0] = 2, [1] = 3, [2] = 2, [3] = 3, [5] = 7 } do
      assert.equal(after, user_read.request({ type = 4, config = 0x11, config1 = before }, arm).config1)
    end
  end)

  it("is not read if that is impossible or forbidden", function()
    local none = machine {}
    local refused = machine { config1 = 2, format = "config1:1", allowed = false }
    local old = machine { config1 = 2, allowed = true }
    local hybrid = machine { config1 = 0, cores = 2 }
    for _, m in ipairs { none, refused, old, hybrid, machine { config1 = 0, cores = 0 } } do
      local attr, may = user_read.request(cycles, m)
      assert.equal(cycles, attr)
      assert.is_false(may)
    end
  end)

  it("is not read if the event counts more than the thread itself", function()
    for field, value in pairs { inherit = true, sample_period = 1000, sample_freq = 99 } do
      for _, m in ipairs { x86, arm } do
        local attr, may = user_read.request({ type = 0, config = 0, [field] = value }, m)
        assert.is_nil(attr.config1)
        assert.is_false(may)
      end
    end
    assert.is_true(select(2, user_read.request({ type = 0, config = 0, inherit = false, sample_period = 0 }, x86)))
  end)

  it("is not read if its PMU is not that of the cores", function()
    assert.is_false(select(2, user_read.request({ type = 20, config = 0 }, x86)))
  end)
end)
