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
    assert.equal("app.lua, task-clock (4711)", r[1])
    assert.equal("all100.000 ms · 100.00 % of all · 100 samples", r[2])
    assert.equal(r[2], r[3])
    assert.equal("parse app.lua:1250.000 ms · 50.00 % of all · 100.00 % of its caller · 50 samples", r[4])
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
    assert.matches("^main app.lua:3225.000 ms", r[2])
    assert.equal("false", r[3])
    assert.matches("^render app.lua:2215.000 ms · 15.00 %% of all · 60.00 %% of what is shown", r[4])
    assert.matches("^walk app.lua:2510.000 ms", r[5])
    assert.matches("^main chunk app.lua:40", r[6])
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
    assert.matches("^walk app.lua:25", r[8])
    assert.same({ "", "view", "search" }, { r[9], r[10], r[11] })
  end)

  it("can be navigated by keys, from either end", function()
    local r = page(profiles.program(), [[
      const go = (...names) => { names.forEach(n => key(n)); result.push(document.querySelector("#details b").textContent); };
      go("ArrowDown"); go("ArrowDown"); go("ArrowRight"); go("ArrowDown", "ArrowRight"); go("ArrowLeft"); go("ArrowUp", "Enter");
      go("Escape", "i", "ArrowUp"); go("ArrowDown");
      result.push(text("flip"));]])
    assert.same({ "main chunk app.lua:40", "main app.lua:31", "main app.lua:32", "walk app.lua:25", "render app.lua:22",
      "main app.lua:32" }, { r[1], r[2], r[3], r[4], r[5], r[6] })
    assert.same({ "main app.lua:31", "main chunk app.lua:40", "Icicle" }, { r[7], r[8], r[9] })
  end)

  it("merges the lines of a function", function()
    local r = page(profiles.program(), [[
      const merge = document.getElementById("merge");
      hover(100, 67); result.push(merge.textContent, text("details"));
      merge.click();
      hover(100, 67); result.push(merge.textContent, text("details"));
      hover(100, 86); result.push(text("details"));
      key("m"); hover(100, 67); result.push(merge.textContent, text("details"));]])
    assert.same({ "By line", "By function", "By line" }, { r[1], r[3], r[6] })
    assert.matches("^parse app.lua:1250.000 ms", r[2])
    assert.matches("^parse app.lua:1050.000 ms · 50.00 %% of all · 66.67 %% of its caller", r[4])
    assert.matches("^all", r[5])
    assert.equal(r[2], r[7])
  end)

  it("has a table of functions, with callers and callees of each", function()
    local r = page(profiles.program(), [[
      const cells = r => [...r.cells].map(c => c.textContent).join(" ");
      const rows = () => [...document.querySelectorAll("#panel tbody tr")].map(cells);
      result.push(document.getElementById("panel").hidden);
      key("t"); result.push(rows().slice(0, 4).join("; "));
      const press = name => [...document.querySelectorAll("#panel button")].find(b => b.textContent.startsWith(name)).click();
      press("walk");
      result.push(document.querySelector("#panel h2").textContent, text("panel").match(/self.*?\)/)[0], rows().join("; "));
      press("main "); result.push(rows().join("; "));
      press("All functions"); result.push(rows().length);
      document.getElementById("table").click(); result.push(document.getElementById("panel").hidden);]])
    assert.equal("true", r[1])
    assert.equal("50.0% 70.0% parse app.lua:10; 20.0% 20.0% string.find; 10.0% 10.0% do_anonymous_page; "
      .. "10.0% 10.0% walk app.lua:20", r[2])
    assert.same({ "walk app.lua:20", "self 10.000 ms (10.00 %)", "10.0% main app.lua:30" }, { r[3], r[4], r[5] })
    assert.equal("95.0% main chunk app.lua:40; 70.0% parse app.lua:10; 15.0% render app.lua:20; 10.0% walk app.lua:20", r[6])
    assert.same({ "11", "true" }, { r[7], r[8] })
  end)

  it("sorts its table of functions", function()
    local r = page(profiles.program(), [[
      key("t");
      const head = name => [...document.querySelectorAll("#panel th button")].find(b => b.textContent === name);
      const first = () => result.push(document.querySelector("#panel td button").textContent,
        document.querySelector("#panel th[aria-sort]").textContent);
      first(); head("Total").click(); first(); head("Function").click(); first();]])
    assert.same({ "parse app.lua:10", "Self", "main chunk app.lua:40", "Total", "(garbage collector)", "Function" }, r)
  end)

  it("keeps what is shown in its address, and shows it again", function()
    local r = page(profiles.program(), [[
      click(700, 48); type("walk"); key("i");
      result.push(state()); keep(); result.push(location.hash);
      reset(); flip(); result.push(state());
      location.hash = "#by=function&zoom=2&search=parse&table=yes&order=Total"; restore();
      result.push(text("merge"), document.querySelector("#details b").textContent, text("matched"),
        document.getElementById("panel").hidden, state());
      location.hash = "#by=time&zoom=99999&order=none&function=-7&widths=before"; restore(); // nothing of this is here
      result.push(state());]])
    assert.same({ "zoom=4&search=walk&root=bottom", "#zoom=4&search=walk&root=bottom", "" }, { r[1], r[2], r[3] })
    assert.same({ "By function", "main app.lua:30", "70.00 %", "false", "by=function&zoom=2&search=parse&table=yes&order=Total",
      "" },
      { r[4], r[5], r[6], r[7], r[8], r[9] })
  end)

  it("copies the name of a frame", function()
    local r = page(profiles.program(), [[
      const clipboard = value => Object.defineProperty(navigator, "clipboard", {value, configurable: true});
      clipboard({writeText: s => { result.push(s); return {then: f => f()}; }});
      hover(700, 48); key("c"); result.push(text("matched"));
      type(""); key("c"); clipboard(undefined); // a page that came by http
      document.execCommand = what => { result.push(what, document.activeElement.value); return true; };
      hover(100, 67); key("c"); result.push(text("matched"), document.querySelectorAll("textarea").length);]])
    assert.same({ "main app.lua:32", "copied", "main app.lua:32", "copy", "parse app.lua:12", "copied", "0" }, r)
  end)

  it("shows the samples in the order of their times", function()
    local prof = profiles.program()
    local list, at = prof:samples(), 0
    local moments = { list[1], list[3], list[1], list[1], list[2] } -- parse; render; parse; parse; parse in a zone
    rawset(prof, "moments", {})
    rawset(prof, "timeline", function()
      at = 0
      return function()
        at = at + 1
        local s = moments[at]
        return s and { time = at, weight = 10, stack = s.stack, zone = s.zone }
      end
    end)
    local r = page(prof, [[
      const time = document.getElementById("time");
      result.push(time.hidden, time.getAttribute("aria-pressed"));
      key("o");
      const at_x = (x, y) => { hover(x, y); result.push(text("details")); };
      at_x(100, 67); at_x(300, 67); at_x(500, 67); at_x(500, 48); at_x(900, 30);
      result.push(time.getAttribute("aria-pressed"), state());
      click(500, 67); result.push(text("details"));
      key("o"); result.push(time.getAttribute("aria-pressed"));]])
    assert.same({ "false", "false" }, { r[1], r[2] })
    assert.equal("parse app.lua:1210 ns · 20.00 % of all · 100.00 % of its caller · 1 sample", r[3])
    assert.matches("^render app.lua:2210 ns · 20.00 %% of all", r[4])
    assert.matches("^parse app.lua:1220 ns · 40.00 %% of all .* 2 samples", r[5])
    assert.matches("^main app.lua:3120 ns", r[6])
    assert.matches("^input10 ns · 20.00 %% of all", r[7])
    assert.same({ "true", "by=time" }, { r[8], r[9] })
    assert.matches("^parse app.lua:1220 ns", r[10])
    assert.equal("false", r[11])
    local caller = { stack = { list[1].stack[2], list[1].stack[3] } } -- main alone
    moments = { list[1], caller, list[1], list[1] }
    r = page(prof, [[
      key("o");
      for (const x of [100, 350, 700]) { hover(x, 67); result.push(text("details")); }
      hover(350, 48); result.push(text("details"));]])
    assert.matches("^parse app.lua:1210 ns · 25.00 %%", r[1])
    assert.matches("^all40 ns", r[2])
    assert.matches("^parse app.lua:1220 ns · 50.00 %%", r[3])
    assert.matches("^main app.lua:3140 ns .* itself 10 ns", r[4])
    assert.same({ "true", "" }, page(profiles.program(), [[
      key("o"); result.push(document.getElementById("time").hidden, state());]]))
  end)

  it("draws its picture as a browser expects", function()
    util.with_directory(function(dir)
      assert.is_true(profiles.program():save(dir .. "/x.svg"))
      local page_path = dir .. "/page.html"
      util.write_file(page_path, "<html><body>" .. util.read_file(dir .. "/x.svg") .. "<canvas></canvas></body></html>\n")
      local r = browser.run(page_path, [[
        const boxes = [...document.querySelectorAll("rect:not(.page)")], texts = [...document.querySelectorAll("g g text")];
        result.push(boxes.length, texts.every(t => {
          const box = t.previousSibling.getBoundingClientRect(), own = t.getBoundingClientRect();
          return own.left >= box.left && own.right <= box.right + 1; }), document.querySelectorAll("parsererror").length);]],
        { width = 1300 })
      assert.same({ "18", "true", "0" }, r)
    end)
  end)

  it("can have the root at the bottom", function()
    local r = page(profiles.program(), [[
      document.getElementById("flip").click();
      const tall = canvas_box().height;
      hover(300, tall - 10); result.push(text("details"));
      hover(300, tall - 30); result.push(text("details"));]])
    assert.matches("^all", r[1])
    assert.matches("^main chunk app.lua:40", r[2])
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
    assert.equal("f a.lua:1150 ns · 75.00 % of all · 1 sample · before 30 ns (30.00 %), after 150 ns (75.00 %): +45.00 points",
      r[1])
    assert.same({ "Widths: after", "more than beforeless than before" }, { r[2], r[3] })
    assert.matches("^h a.lua:3", r[4])
    assert.matches("^g a.lua:270 ns · 70.00 %% of all .* before 70 ns %(70.00 %%%), after 0 ns %(0.00 %%%): %-70.00 points", r[5])
    assert.same({ "Widths: before", "red", "blue", "grey" }, { r[6], r[7], r[8], r[9] })
  end)

  it("shows the difference of memory in bytes", function()
    local before = profiles.new { event = "heap", unit = "bytes", { weight = 30, "a.lua:1 f" }, { weight = 70, "a.lua:2 g" } }
    local after = profiles.new { event = "heap", unit = "bytes", { weight = 1500, "a.lua:1 f" }, { weight = 70, "a.lua:2 g" } }
    local r = page(after, [[ hover(10, 30); result.push(text("details")); hover(990, 30); result.push(text("details"));]], nil,
      { diff = before })
    assert.matches("after 1,500 B %(95.54 %%%): %+1,470 B", r[1])
    assert.matches("after 70 B %(4.46 %%%): 0 B", r[2])
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
      draw(); // callees of calls narrower than a pixel were not drawn: such a graph seemed to end there
      const row = document.querySelector("canvas").getContext("2d").getImageData(0, 12 * 19 + 9, 900, 1).data;
      const painted = row.filter((v, i) => i % 4 === 3 && v > 0).length;
      click(10, 150); hover(10, 170); result.push(text("details"), painted > 450);]])
    assert.matches("^function_%d+ module_%d+.lua:%d+%.%d+ s · %d+%.%d+ %% of all", r[1])
    assert.matches("^%d+%.%d+ %%$", r[2])
    assert.matches("samples", r[3])
    assert.equal("true", r[4])
  end)

  it("shows the deepest stacks", function()
    local stack = { weight = 5 }
    for i = 1, 20000 do stack[i] = "a.lua:" .. i .. " f" end
    local r = page(profiles.new { stack }, [[
      for (let i = 0; i < 30; i++) key("ArrowDown");
      key("Enter"); result.push(text("details"));
      const view = document.getElementById("view");
      view.scrollTop = 1e9; hover(10, 300); result.push(text("details"), view.scrollWidth <= view.clientWidth);]])
    assert.matches("^f a.lua:19971", r[1])
    assert.matches("^f a.lua:%d+", r[2])
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
