-- Counts as values, without a kernel: plain ones made from entries. Those of measurements are in spec/live/measure.
local counts = require "perf.counts"
require "perf.counts.read" -- defines the packed kind

local function entry(label, raw, more)
  local e = { label = label, value = raw, raw = raw, enabled_ns = 1000, running_ns = 1000 }
  for k, v in pairs(more or {}) do e[k] = v end
  return e
end

local function sample()
  return counts.plain({ entry("cycles:u", 2000), entry("instructions:u", 3000), entry("branches", 100),
    entry("branch-misses", 5), entry("cache-references", 50), entry("cache-misses", 10),
    entry("task-clock", 1000, { unit = "ns" }), entry("page-faults:u", 7), entry("page-faults:k", 1) }, 2000, "hardware")
end

describe("Counts", function()
  describe("an entry", function()
    it("is the number as read if the event had its counter all the time", function()
      local e = counts.entry({ label = "x" }, 42, 100, 100, 7)
      assert.same({ label = "x", value = 42, raw = 42, enabled_ns = 100, running_ns = 100, id = 7 }, e)
    end)

    it("is scaled to the whole time if the counter was shared", function()
      local e = counts.entry({ label = "x" }, 30, 100, 60)
      assert.equal(50, e.value)
      assert.equal(30, e.raw)
      if math.type then assert.equal("integer", math.type(e.value)) end
    end)

    it("is nil, not 0, if the event never ran", function()
      local e = counts.entry({ label = "x" }, 0, 100, 0)
      assert.is_nil(e.value)
      assert.matches("never got a counter", e.why)
      e = counts.entry({ label = "x" }, 0, 0, 0)
      assert.is_nil(e.value)
      assert.matches("not enabled", e.why)
    end)

    it("is nil if the event cannot count with its modifiers", function()
      local e = counts.entry({ label = "x", why = "because" }, 0, 100, 100)
      assert.is_nil(e.value)
      assert.equal("because", e.why)
    end)

    it("has the unit and scale of its event", function()
      local e = counts.entry({ label = "power/energy-pkg/", unit = "Joules", scale = 0.5 }, 10, 100, 100)
      assert.equal(5, e.value)
      assert.equal(10, e.raw)
      assert.equal("Joules", e.unit)
    end)

    it("without times is the number as read", function()
      assert.equal(9, counts.entry({ label = "x" }, 9).value)
    end)
  end)

  it("are found by label, without the modifier if that is unambiguous", function()
    local c = sample()
    assert.equal(2000, c["cycles:u"])
    assert.equal(2000, c.cycles)
    assert.equal(7, c["page-faults:u"])
    assert.is_nil(c["page-faults"])
    assert.is_nil(c.nonsense)
    assert.equal("page-faults:k", c[9].label)
    assert.equal(9, #c)
  end)

  it("give the ratios that their events allow", function()
    local m = sample():metrics()
    assert.equal(1.5, m.ipc)
    assert.equal(0.05, m.branch_miss_rate)
    assert.equal(0.2, m.cache_miss_rate)
    assert.equal(0.5, m.cpus_utilized)
    assert.equal(2, m.ghz)
    assert.equal(7e6, m.per_second["page-faults:u"])
    assert.is_nil(m.per_second["task-clock"])
    m = counts.plain({ entry("page-faults", 3) }, 1e9, "software"):metrics()
    assert.same({ per_second = { ["page-faults"] = 3 } }, m)
  end)

  it("subtract, add and divide", function()
    local a, b = sample(), sample()
    local d = a - b
    for _, e in ipairs(d) do assert.equal(0, e.value) end
    assert.equal(0, d.wall_ns)
    assert.equal(4000, (a + b).cycles)
    assert.equal(1000, (a / 2).cycles)
    assert.equal(2000, ((a + b) / 2).cycles)
    assert.equal("hardware", (a + b).source)
    assert.equal(2000, a.cycles)
  end)

  it("refuse arithmetic with anything else", function()
    local a = sample()
    assert.has_error(function() return a - 1 end)
    assert.has_error(function() return 1 + a end)
    assert.has_error(function() return a / a end)
    assert.has_error(function() return a / "x" end)
  end)

  it("become plain tables and JSON", function()
    local t = sample():totable()
    assert.equal(2000, t.counts["cycles:u"])
    assert.equal("cycles:u", t.events[1].label)
    assert.equal(2000, t.wall_ns)
    assert.equal("hardware", t.source)
    assert.is_nil(getmetatable(t))
    local text = sample():json()
    assert.matches('"cycles:u":2000', text, 1, true)
    assert.matches('"source":"hardware"', text, 1, true)
  end)

  it("print as a table", function()
    local text = tostring(sample())
    assert.matches("2,000%s+cycles:u%s+# 2.000 GHz", text)
    assert.matches("3,000%s+instructions:u%s+# 1.50 insn per cycle", text)
    assert.matches("5.00%% of all branches", text)
    assert.matches("20.00%% of all cache refs", text)
    assert.matches("1.000%s+us%s+task%-clock%s+# 0.500 CPUs utilized", text)
    assert.matches("2.000 us elapsed", text, 1, true)
    text = tostring(counts.plain({ counts.entry({ label = "x" }, 0, 100, 0),
      counts.entry({ label = "y" }, 10, 100, 25) }, 100, "rusage"))
    assert.matches("<not counted>%s+x%s+# it never got a counter", text)
    assert.matches("40%s+y.*counted 25.0%% of the time", text)
    assert.matches("from the kernel's accounting", text, 1, true)
  end)

  it("print each entry and the metrics, too", function()
    local c = sample()
    assert.equal("cycles:u: 2,000", tostring(c:totable().events[1]))
    assert.matches("^branch_miss_rate%s+0.05\n.*\nipc%s+1.5\n.*per_second instructions:u", tostring(c:metrics()))
    assert.equal("x: not counted: it never got a counter: other events used all of them",
      tostring(counts.entry({ label = "x" }, 0, 100, 0)))
    assert.equal("y: 40 (counted 25.0% of the time)", tostring(counts.entry({ label = "y" }, 10, 100, 25)))
    assert.equal("z: 1.500 us", tostring(counts.entry({ label = "z", unit = "ns" }, 1500, 100, 100)))
  end)
end)
