-- Distributions as lines of blocks.
local strips = require "perf.bench.strips"
local text = require "perf.bench.report"

local function show(v) return ("%g us"):format(v) end

describe("perf.bench.strips", function()
  it("makes blocks as high as the numbers: none for 0, the lowest for any value", function()
    assert.equal(" ▁▁▂▄█", strips.blocks({ 0, 1, 10, 25, 50, 100 }, true))
    assert.equal(" ..:=@", strips.blocks({ 0, 1, 10, 25, 50, 100 }, false))
    assert.equal("   ", strips.blocks({ 0, 0, 0 }, true))
  end)

  it("draws blocks where the locale is UTF-8: the first variable that is set decides", function()
    local function is(env) return strips.is_utf8(function(name) return env[name] end) end
    assert.is_true(is { LANG = "de_DE.UTF-8" })
    assert.is_true(is { LANG = "C", LC_ALL = "C.utf8" })
    assert.is_true(is { LANG = "en_US.UTF-8", LC_ALL = "" })
    assert.is_false(is { LANG = "en_US.UTF-8", LC_ALL = "C" })
    assert.is_false(is { LANG = "en_US.UTF-8", LC_CTYPE = "de_DE.ISO-8859-1" })
    assert.is_false(is {})
  end)

  it("draws candidates on one scale, with what is far outside in words", function()
    local lines = {}
    strips.add(lines, "wall time", { { name = "old", values = { 10, 11, 12, 13, 14, 15, 50, 1000 } }, { name = "none" },
      { name = "quick", values = { 10, 20, 30, 50 } } }, show, false)
    strips.add(lines, "time", { { name = "a", values = { 10, 10, 50, 50 } }, { name = "b", values = { 30, -900, 30, 29, 31 } } },
      show, true)
    assert.equal(table.concat({
      "wall time  old    10 us  @@@@@@                                 @  50 us  1 above, up to 1000 us",
      "           quick         @         @         @                  @",
      "time       a      10 us  █                                      █  50 us",
      "           b                                ▄█▄                           1 below, down to -900 us" }, "\n"),
      strips.text(lines))
  end)

  it("has nothing to show if no value varies, or none was counted", function()
    local lines = {}
    strips.add(lines, "page-faults", { { values = { 3, 3 } }, { values = { 3 } } }, show, true)
    strips.add(lines, "cycles", { { why = "no" } }, show, true)
    assert.same({}, lines)
    assert.is_nil(strips.text(lines))
  end)
end)

describe("the tables of perf.bench and perf.compare", function()
  local function row(label, values)
    local stats = require "perf.bench.statistics".summary(values)
    stats.label, stats.values = label, values
    return stats
  end

  it("are followed by a line for each event that varies", function()
    local s = { n = 8, batch = 1, overhead = { wall = 0 }, wall = row("wall", { 1, 2, 2, 3, 3, 3, 4, 5 }),
      row("faults", { 7, 7, 7 }) }
    s.wall.unit = "ns"
    local printed = text.bench(s, true)
    assert.matches("\n\nwall time  1.000 ns  ▃         ▅         █         ▃        ▃  5.000 ns$", printed)
    assert.not_matches("[\128-\255]", text.bench(s, false))
  end)
end)
