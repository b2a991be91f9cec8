-- The page of distributions in a real browser.
local browser = require "spec.support.browser"
local page = require "perf.bench.page"
local stats_of = require "spec.support.stats_of"
local util = require "spec.support.util"

-- Three candidates, of which one is really faster.
local function comparison()
  local old, new, same = {}, {}, {}
  for i = 1, 30 do
    old[i], new[i], same[i] = 10000 + 100 * (i * 7 % 30), 6000 + 80 * (i * 11 % 30), 10050 + 100 * (i * 13 % 30)
  end
  old[30] = 50000 -- far outside
  local rule = "sure: at least 1 %"
  return { n = 30, names = { "old", "new", "same" }, baseline = "old", batch = { old = 9, new = 9, same = 9 },
    source = "software", rule = function() return rule end,
    wall = { label = "wall", unit = "ns", candidates = { old = stats_of(old),
      new = stats_of(new, { ratio = 0.62, ratio_ci = { 0.6, 0.64 }, difference = { -4000, -4100, -3900 }, real = true,
        verdict = "1.61x faster, sure" }),
      same = stats_of(same, { ratio = 1.01, ratio_ci = { 0.99, 1.02 }, difference = { 50, -10, 90 }, real = false,
        verdict = "no difference seen" }) } },
    { label = "page-faults", candidates = { old = stats_of { 7, 7 }, new = stats_of { 7, 7 }, same = stats_of { 7, 7 } } } }
end

local function run(result, what, script, opts)
  local got
  util.with_tmpname(function(path)
    assert.is_true(page.write(what, result, path))
    got = browser.run(path, script, opts)
  end)
  return got
end

