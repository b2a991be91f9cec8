-- Arithmetic of Counts, with plain Counts made from entries. In 0.1.0 it used estimates as counts: the difference of raw 150 in
-- 200 of 1100 ns and raw 100 in 100 of 1000 ns was -175 instead of 50.
local counts = require "perf.counts"
require "perf.counts.read" -- defines the packed kind

local function entry(label, raw, enabled, running, more)
  local row = more or {}
  row.label = label
  return counts.entry(row, raw, enabled or 1000, running or enabled or 1000)
end

local function plain(...) return counts.plain({ ... }, 2000, "hardware") end

-- A reading of a group.
local function reading(...)
  local c = plain(...)
  c.cumulative = true
  return c
end

describe("arithmetic of Counts", function()
  local a, b = plain(entry("x", 100, 1000, 100)), plain(entry("x", 150, 1100, 200))

  it("scales once, at the end", function()
    local d = (b - a)[1]
    assert.same({ 50, 50, 100, 100 }, { d.value, d.raw, d.enabled_ns, d.running_ns })
    local s = (a + b)[1]
    assert.same({ 1750, 250, 2100, 300 }, { s.value, s.raw, s.enabled_ns, s.running_ns })
    assert.equal(50, (a + b - a - a)[1].value)
    assert.equal(1000, (a * 3)[1].value / 3)
    assert.equal(300, (3 * a)[1].raw)
    assert.equal(500, (a / 2)[1].value)
    assert.equal(50, (a / 2)[1].raw)
    assert.equal(-1000, (-a)[1].value)
    assert.equal(50, (b + -a)[1].value)
  end)

  it("of two measurements that shared their counters differently uses the estimate of each", function()
    local d = plain(entry("x", 500, 1000, 500)) - plain(entry("x", 600, 2000, 500))
    assert.equal(-1400, d[1].value)
    assert.equal(-30, (plain(entry("x", 70)) - plain(entry("x", 100, 1200)))[1].value)
  end)

  it("keeps units and scales", function()
    local c = plain(entry("e", 10, 1000, 500, { unit = "Joules", scale = 0.5 }))
    assert.equal(10, c[1].value)
    assert.same({ 20, "Joules" }, { (c + c)[1].value, (c + c)[1].unit })
    assert.equal(0, (c - c)[1].value)
    local bound = plain(entry("b", 10, 1000, 500, { bound = true }))
    assert.equal(20, (bound + bound)[1].value)
  end)

  it("begins sums with 0", function()
    local sum = 0
    for _ = 1, 3 do sum = sum + b end
    assert.equal(450, sum[1].raw)
    assert.equal(2475, sum[1].value)
    assert.equal(6000, sum.wall_ns)
    for _, c in ipairs { 0 + b, b + 0, b - 0 } do assert.is_true(c == b) end
    assert.is_true(0 - b == -b)
  end)

  it("distinguishes equal and different Counts", function()
    local function twin() return plain(entry("x", 100, 1000, 100)) end
    assert.is_true(a == twin())
    assert.is_false(a ~= twin())
    assert.is_false(a == b)
    assert.is_false(a == plain(entry("y", 100, 1000, 100)))
    assert.is_false(a == counts.plain({ entry("x", 100, 1000, 100) }, 1999, "hardware"))
    assert.is_false(a == plain(entry("x", 100, 1000, 100), entry("y", 1)))
    assert.is_true((a + b) - b == a)
  end)

  it("gives no value for events without one, and the reason", function()
    local none, more = plain(entry("x", 0, 1000, 0)), plain(entry("x", 40, 100))
    for _, c in ipairs { none - more, more - none, -none, none * 2, none / 2, none + none } do
      assert.is_nil(c[1].value)
      assert.matches("never got a counter", c[1].why)
    end
    -- The estimate exists for the time that was not counted.
    assert.equal(440, (none + more)[1].value)
    assert.equal(440, (more + none)[1].value)
    local silent = plain(counts.entry({ label = "x", why = "because" }, 0, 1000, 1000))
    assert.equal("because", (silent + more)[1].why)
    assert.is_nil((more - silent)[1].value)
  end)

  it("keeps the note beside a value", function()
    local c = plain(entry("x", 5, 10, 10, { note = "user space only" }))
    for _, r in ipairs { c + c, c - c, -c, c * 2, 0 + c, c / 2 } do
      assert.equal("user space only", r[1].why)
      assert.is_truthy(r[1].value)
    end
  end)

  describe("of two readings", function()
    it("is the count between them", function()
      local d = reading(entry("x", 150, 1100, 200)) - reading(entry("x", 100, 1000, 100))
      assert.equal(50, d[1].value)
      assert.is_nil(d.cumulative)
      d = reading(entry("x", 50, 1100, 50)) - reading(entry("x", 0, 1000, 0))
      assert.equal(100, d[1].value)
      d = reading(entry("x", 100, 1100, 100)) - reading(entry("x", 100, 1000, 100))
      assert.matches("never got a counter", d[1].why)
      d = reading(entry("x", 100, 1000, 100)) - reading(entry("x", 150, 1100, 200)) -- the later one first
      assert.equal(-50, d[1].value)
    end)

    it("has no value if the count fell", function()
      local later, earlier = reading(entry("x", 20, 1500, 1500)), reading(entry("x", 100, 1000, 1000))
      for _, d in ipairs { later - earlier, earlier - later, reading(entry("x", 20)) - earlier } do
        assert.is_nil(d[1].value)
        assert.is_nil(d[1].raw)
        assert.matches("the count fell", d[1].why)
        assert.matches("<not counted>.*the count fell", tostring(d))
      end
    end)
  end)

  it("refuses Counts of other events, and values that are not Counts", function()
    local function refuses(message, f, ...)
      local ok, why = pcall(f, ...)
      assert.is_false(ok)
      assert.matches(message, why, 1, true)
    end
    local y = plain(entry("y", 1))
    refuses("bad argument to '+' (both must count the same events, got 'x' and 'y')", function() return a + y end)
    refuses("bad argument to '-' (both must count the same events, got 'y' and 'x')", function() return y - a end)
    refuses("the same events, got 'x' and 'x,y'", function() return a + plain(entry("x", 1), entry("y", 1)) end)
    refuses("the same events", function() return a + plain(entry("x", 1, 1, 1, { unit = "ns" })) end)
    refuses("bad argument to '+' (Counts expected, got number)", function() return a + 1 end)
    refuses("bad argument to '-' (Counts expected, got string)", function() return a - "x" end)
    refuses("bad argument to '*' (number expected, got table)", function() return a * b end)
    refuses("bad argument to '/' (number expected, got string)", function() return a / "x" end)
    refuses("bad argument to '/'", function() return 2 / a end)
    refuses("bad argument to '+' (Counts expected, got nil)", function() return a + nil end)
  end)

  it("finds the events of the other operand by name if their order differs, and copies by position", function()
    local p, q = plain(entry("x", 1), entry("y", 2)), plain(entry("y", 20), entry("x", 10))
    assert.same({ 11, 22 }, { (p + q).x, (p + q).y })
    local r = plain(entry("x", 1), entry("x", 2)) + plain(entry("x", 10), entry("x", 20))
    assert.same({ 11, 22 }, { r[1].value, r[2].value })
  end)
end)
