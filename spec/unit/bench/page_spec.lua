-- The data of the page of distributions. spec/reports tests the page in a browser.
local page = require "perf.bench.page"
local stats_of = require "spec.support.stats_of"

describe("perf.bench.page", function()
  it("has the values of a benchmark with their density, on a scale with room at its ends", function()
    local s = { n = 5, batch = 2, source = "software", overhead = { wall = 0 },
      wall = stats_of({ 1, 2, 3, 4, 101 }, { label = "wall", unit = "ns" }),
      stats_of({ 7, 7, 7 }, { label = "page-faults" }),
      { label = "cycles", n = 0, why = "no counters", values = {} } }
    local data = page.data("Stats", s)
    assert.same({ "perf.bench", "5 runs of 2 calls; per call, less the 0 ns of the loop and of measuring", 3 },
      { data.title, data.subtitle, #data.rows })
    local wall = data.rows[1]
    assert.equal("wall time", wall.title)
    assert.same({ 1 - 0.12, 4 + 0.12 }, wall.scale) -- 101 is far outside
    assert.same({ 1 - 4, 101 + 4 }, wall.whole)
    local only = wall.candidates[1]
    assert.same({ 1, 2, 3, 4, 101 }, only.values)
    assert.same({ 3, 1, 101, -1, 7 }, { only.median, only.lo, only.hi, only.low, only.high })
    assert.same({ "3.000 ns", "1.000 ns .. 101.0 ns", "22.20 ns", "33.3 %", "1.000 ns", "101.0 ns" }, only.cells)
    assert.equal(120, #only.density)
    assert.same({ "7", nil, nil }, { data.rows[2].all, data.rows[2].scale, data.rows[2].candidates[1].density })
    assert.same({ name = "", why = "no counters" }, data.rows[3].candidates[1])
    assert.equal("mine", page.data("Stats", s, "mine").title)
  end)

  it("has the differences of a comparison, and which are real", function()
    local c = { n = 3, names = { "old", "new" }, baseline = "old", batch = { old = 1, new = 1 },
      rule = function() return "a rule" end,
      wall = { label = "wall", unit = "ns", share = 0.5, candidates = { old = stats_of { 1, 2, 3 },
        new = stats_of({ 2, 4, 6 }, { ratio = 2, ratio_ci = { 1.5, 2.5 }, difference = { 2, 1, 3 }, real = true,
          verdict = "2.00x slower" }) } },
      { label = "page-faults", candidates = { old = stats_of { 0, 0 },
        new = stats_of({ 3, 3 }, { difference = { 3, 3, 3 }, real = false, verdict = "too few" }) } } }
    local data = page.data("Comparison", c)
    assert.same({ "perf.compare: old, new", "a rule", "old" }, { data.title, data.rule, data.baseline })
    local old, new = data.rows[1].candidates[1], data.rows[1].candidates[2]
    assert.same({ "old", nil, nil }, { old.name, old.ratio, old.verdict })
    assert.same({ "new", "2.000x (1.500 .. 2.500)", true, true, "2.00x slower" },
      { new.name, new.ratio, new.real, new.more, new.verdict })
    assert.equal("shared its counter: estimates, counted for 50 % of the time at least", data.rows[1].share)
    new = data.rows[2].candidates[2]
    assert.same({ "3 more", false, true }, { new.ratio, new.real, new.more })
  end)

  it("has a short heading for many candidates, and one line of valid text for each name", function()
    local c = { n = 1, names = {}, batch = {}, rule = function() return "" end,
      wall = { label = "wall", unit = "ns", candidates = {} } }
    for i = 1, 100 do
      local name = "candidate\n\255" .. i
      c.names[i], c.batch[name], c.wall.candidates[name] = name, i, stats_of { -1, 2, 3 }
    end
    c.baseline = c.names[1]
    local data = page.data("Comparison", c)
    assert.equal("perf.compare: 100 candidates", data.title)
    assert.matches("^1 run each %(calls in a run: 1 to 100%)", data.subtitle)
    assert.equal("candidate\\n\\xff100", data.rows[1].candidates[100].name)
    assert.matches("^below 0: within the precision of measuring it is 0", data.rows[1].near_zero)
  end)

  it("shows names as they are and runs none of them", function()
    local c = { n = 1, names = { "</script><b>", "&" }, baseline = "</script><b>", batch = { ["</script><b>"] = 1, ["&"] = 1 },
      rule = function() return "" end,
      wall = { label = "wall", candidates = { ["</script><b>"] = stats_of { 1 }, ["&"] = stats_of { 1 } } } }
    local html = page.write("Comparison", c)
    assert.is_nil(html:find("</script><b>", 1, true))
    assert.matches("<title>perf.compare: &lt;/script&gt;&lt;b&gt;, &amp;</title>", html)
  end)
end)