describe("the page of perf.compare in a browser", function()
  before_each(function() requires { cmd = "chromium", module = "dkjson" } end)

  local SHOWN = [[
    const svg = document.querySelector("svg"), lanes = [...svg.querySelectorAll("g g")];
    const count = (e, what) => e.querySelectorAll(what).length; ]]

  it("draws every run as a dot, with density, median and interval, and marks the real difference", function()
    local r = run(comparison(), "Comparison", SHOWN .. [[
      for (const lane of lanes) result.push([lane.getAttribute("class"), count(lane, "circle"), count(lane, ".outlier"),
        count(lane, ".density"), count(lane, ".median"), count(lane, ".interval"),
        lane.textContent].join(" "));
      result.push(svg.getAttribute("aria-label"), text("rule"), document.querySelectorAll("svg").length,
        document.querySelectorAll("section")[1].textContent);]])
    assert.equal("base 29 0 1 1 1 old1 up to 50 us →", r[1])
    assert.equal("less 30 0 1 1 1 new▼ 1.61x faster, sure", r[2])
    assert.equal("none 30 0 1 1 1 sameno difference seen", r[3])
    local isolated = { ["<"] = "\226\129\168", [">"] = "\226\129\169" } -- U+2068 and U+2069: a name keeps its place
    assert.equal(("wall time: <old> median 11.55 us; <new> median 7.160 us 1.61x faster, sure; "
      .. "<same> median 11.50 us no difference seen"):gsub("[<>]", isolated), r[4])
    assert.same({ "sure: at least 1 %", "1", "page-faults7 in every run of each candidate" }, { r[5], r[6], r[7] })
  end)

  it("shows the whole range and the order of the runs, by buttons and keys", function()
    local r = run(comparison(), "Comparison", SHOWN .. [[
      const dots = () => [...svg.querySelectorAll("g g")].map(l => count(l, "circle")).join(" ");
      const pressed = () => [...document.querySelectorAll(".controls button")].map(b => b.getAttribute("aria-pressed")).join(" ");
      result.push(dots(), pressed());
      document.getElementById("whole").click(); result.push(dots(), pressed());
      key("o"); result.push(dots(), pressed(), count(svg, ".density"), svg.textContent.includes("run 30"));
      const along = [...svg.querySelector("g g").querySelectorAll("circle")].map(c => Number(c.getAttribute("cx")));
      result.push(along.every((x, i) => !i || x > along[i - 1]));
      key("a"); key("o"); result.push(dots(), pressed());]])
    assert.same({ "29 30 30", "false false", "30 30 30", "false true", "30 30 30", "true true", "0", "true", "true", "29 30 30",
      "false false" }, r)
  end)

  it("has the numbers as a table, and every value", function()
    local r = run(comparison(), "Comparison", [[
      result.push([...document.querySelectorAll(".scroll tbody tr")[1].cells].map(c => c.textContent).join("|"));
      document.querySelector("details").open = true;
      document.querySelector("details").dispatchEvent(new Event("toggle"));
      const rows = document.querySelectorAll("details tbody tr");
      result.push(rows.length, [...rows[29].cells].map(c => c.textContent).join("|"));]])
    assert.equal("new|7.160 us|6.720 us .. 7.600 us|7.160 us|8.4 %|6.000 us|8.320 us|0.620x (0.600 .. 0.640)"
      .. "|▼ 1.61x faster, sure", r[1])
    assert.same({ "30", "30|50 us|6 us|10.05 us" }, { r[2], r[3] })
  end)

  -- The contrast of every text, by the formula of WCAG 2.
  local CONTRAST = [[
    const light = c => { const [r, g, b] = c.match(/[\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
    const back = light(getComputedStyle(document.body).backgroundColor);
    let least = 99;
    for (const e of document.querySelectorAll("h1, h2, p, th, td, summary, svg text, .density, .median")) {
      const style = getComputedStyle(e), c = light(e.namespaceURI.endsWith("svg") && e.tagName !== "path" && e.tagName !== "line"
        ? style.fill : e.tagName === "path" || e.tagName === "line" ? style.stroke : style.color);
      least = Math.min(least, (Math.max(c, back) + .05) / (Math.min(c, back) + .05));
    }
    result.push(least >= 4.5, document.documentElement.scrollWidth <= innerWidth); ]]

  it("can be read in light and dark, on a wide screen and in a narrow one", function()
    for _, opts in ipairs { { dark = false }, { dark = true }, { width = 500 } } do
      assert.same({ "true", "true" }, run(comparison(), "Comparison", CONTRAST, opts))
    end
  end)

  -- The story: the list of calls in a run, below the title, was wider than the page.
  it("is no wider than the screen, however long a name without spaces is", function()
    local c, long = comparison(), ("y"):rep(400)
    c.names[2], c.batch = long, { old = 9, [long] = 10, same = 9 }
    for _, row in ipairs { c.wall, c[1] } do row.candidates[long] = row.candidates.new end
    assert.same({ "true", "true" }, run(c, "Comparison", [[
      result.push(text("subtitle").includes("y".repeat(400)), document.documentElement.scrollWidth <= innerWidth);]]))
  end)

  -- The story: on a phone all names were "candidate_with_a_na...", since they lost their ends.
  it("shortens names in their middle", function()
    local c, LONG = comparison(), "a_rather_long_name" .. ("_of_the_candidate"):rep(5) .. "_2"
    local function rename(row)
      row.candidates[LONG], row.candidates.new = row.candidates.new, nil
    end
    for i, name in ipairs(c.names) do
      if name == "new" then c.names[i] = LONG end
    end
    c.batch[LONG] = c.batch.new
    rename(c.wall)
    rename(c[1])
    local r = run(c, "Comparison", [[
      result.push([...document.querySelectorAll("svg text")].map(e => e.textContent).find(t => t.startsWith("a_rather")));]],
      { width = 390 })
    assert.matches("^a_rather.*\226\128\166.*e_2$", r[1])
  end)

  -- The story: with 100 candidates the page was 9,300 pixels high, and had its axis only at the bottom.
  it("keeps the axis in view above many candidates", function()
    local many = comparison()
    for i = 1, 20 do
      local name = "candidate " .. i
      many.names[#many.names + 1], many.batch[name] = name, 9
      many.wall.candidates[name] = many.wall.candidates.same
      many[1].candidates[name] = many[1].candidates.same
    end
    local r = run(many, "Comparison", [[
      const [ruler, svg] = document.querySelectorAll("svg"), top = () => Math.round(ruler.getBoundingClientRect().top);
      const texts = e => [...e.children].filter(c => c.tagName === "text").map(c => c.textContent).join(" ");
      const axis = () => texts(ruler.firstChild);
      window.scrollTo(0, 1200);
      result.push(top(), axis() === texts(svg.firstChild) && axis() !== "");
      key("o"); result.push(axis(), document.querySelectorAll("svg").length);]])
    assert.same({ "0", "true", "first run run 30", "2" }, r)
  end)

  it("draws a benchmark of a single run", function()
    local s = { n = 1, batch = 1, overhead = { wall = 0 }, wall = stats_of({ 5 }, { label = "wall", unit = "ns" }),
      { label = "cycles", n = 0, why = "no counters", values = {} } }
    local r = run(s, "Stats", [[result.push(text("rows"), document.getElementById("whole").hidden);]])
    assert.same({ "wall time5.000 ns in every runcyclesnot counted: no counters", "true" }, r)
  end)
end)
