-- Flame graphs in a real browser: viewed, clicked, searched.
local browser = require "spec.support.browser"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

local function page(prof, script, opts, flame)
  local result
  util.with_tmpname(function(path)
    assert.is_true(prof:flamegraph(path, flame))
    result = browser.run(path, script, opts)
  end)
  return result
end

describe("a flame graph in a browser", function()
  before_each(function() requires { cmd = "chromium", module = "dkjson" } end)

  it("shows the frame under the pointer", function()
    local r = page(profiles.program(), [[
      result.push(text("title"), text("details"));
      hover(300, 10); result.push(text("details"));
      hover(100, 67); result.push(text("details"), document.getElementById("tip").hidden);
      hover(995, 30); result.push(text("details"));
      hover(100, 300); result.push(text("details"), document.getElementById("tip").hidden);]])
    assert.equal("task-clock, luajit (4711)", r[1])
    assert.equal("all100.000 ms · 100.00 % of all · 100 samples", r[2])
    assert.equal(r[2], r[3])
    assert.equal("app.lua:12 parse50.000 ms · 50.00 % of all · 100.00 % of its caller · 50 samples · app.lua:12", r[4])
    assert.equal("false", r[5])
    assert.equal("(outside Lua)5.000 ms · 5.00 % of all · 5 samples", r[6])
    assert.equal(r[2], r[7])
    assert.equal("true", r[8])
  end)

  it("zooms to a frame that is clicked, and out again", function()
    local r = page(profiles.program(), [[
      const reset = document.getElementById("reset");
      result.push(reset.disabled);
      click(700, 48); result.push(text("details"), reset.disabled);
      hover(10, 67); result.push(text("details"));    // its first child begins at the left now
      hover(995, 67); result.push(text("details"));
      hover(995, 30); result.push(text("details"));   // who called it
      key("Escape"); key("Escape"); result.push(text("details"));
      click(700, 48); reset.click(); result.push(text("details"), reset.disabled);]])
    assert.equal("true", r[1])
    assert.matches("^app.lua:32 main25.000 ms", r[2])
    assert.equal("false", r[3])
    assert.matches("^app.lua:22 render15.000 ms · 15.00 %% of all · 60.00 %% of what is shown", r[4])
    assert.matches("^app.lua:25 walk10.000 ms", r[5])
    assert.matches("^app.lua:40 main chunk", r[6])
    assert.matches("^all", r[7])
    assert.same({ r[7], "true" }, { r[8], r[9] })
  end)

  it("searches by regular expressions, and counts each match once", function()
    local r = page(profiles.program(), [[
      const find = s => { type(s); result.push(text("matched")); };
      find("parse"); find("walk"); find("^app.*:2[25] (walk|render)$"); find("PARSE"); find("none"); find("("); find("");
      type("walk"); key("Enter", document.getElementById("search")); result.push(text("details"));
      key("Escape", document.getElementById("search")); result.push(text("matched"), document.activeElement.id);
      key("/"); result.push(document.activeElement.id);]])
    assert.same({ "70.00 %", "10.00 %", "25.00 %", "0.00 %", "0.00 %", "no regex", "" },
      { r[1], r[2], r[3], r[4], r[5], r[6], r[7] })
    assert.matches("^app.lua:25 walk", r[8])
    assert.same({ "", "view", "search" }, { r[9], r[10], r[11] })
  end)

  it("can be navigated by keys, from either end", function()
    local r = page(profiles.program(), [[
      const go = (...names) => { names.forEach(n => key(n)); result.push(text("details").match(/^\D*\d+ [a-z ]*[a-z]/)[0]); };
      go("ArrowDown"); go("ArrowDown"); go("ArrowRight"); go("ArrowDown", "ArrowRight"); go("ArrowLeft"); go("ArrowUp", "Enter");
      go("Escape", "i", "ArrowUp"); go("ArrowDown");
      result.push(text("flip"));]])
    assert.same({ "app.lua:40 main chunk", "app.lua:31 main", "app.lua:32 main", "app.lua:25 walk", "app.lua:22 render",
      "app.lua:32 main" }, { r[1], r[2], r[3], r[4], r[5], r[6] })
    assert.same({ "app.lua:31 main", "app.lua:40 main chunk", "Icicle" }, { r[7], r[8], r[9] })
  end)

  it("can have the root at the bottom", function()
    local r = page(profiles.program(), [[
      document.getElementById("flip").click();
      const tall = canvas_box().height;
      hover(300, tall - 10); result.push(text("details"));
      hover(300, tall - 30); result.push(text("details"));]])
    assert.matches("^all", r[1])
    assert.matches("^app.lua:40 main chunk", r[2])
  end)

  it("shows the difference of two profiles, with the widths of either", function()
    local before = profiles.new { { weight = 30, "a.lua:1 f" }, { weight = 70, "a.lua:2 g" } }
    local after = profiles.new { { weight = 150, "a.lua:1 f" }, { weight = 50, "a.lua:3 h" } }
    local r = page(after, [[
      const side = document.getElementById("side");
      hover(10, 30); result.push(text("details"), side.textContent, text("legend"));
      hover(990, 30); result.push(text("details"));
      side.click(); hover(990, 30); result.push(text("details"), side.textContent);
      const pen = document.querySelector("canvas").getContext("2d");
      const colour = (x, y) => { const c = pen.getImageData(x, y, 1, 1).data;
        return c[0] > c[2] ? "red" : c[0] < c[2] ? "blue" : "grey"; };
      side.click(); draw(); result.push(colour(500, 22));
      side.click(); draw(); result.push(colour(950, 22), colour(500, 5));]], nil, { diff = before })
    assert.equal("a.lua:1 f150 ns · 75.00 % of all · 1 sample · before 30 ns (30.00 %), after 150 ns (75.00 %): +45.00 points · "
      .. "a.lua:1", r[1])
    assert.same({ "Widths: after", "more than beforeless than before" }, { r[2], r[3] })
    assert.matches("^a.lua:3 h", r[4])
    assert.matches("^a.lua:2 g70 ns · 70.00 %% of all .* before 70 ns %(70.00 %%%), after 0 ns %(0.00 %%%): %-70.00 points", r[5])
    assert.same({ "Widths: before", "red", "blue", "grey" }, { r[6], r[7], r[8], r[9] })
  end)

  it("shows names as they are and runs none of them", function()
    local r = page(profiles.nasty(), [[
      type("script"); key("Enter", document.getElementById("search"));
      result.push(text("details"), document.querySelectorAll("script").length);]])
    assert.matches("^<script>alert%(1%)</script>2 ns", r[1])
    assert.equal("3", r[2]) -- the page's data, the page's script, and the spec's script
  end)

  it("works without samples, and with a hundred thousand stacks", function()
    local r = page(profiles.empty(), [[ result.push(text("details")); click(10, 10); key("ArrowDown"); key("Enter"); type("x");
      result.push(text("matched"), text("details")); ]])
    assert.same({ "all0 ns · 0.00 % of all · 0 samples", "0.00 %" }, { r[1], r[2] })
    r = page(profiles.large(100000), [[
      hover(10, 30); result.push(text("details"));
      type("function_18$"); result.push(text("matched"));
      click(10, 150); hover(10, 170); result.push(text("details"));]])
    assert.matches("^module_%d+.lua:%d+ function_%d+%d+%.%d+ s · %d+%.%d+ %% of all", r[1])
    assert.matches("^%d+%.%d+ %%$", r[2])
    assert.matches("samples", r[3])
  end)

  it("shows the deepest stacks", function()
    local stack = { weight = 5 }
    for i = 1, 20000 do stack[i] = "a.lua:" .. i .. " f" end
    local r = page(profiles.new { stack }, [[
      for (let i = 0; i < 30; i++) key("ArrowDown");
      key("Enter"); result.push(text("details"));
      const view = document.getElementById("view");
      view.scrollTop = 1e9; hover(10, 300); result.push(text("details"), view.scrollWidth <= view.clientWidth);]])
    assert.matches("^a.lua:19971 f", r[1])
    assert.matches("^a.lua:%d+ f", r[2])
    assert.equal("true", r[3])
  end)

  it("fits a phone, light and dark", function()
    for _, dark in ipairs { false, true } do
      local r = page(profiles.program(), [[
        const e = document.documentElement, c = document.querySelector("canvas").getContext("2d");
        draw();
        result.push(e.scrollWidth <= innerWidth, e.scrollHeight <= innerHeight, innerWidth <= 500, // none is narrower
          document.querySelector("header").getBoundingClientRect().height < 130,
          canvas_box().height > 300, getComputedStyle(document.body).backgroundColor);]],
        { width = 390, height = 700, dark = dark })
      assert.same({ "true", "true", "true", "true", "true" }, { r[1], r[2], r[3], r[4], r[5] })
      assert.equal(dark and "rgb(24, 24, 27)" or "rgb(255, 255, 255)", r[6])
    end
  end)
end)
