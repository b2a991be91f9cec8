-- The story: luaperf report --diff compared lines by their numbers. After a line was added on top of a file, it showed every line
-- and function of the file as a change, though the program did the same.
local luaperf = require "spec.support.luaperf"
local profiles = require "spec.support.profiles"
local source = require "perf.profile.source"
local util = require "spec.support.util"

local BEFORE = { "local function f()", "  work()", "  more()", "end", "local g = function()", "  other()", "end", "f() g()" }

-- The same program with two lines on top, one within f, and without g's body.
local AFTER = { "-- new", "-- lines", "local function f()", "  local x", "  work()", "  more()", "end", "local g = function()",
  "end", "f() g()" }

-- The lines in which the functions begin.
local DEFINED = { [BEFORE] = { f = 1, ["anonymous@5"] = 5, ["main chunk"] = 0 },
  [AFTER] = { f = 3, ["anonymous@8"] = 8, ["main chunk"] = 0 } }

local function profile(lines, samples)
  samples.sources = { ["app.lua"] = lines }
  local prof = profiles.new(samples)
  for _, sample in ipairs(prof:samples()) do
    for _, f in ipairs(sample.stack) do f.linedefined = DEFINED[lines][f.func] end
  end
  return prof
end

local function rows_of(list)
  local rows = {}
  for _, row in ipairs(list) do rows[row.name] = { row.before, row.after } end
  return rows
end

local function both()
  return profile(BEFORE, { { weight = 50, "app.lua:2 f", "app.lua:8 main chunk" }, { weight = 30, "app.lua:3 f" },
    { weight = 20, "app.lua:6 anonymous@5" } }),
    profile(AFTER, { { weight = 50, "app.lua:5 f", "app.lua:10 main chunk" }, { weight = 40, "app.lua:6 f" },
      { weight = 10, "app.lua:8 anonymous@8" } })
end

describe("the difference of profiles before and after an edit", function()
  it("is by what the lines are, not by their numbers", function()
    local before, after = both()
    local diff = after:diff(before)
    assert.same({ ["app.lua:5 f"] = { 50, 50 }, ["app.lua:6 f"] = { 30, 40 },
      ["app.lua:6 anonymous@8 (removed)"] = { 20, 0 }, ["app.lua:8 anonymous@8"] = { 0, 10 } }, rows_of(diff.lines))
    assert.same({ ["f app.lua:3"] = { 80, 90 }, ["anonymous@8 app.lua:8"] = { 20, 10 } }, rows_of(diff.functions))
    local page = diff:flamegraph()
    assert.truthy(page:find('"app.lua:5 f"', 1, true))
    assert.falsy(page:find('"app.lua:2 f"', 1, true))
  end)

  it("is the same of files, and has as many rows as -n asks for", function()
    util.with_directory(function(dir)
      local before, after = both()
      assert(before:speedscope(dir .. "/1.json"))
      assert(after:speedscope(dir .. "/2.json"))
      local output, status = luaperf.shell(dir, "luaperf report --diff 1.json 2.json -n 1")
      assert.equal(0, status, output)
      assert.matches("Lua line\n 20 ns  20.0 +0 ns +0.0 +%-20.0  app.lua:6 anonymous@8 %(removed%)\n", output)
      assert.matches("\n +%.%.%. and 3 more\n", output)
    end)
  end)

  it("is by the function and the line within it, if the source is not known", function()
    local function of(first)
      local prof = profiles.new { { weight = 10, ("app.lua:%d f"):format(first + 2) } }
      prof:samples()[1].stack[1].linedefined = first
      return prof
    end
    local diff = of(12):diff(of(3))
    assert.same({ ["app.lua:14 f"] = { 10, 10 } }, rows_of(diff.lines))
    assert.same({ ["f app.lua:12"] = { 10, 10 } }, rows_of(diff.functions))
  end)

  it("finds a file in another directory", function()
    local old = profiles.new { { weight = 1, "/v1/app.lua:12 f" } }
    local new = profiles.new { { weight = 2, "/v2/app.lua:12 f" } }
    assert.same({ ["/v2/app.lua:12 f"] = { 1, 2 } }, rows_of(new:diff(old).lines))
  end)

  it("keeps the digest of the source in the file of a profile", function()
    local prof = both()
    local loaded = require "perf.profile.load".decode(prof:speedscope())
    assert.same({ ["app.lua"] = source.digest(BEFORE) }, loaded.sources)
  end)
end)
