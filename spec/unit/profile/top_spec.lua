local profiles = require "spec.support.profiles"

local function row(rows, name)
  for _, r in ipairs(rows) do
    if r.name == name then return r end
  end
end

describe("perf.profile.report.top", function()
  it("attributes a stack to its innermost Lua line, and once to each of its lines", function()
    local top = profiles.program():top()
    assert.same({ "app.lua:12 parse", 50e6, 50e6, 50 },
      { top.lines[1].name, top.lines[1].self, top.lines[1].total, top.lines[1].count })
    local find = row(top.lines, "app.lua:14 parse") -- in string.find
    assert.same({ 20e6, 20e6 }, { find.self, find.total })
    local render = row(top.lines, "app.lua:22 render") -- in the kernel, in the collector
    assert.same({ 15e6, 15e6, "app.lua", 22 }, { render.self, render.total, render.file, render.line })
    local walk = row(top.lines, "app.lua:25 walk") -- recursive
    assert.same({ 10e6, 10e6 }, { walk.self, walk.total })
    assert.same({ 0, 95e6 }, { row(top.lines, "app.lua:40 main chunk").self, row(top.lines, "app.lua:40 main chunk").total })
    assert.equal(5e6, row(top.lines, "(outside Lua)").self)
    local sum = 0
    for _, r in ipairs(top.lines) do sum = sum + r.self end
    assert.equal(100e6, sum)
  end)

  it("attributes a stack to the function of its innermost frame of any kind", function()
    local top = profiles.program():top()
    local parse = row(top.functions, "parse app.lua:10")
    assert.same({ 50e6, 70e6 }, { parse.self, parse.total })
    assert.same({ 10e6, 10e6, "kernel" }, { row(top.functions, "do_anonymous_page").self,
      row(top.functions, "do_anonymous_page").total, row(top.functions, "do_anonymous_page").kind })
    assert.equal(10e6, row(top.functions, "walk app.lua:20").total)
    assert.same({ "input", 20e6 }, { top.zones[1].name, top.zones[1].self })
  end)

  it("is the text of a printed profile", function()
    local text = tostring(profiles.program())
    assert.equal("task-clock: 100.000 ms in 100 samples at 999 Hz", text:match "^[^\n]*")
    assert.truthy(text:find("\n     self     %      total     %  Lua line\n"
      .. "50.000 ms  50.0  50.000 ms  50.0  app.lua:12 parse\n", 1, true))
    assert.truthy(text:find("\n20.000 ms  20.0  20.000 ms  20.0  input", 1, true))
    assert.equal(text, tostring(profiles.program():top()))
  end)

  -- The story: for a perf.data file of another program, luaperf report printed the table of functions twice, once as "Lua line".
  it("has no table of Lua lines where there are none", function()
    local prof = profiles.new { event = "page-faults", unit = "", { weight = 9, count = 9, "K:read_zero" } }
    local text = tostring(prof)
    assert.is_nil(text:find("Lua line", 1, true), text)
    assert.matches("function\n +9 +100.0 +9 +100.0 +read_zero", text)
  end)

  -- The story: the estimates of a few samples of `alloc` were more than the exact total, and a row had 1,174 %.
  it("has no share above the whole", function()
    local prof = profiles.new { event = "alloc", unit = "bytes", { weight = 500, count = 5, "a.lua:1 f" } }
    prof.total = 50
    assert.matches("500 B +100%.0 +500 B +100%.0 +a.lua:1 f", tostring(prof))
  end)

  -- The story: the number limited only the text: the values had all rows.
  it("limits the values to the requested number of rows, and counts the others", function()
    local all, top = profiles.program():top(), profiles.program():top(2)
    assert.same({ all.lines[1], all.lines[2] }, top.lines)
    assert.same({ all.functions[1], all.functions[2] }, top.functions)
    assert.same({ lines = #all.lines - 2, functions = #all.functions - 2, zones = 0 }, top.more)
    assert.same({ lines = 0, functions = 0, zones = 0 }, all.more)
    assert.same(all.lines, profiles.program():top(math.huge).lines)
    assert.equal(all.total, top.total)
    assert.matches("Lua line\n50.000 ms +50.0 +50.000 ms +50.0 +app.lua:12 parse\n", tostring(top))
    -- The heaviest stack has no Lua line: the table of lines is still shown.
    assert.matches("Lua line", tostring(profiles.new({ { weight = 9, "K:read_zero" }, { weight = 1, "a.lua:1 f" } }):top(1)))
  end)

  it("shows 20 rows of all values without a number", function()
    local stacks = {}
    for i = 1, 30 do stacks[i] = { weight = i, ("a.lua:%d f"):format(i) } end
    local prof = profiles.new(stacks)
    assert.equal(30, #prof:top().lines)
    assert.matches("a.lua:11 f\n +... and 10 more\n", tostring(prof))
    assert.matches("a.lua:1 f\n", tostring(prof:top(30)) .. "\n")
  end)

  it("shows the requested number of rows", function()
    local text = tostring(profiles.program():top(2))
    assert.matches("app.lua:14 parse\n +%.%.%. and 6 more\n", text)
    assert.error_matches(function() profiles.program():top(0) end,
      "bad argument #1 to 'top' %(positive integer expected, got 0%)")
    assert.error_matches(function() profiles.program():top "x" end, "bad argument #1 to 'top'")
  end)

  it("shows counts that are not times, and lost samples", function()
    local prof = profiles.new { event = "page-faults", unit = "", period = 1, lost = 3,
      { weight = 1234, count = 1234, "a.lua:1 f" } }
    prof.freq = nil
    local text = tostring(prof)
    assert.equal("page-faults: 1,234 in 1,234 samples, 3 samples lost", text:match "^[^\n]*")
    assert.truthy(text:find("\n1,234  100.0  1,234  100.0  a.lua:1 f\n", 1, true), text)
  end)

  it("computes shares of the exact total", function()
    local prof = profiles.new { total = 200, { weight = 100, "a.lua:1 f" } }
    assert.truthy(tostring(prof):find("100 ns  50.0  100 ns  50.0  a.lua:1 f", 1, true))
  end)

  it("of a profile without samples says so", function()
    assert.equal("task-clock: 0 ns in 0 samples at 999 Hz\nno samples", tostring(profiles.empty()))
    assert.matches("in 1 sample at", tostring(profiles.new { { weight = 5 } }))
    assert.matches("%(no stack%)", tostring(profiles.new { { weight = 5 } }))
  end)

  it("prints one line for each name whatever is in it", function()
    local prof = profiles.nasty()
    local _, lines = tostring(prof):gsub("\n", "")
    assert.equal(2 * (#profiles.names + 1) + 4, lines) -- the title, the tables, their heads and the lines between
    assert.is_nil(tostring(prof):find "[%z\1-\9\11-\31]")
  end)
end)

describe("perf.profile.report.diff", function()
  local before = profiles.new { { weight = 20, "a.lua:1 f" }, { weight = 20, "a.lua:2 g" } }
  local after = profiles.new { { weight = 90, "a.lua:1 f" }, { weight = 10, "a.lua:3 h" } }

  it("compares shares, the largest change first", function()
    local d = after:diff(before)
    assert.same({ "a.lua:2 g", 20, 0, 0.5, 0 }, { d.lines[1].name, d.lines[1].before, d.lines[1].after, d.lines[1].before_share,
      d.lines[1].after_share })
    assert.same({ "a.lua:1 f", 20, 90 }, { d.lines[2].name, d.lines[2].before, d.lines[2].after })
    assert.near(0.4, d.lines[2].change, 1e-9)
    assert.near(0.1, d.lines[3].change, 1e-9)
    assert.equal("task-clock: before 40 ns, after 100 ns", tostring(d):match "^[^\n]*")
    assert.truthy(tostring(d):find(" 20 ns  50.0   0 ns   0.0   -50.0  a.lua:2 g", 1, true), tostring(d))
  end)

  it("compares the bytes of memory", function()
    local function heap(t)
      t.event, t.unit = "heap", "bytes"
      return profiles.new(t)
    end
    local d = heap { { weight = 1300, "a.lua:1 f" }, { weight = 900, "a.lua:2 g" }, { weight = 10, "a.lua:3 h" } }:diff(
      heap { { weight = 100, "a.lua:1 f" }, { weight = 900, "a.lua:2 g" }, { weight = 20, "a.lua:3 h" } })
    local found = {}
    for i, r in ipairs(d.lines) do found[i] = { r.name, r.change } end
    assert.same({ { "a.lua:1 f", 1200 }, { "a.lua:3 h", -10 }, { "a.lua:2 g", 0 } }, found)
    assert.equal(1200, d.functions[1].change)
    assert.truthy(tostring(d):find(" 100 B   9.8  1,300 B  58.8  +1,200 B  a.lua:1 f", 1, true), tostring(d))
    assert.truthy(tostring(d):find(" -10 B  a.lua:3 h", 1, true), tostring(d))
  end)

  it("has the requested number of rows", function()
    local d = after:diff(before, 1)
    assert.same({ "a.lua:2 g" }, { d.lines[1].name, (d.lines[2] or {}).name })
    assert.equal(2, d.more.lines)
    assert.matches("a.lua:2 g\n +%.%.%. and 2 more\n", tostring(d))
    assert.error_matches(function() after:diff(before, 0) end,
      "bad argument #2 to 'diff' %(positive integer expected, got 0%)")
  end)

  it("draws a flame graph", function()
    assert.matches('"diff":true', after:diff(before):flamegraph())
  end)

  it("accepts only a profile of the same event", function()
    assert.error_matches(function() after:diff(profiles.new { event = "page-faults" }) end,
      "bad argument #1 to 'diff' %(a profile of task%-clock expected, got one of page%-faults%)")
  end)

  it("accepts only profiles", function()
    assert.error_matches(function() after:diff() end, "bad argument #1 to 'diff' %(Profile expected, got nil%)")
    assert.equal("task-clock: before 0 ns, after 0 ns\nno samples", tostring(profiles.empty():diff(profiles.empty())))
  end)
end)
