-- The page of a flame graph as text. spec/reports tests it in a browser. Twice: the page is only text.
local json = require "perf.base.json"
local profiles = require "spec.support.profiles"

local function data_of(page)
  return assert(json.decode(assert(page:match '<script type="application/json" id="data">(.-)</script>')))
end

-- The tree of a page: by path of names, {own weight, own samples, ...}.
local function tree(page)
  local data = data_of(page)
  local stride, path, t = data.diff and 6 or 4, {}, {}
  for i = 1, #data.nodes, stride do
    local depth = data.nodes[i + 1]
    path[depth + 1] = data.frames[data.nodes[i] + 1].name
    local key = table.concat(path, ";", 1, depth + 1)
    assert.is_nil(t[key])
    t[key] = {}
    for k = 2, stride - 1 do t[key][k - 1] = data.nodes[i + k] end
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
    for i = 1, 3 do first[i] = data.frames[data.nodes[i * 4 + 1] + 1].name end
    assert.same({ "app.lua:40 main chunk", "app.lua:31 main", "app.lua:12 parse" }, first)
    local kinds = {}
    for _, f in ipairs(data.frames) do kinds[f.name] = f.kind end
    assert.same({ "lua", "builtin", "kernel", "native", "state", "zone" }, { kinds["app.lua:12 parse"], kinds["string.find"],
      kinds["do_anonymous_page"], kinds["memcpy"], kinds["(outside Lua)"], kinds["input"] })
    assert.equal("task-clock, luajit (4711)", data.title)
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
    local data = data_of(profiles.new { stack }:flamegraph())
    assert.equal(4 * 30001, #data.nodes)
    assert.same({ 30000, 5, 1 }, { data.nodes[#data.nodes - 2], data.nodes[#data.nodes - 1], data.nodes[#data.nodes] })
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
