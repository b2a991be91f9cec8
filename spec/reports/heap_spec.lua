-- The page of a heap in a real browser: walked through, searched, and that of a difference.
local browser = require "spec.support.browser"
local perf = require "perf"
local util = require "spec.support.util"

local opened = {}

local function page(script, opts, options)
  local result
  util.with_tmpname(function(path)
    local h = assert(perf.heap { collect = true })
    opened[1] = h
    assert.is_true(h:html(path, options))
    result = browser.run(path, script, opts)
  end)
  return result
end

local helpers = [[
  const rows = () => [...document.querySelectorAll("#view tbody tr")];
  const shown = () => rows().map(r => r.lastChild.textContent);
  const row = s => rows().find(r => r.lastChild.textContent.includes(s));
  const panel = () => document.getElementById("panel").textContent;
  const press = (name) => key(name, document.activeElement);
]]

describe("the page of a heap in a browser", function()
  before_each(function() requires { cmd = "chromium", module = "dkjson", heap = true } end)
  after_each(function()
    for i, h in ipairs(opened) do
      h:close()
      opened[i] = nil
    end
    _G.heap_page = nil
  end)

  it("opens the tree step by step, by clicks and by keys, and shows what holds an object", function()
    local leaf = { ("x"):rep(5000) }
    _G.heap_page = { cache = { first = leaf, second = { leaf, ("y"):rep(90000) } }, other = leaf }
    local r = page(helpers .. [[
      const before = rows().length;
      row("_G").click(); result.push(rows().length > before);
      const own = row("heap_page"); own.click();
      row(".cache").click();
      result.push(row(".second") !== undefined, panel().includes("_G.heap_page.cache"),
        document.querySelector("#panel li button").textContent.startsWith("_G.heap_page"));
      const at = row(".second"); at.focus(); press("ArrowRight");
      result.push(row("[2]") !== undefined, document.activeElement.lastChild.textContent.includes(".second"));
      press("ArrowDown"); press("Enter"); result.push(panel().includes("_G.heap_page.cache.second[2]"));
      press("ArrowLeft"); press("ArrowLeft"); result.push(row("[2]") === undefined);]])
    for i = 1, #r do assert.equal("true", r[i], "step " .. i) end
    assert.equal(8, #r)
  end)

  it("finds objects by type, path and function, and leads from one to those that hold it", function()
    local function holder() return _G.heap_page end
    _G.heap_page = { run = holder, list = { { ("z"):rep(50000) } }, mark = "<script>alert(1)</script>" }
    local line = debug.getinfo(holder, "S").linedefined
    local r = page(helpers .. ([[
      type("heap_spec.lua:%d$"); result.push(shown().some(s => s.startsWith("_G.heap_page.run")));
      type("^thread$"); result.push(rows().length > 0 && rows().every(x => x.lastChild.textContent.endsWith("thread")));
      type("("); result.push(text("matched") === "no regex");
      type("heap_page.list.1..1"); rows()[0].click();
      result.push(panel().includes("string") && panel().includes("Held by"));
      const button = s => [...document.querySelectorAll("#panel button")].find(b => b.textContent.startsWith(s));
      button("_G.heap_page.list[1]").click();
      result.push(document.querySelector("#panel h2").textContent === "_G.heap_page.list[1]");
      button("Show in the tree").click();
      result.push(document.activeElement.row.o === objects[chosen] && !pattern);
      press("/"); result.push(document.activeElement.id === "search");
      press("Escape"); result.push(document.activeElement.id === "view");
    ]]):format(line))
    for i = 1, #r do assert.equal("true", r[i], "step " .. i) end
    assert.equal(8, #r)
  end)

  it("has sums that agree with the Heap's", function()
    _G.heap_page = {}
    for i = 1, 30000 do _G.heap_page[i] = { i } end
    local r = page(helpers .. [[
      key("2"); result.push(rows().reduce((sum, r) => sum + +r.firstChild.textContent.replace(/,/g, ""), 0));
      const sum = objects.reduce((s, o) => s + o.bytes + Math.max(0, o.left_bytes), 0);
      result.push(sum === objects[0].retained, objects.length, objects.every(o => o.left >= 0 && o.left_bytes >= 0));
      key("1"); row("_G").click(); row("heap_page").click();
      result.push(shown().some(s => /^\d+,\d+ smaller objects, which this page leaves out/.test(s)));
      key("3"); result.push(row("_G.heap_page") !== undefined);]])
    assert.equal(opened[1].total, tonumber(r[1]))
    assert.same({ "true", "20001", "true", "true", "true" }, { r[2], r[3], r[4], r[5], r[6] })
  end)

  it("shows what changed, in the dark and on a phone", function()
    local old = assert(perf.heap { collect = true })
    opened[2] = old
    local far = (loadstring or load)("local held = ('v'):rep(100000) return function() return held end",
      "@/" .. ("directory/"):rep(30) .. "x.lua")()
    _G.heap_page = { ("w"):rep(200000), far }
    local r = page(helpers .. [[
      result.push(document.getElementById("changes").getAttribute("aria-selected"));
      const at = row("_G.heap_page"); at.click();
      result.push(at.querySelector(".up") !== null && panel().includes("_G.heap_page"));
      const dark = getComputedStyle(document.body).backgroundColor === "rgb(24, 24, 27)";
      result.push(document.documentElement.scrollWidth <= innerWidth,
        matchMedia("(prefers-color-scheme: dark)").matches === dark);
      const view = document.getElementById("view");
      key("1"); row("_G").click(); row("heap_page").click();
      result.push(row("directory") !== undefined, view.scrollWidth <= view.clientWidth); // no path is cut off
      const line = row("heap_page"), mark = line.querySelector("i"), top_of = e => e.getBoundingClientRect().top;
      const at_top = () => top_of(mark) - top_of(line), before = at_top();
      view.scrollTop = 40; result.push(view.scrollTop === 40, Math.abs(at_top() - before) < 1);]],
      { width = 390, height = 700, dark = true }, { diff = old })
    for i = 1, #r do assert.equal("true", r[i], "step " .. i) end
    assert.equal(8, #r)
  end)
end)
