-- The page of a flame graph as text. spec/reports tests it in a browser. Twice: the page is only text.
local json = require "perf.base.json"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

local function data_of(page)
  return assert(json.decode(assert(page:match '<script type="application/json" id="data">(.-)</script>')))
end

-- The nodes of a page in preorder: {frame, depth, own weight, own samples, ...}.
local function nodes_of(data)
  local list, depth = {}, -1
  local function numbers(text) return tonumber((text:match "^%d+")), tonumber((text:match "^%d+,(%d+)$")) end
  for up, frame, rest in data.nodes:gmatch "(%w*<?)(%w+)([^;]*);" do
    if up:find "<" then
      depth = depth - tonumber(up:sub(1, -2), 36)
    else
      frame = up .. frame
    end
    depth = depth + 1
    local node = { data.frames[tonumber(frame, 36) + 1], depth, 0, 0, data.diff and 0 or nil, data.diff and 0 or nil }
    local a, b = rest:match "^:([^:]+):?(.*)$"
    if a then node[3], node[4] = numbers(a) end
    if b and b ~= "" then node[5], node[6] = numbers(b) end
    list[#list + 1] = node
  end
  return list
end

-- The tree of a page: by path of names, {own weight, own samples, ...}.
local function tree(page)
  local data = data_of(page)
  local path, t = {}, {}
  for _, node in ipairs(nodes_of(data)) do
    local depth = node[2]
    path[depth + 1] = node[1].name
    local key = table.concat(path, ";", 1, depth + 1)
    assert.is_nil(t[key])
    t[key] = { node[3], node[4], node[5], node[6] }
  end
  return t, data
end

describe("perf.profile.report.flamegraph", function()
  it("merges stacks into a tree, the widest first", function()
    local t, data = tree(profiles.program():flamegraph())
    assert.same({ 0, 0 }, t.all)
    assert.same({ 50e6, 50 }, t["all;app.lua:40 main chunk;app.lua:31 main;app.lua:12 parse"])
    assert.same({ 20e6, 20 }, t["all;input;app.lua:40 main chunk;app.lua:31 main;app.lua:14 parse;string.find"])
    assert.same({ 10e6, 10 }, t["all;app.lua:40 main chunk;app.lua:32 main;app.lua:25 walk;app.lua:25 walk;app.lua:25 walk"])
    local first = {}
    for i = 1, 3 do first[i] = nodes_of(data)[i + 1][1].name end
    assert.same({ "app.lua:40 main chunk", "app.lua:31 main", "app.lua:12 parse" }, first)
    local kinds = {}
    for _, f in ipairs(data.frames) do kinds[f.name] = f.kind end
    assert.same({ "lua", "builtin", "kernel", "native", "state", "zone" }, { kinds["app.lua:12 parse"], kinds["string.find"],
      kinds["do_anonymous_page"], kinds["memcpy"], kinds["(outside Lua)"], kinds["input"] })
    assert.equal("app.lua, task-clock (4711)", data.title)
    assert.matches("100.000 ms · 100 samples · in 2.000 s", data.subtitle)
  end)

  it("compares two profiles", function()
    local before = profiles.new { { weight = 7, count = 7, "a.lua:1 f" }, { weight = 5, count = 5, "a.lua:9 gone", "a.lua:1 f" } }
    local after = profiles.new { { weight = 10, count = 2, "a.lua:1 f" }, { weight = 3, count = 1, "a.lua:2 new", "a.lua:1 f" } }
    local t = tree(after:flamegraph(nil, { diff = before }))
    assert.same({ 10, 2, 7, 7 }, t["all;a.lua:1 f"])
    assert.same({ 0, 0, 5, 5 }, t["all;a.lua:1 f;a.lua:9 gone"])
    assert.same({ 3, 1, 0, 0 }, t["all;a.lua:1 f;a.lua:2 new"])
  end)

  it("is one file that loads nothing, whatever the names contain", function()
    for _, prof in ipairs { profiles.program(), profiles.nasty(), profiles.empty() } do
      local page = prof:flamegraph(nil, { title = '<b>"&' })
      assert.is_nil(page:find "https?:")
      assert.is_nil(page:find "<link")
      assert.is_nil(page:find " src=")
      assert.is_nil(page:find "url%(")
      assert.is_nil(page:find "@%u+@")
      assert.matches("default%-src 'none'", page)
      local _, scripts = page:gsub("<script", "")
      local _, ends = page:gsub("</script", "")
      assert.same({ 2, 2 }, { scripts, ends })
      assert.is_nil(page:find("<script>alert", 1, true))
      assert.is_nil(page:find("]]><!--", 1, true))
      assert.truthy(page:find("<title>&lt;b&gt;&quot;&amp;</title>", 1, true))
      assert.equal('<b>"&', data_of(page).title)
      assert.is_nil(page:find "[%z\1-\8\14-\31\255]")
    end
    local t = tree(profiles.nasty():flamegraph())
    assert.same({ 2, 1 }, t["all;app.lua:1 main chunk;<script>alert(1)</script>"])
    assert.same({ 10, 1 }, t["all;app.lua:1 main chunk;bad\\xff\\x80utf"])
  end)

  it("of a profile without samples has only its root", function()
    assert.same({ all = { 0, 0 } }, (tree(profiles.empty():flamegraph())))
    assert.same({ all = { 5, 1 } }, (tree(profiles.new { { weight = 5 } }:flamegraph())))
  end)

  it("has every node of large and of deep trees", function()
    local prof = profiles.large(1000)
    local t = tree(prof:flamegraph())
    local sum = 0
    for _, node in pairs(t) do sum = sum + node[1] end
    assert.equal(prof.total, sum)
    local stack = { weight = 5 }
    for i = 1, 30000 do stack[i] = "a.lua:1 f" end
    local nodes = nodes_of(data_of(profiles.new { stack }:flamegraph()))
    assert.equal(30001, #nodes)
    assert.same({ 30000, 5, 1 }, { nodes[30001][2], nodes[30001][3], nodes[30001][4] })
  end)

  -- 100,000 stacks of 20 frames that share nothing but the root are 1.9 million nodes: they were 40 MB.
  it("needs few bytes for a node", function()
    local list, n = {}, 200
    for i = 1, n do
      list[i] = { weight = 1e6, "m.lua:1 leaf" }
      for k = 2, 20 do list[i][k] = ("m.lua:%d f%d"):format((i * 7 + k * i) % 40 + 1, k % 3) end
      list[i][20] = ("m.lua:%d root"):format(i)
    end
    local data = data_of(profiles.new(list):flamegraph())
    assert.equal(20 * n + 1, #nodes_of(data))
    assert.is_true(#data.nodes < 20 * n * 6, #data.nodes)
  end)

  it("has the script as its title, or else the program", function()
    local function title_of(stack) return data_of(profiles.new { stack }:flamegraph()).title end
    assert.equal("dir/tool.lua, task-clock (4711)", title_of { weight = 1, "a.lua:1 f", "dir/tool.lua:9 main chunk" })
    assert.equal("luajit, task-clock (4711)", title_of { weight = 1, "a.lua:1 f" })
  end)

  it("is a picture if the name ends in .svg", function()
    local text
    for _, prof in ipairs { profiles.program(), profiles.nasty(), profiles.empty() } do
      util.with_directory(function(dir)
        assert.is_true(prof:save(dir .. "/x.svg"))
        text = util.read_file(dir .. "/x.svg")
        assert.is_true(prof:flamegraph(dir .. "/y.SVG", { diff = prof, title = "<b>" }))
        assert.is_truthy(util.read_file(dir .. "/y.SVG"):find("&lt;b&gt;", 1, true))
      end)
      assert.matches("^<svg .*</svg>\n$", text)
      assert.is_nil(text:find "<script")
      assert.is_nil(text:find "[%z\1-\8\14-\31]")
      local opened, closed = select(2, text:gsub("<g[ >]", "")), select(2, text:gsub("</g>", ""))
      assert.equal(opened, closed)
      local loaded = { xmlns = true }
      for name in text:gmatch '([%w:]+)="http' do assert.is_true(loaded[name]) end
      if prof.sample_count == 100 then
        assert.matches('<title>parse app.lua:12: 50.000 ms, 50.00 %%</title><rect class="lua" x="10.0" y="51" width="589.5"',
          text)
        assert.matches(">app.lua, task%-clock %(4711%)</text>", text)
        assert.matches(">render app.lua:22</text>", text)
      end
    end
  end)

  it("keeps the line in a narrow frame", function()
    local label = require "perf.profile.report.flamegraph_svg".label
    local f = { name = "long/app.lua:12 handler", func = "handler", file = "long/app.lua", line = 12 }
    assert.same({ "handler long/app.lua:12", "handler:12", "handler:12", "hand..:12", "ha..:12", "ha.." },
      { label(f, 23), label(f, 22), label(f, 10), label(f, 9), label(f, 7), label(f, 4) })
    assert.is_nil(label(f, 3))
    local street = { name = "Stra\195\159e" }
    assert.same({ "Stra\195\159e", "Str..", "St.." }, { label(street, 6), label(street, 5), label(street, 4) })
    assert.equal("f a.lua:3-9", label({ name = "a.lua:3-9 f", func = "f", file = "a.lua", line = 3, lastline = 9 }, 20))
  end)

  it("checks its options", function()
    local prof = profiles.empty()
    assert.error_matches(function() prof:flamegraph(nil, { titel = "x" }) end, "unknown option 'titel'; did you mean 'title'?")
    assert.error_matches(function() prof:flamegraph(nil, { diff = 1 }) end, "option 'diff': table expected, got number")
    assert.error_matches(function() prof:flamegraph(nil, { diff = profiles.new { event = "page-faults" } }) end,
      "option 'diff': a profile of task%-clock expected, got one of page%-faults")
    assert.error_matches(function() prof:flamegraph(nil, 1) end, "table of options expected, got number")
  end)
end)
