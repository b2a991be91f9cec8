-- The story: counts from 2^53 on are 64-bit cdata on LuaJIT, whose arithmetic truncates fractions. An energy counter, whose unit
-- is 2^-32 Joules, showed 0 Joules after 2 MJ (six hours at 100 W), `c * 0.5` was 0, `-c` was 18437736874454810623, and tostring
-- raised an error. And the difference of two measurements that were enabled for equally long, but shared their counters
-- differently, was 0 in one of the two orders.
local counts = require "perf.counts"
require "perf.counts.read" -- defines the packed kind

local BIG = 2 ^ 53 + 2 -- a number can have this one
local has_ffi, ffi = pcall(require, "ffi")
local big = has_ffi and type(jit) == "table" and ffi.new("uint64_t", BIG) or math.tointeger and math.tointeger(BIG) or BIG

local function plain(raw, more, enabled, running)
  more = more or {}
  more.label = "x"
  return counts.plain({ counts.entry(more, raw, enabled or 1000, running or 1000) }, 1000, "hardware")
end

local function value(c) return tonumber(c[1].value) end

describe("a count of 2^53 and more", function()
  it("has its scale", function()
    local c = plain(big, { unit = "Joules", scale = 2 ^ -32 })
    assert.equal(2 ^ 21, math.floor(c[1].value))
    assert.equal(2 ^ 22, math.floor((c + c)[1].value))
    assert.matches("2,097,152.00 +Joules +x", tostring(c))
  end)

  it("is multiplied, divided and negated", function()
    local c = plain(big)
    for _, half in ipairs { c * 0.5, 0.5 * c, c / 2 } do assert.equal(BIG / 2, value(half)) end
    assert.equal(2 * BIG, value(c * 2))
    assert.equal(-BIG, value(-c))
    assert.equal(BIG, value(-(-c)))
    assert.equal(-BIG + 2, value(plain(2) - c))
    assert.equal(2, (plain(2) - c + c)[1].value)
    assert.is_true(c - plain(2) == -(plain(2) - c))
    assert.equal(0, (c - c)[1].value)
  end)

  it("is printed with its rate", function()
    local c = plain(big)
    assert.matches("9,007,199,254,740,994 +x", tostring(c))
    assert.matches("-9,007,199,254,740,994 +x", tostring(-c))
    assert.equal(BIG * 1e6, c:metrics().per_second.x)
    assert.matches('"x":-9007199254740994', (-c):json(), 1, true)
  end)
end)

describe("the difference of two measurements with equal enabled times", function()
  it("is the difference of their estimates, in either order", function()
    local more, less = plain(300, nil, 1000, 500), plain(300, nil, 1000, 600)
    assert.equal(100, (more - less)[1].value)
    assert.equal(-100, (less - more)[1].value)
  end)

  it("is rounded to the same number in either order", function()
    local p, q = plain(20, nil, 30, 20), plain(15, nil, 19, 18)
    assert.equal((p - q)[1].value, -(q - p)[1].value)
  end)
end)
