local profiles = require "spec.support.profiles"
local source = require "perf.profile.source"
local util = require "spec.support.util"

local TEXT = { "local function work()", "\tfirst()", "  second()", "end", "", "-- a remark", "work()", "return" }

local function profile(fields)
  local t = { { weight = 60e6, "app.lua:2 work", "app.lua:7 main chunk" },
    { weight = 30e6, "K:page_fault", "app.lua:3 work", "app.lua:7 main chunk" },
    { weight = 6e6, "lib/other.lua:1 f", "app.lua:7 main chunk" }, { weight = 4e6, "app.lua:2-3 work", "app.lua:7 main chunk" } }
  for name, v in pairs(fields) do t[name] = v end
  return profiles.new(t)
end

describe("Profile:annotate", function()
  local prof = profile { sources = { ["app.lua"] = TEXT } }

  it("has the own and the total weight of each line", function()
    local a = prof:annotate "app.lua"
    assert.same({ "app.lua", 8, false, 0, "ns" }, { a.file, #a.lines, a.changed, a.gone, a.unit })
    assert.same({ text = "\tfirst()", self = 60e6, total = 60e6, count = 1 }, a.lines[2])
    assert.same({ text = "work()", self = 0, total = 100e6, count = 0 }, a.lines[7])
    assert.same({ { line = 2, lastline = 3, self = 4e6, total = 4e6 } }, a.ranges)
    assert.equal([[
task-clock: 100.000 ms in 4 samples at 999 Hz
app.lua

     self     %       total      %  line
                                       1  | local function work()
 4.000 ms   4.0    4.000 ms    4.0   2-3  | -- one of these lines, of compiled code
60.000 ms  60.0   60.000 ms   60.0     2  |     first()
30.000 ms  30.0   30.000 ms   30.0     3  |   second()
                                       4  | end
                                       5  |
                                       6  | -- a remark
                 100.000 ms  100.0     7  | work()
                                       8  | return]], tostring(a))
  end)

  it("shows the lines around those with weight, and colours", function()
    local text = tostring(prof:annotate("app.lua", { context = 0, colour = true }))
    assert.matches("\n\27%[31m60.000 ms[^\n]*first%(%)\27%[0m\n", text)
    assert.matches("\n\27%[32m 4.000 ms[^\n]*\27%[0m\n", text)
    assert.matches("second%(%)\27%[0m\n +%.%.%.\n +100.000 ms  100.0     7  | work%(%)$", text)
  end)

  it("takes the heaviest file, or the end of a path", function()
    assert.equal("app.lua", prof:annotate().file)
    local found, message, code = prof:annotate "other.lua" -- found in the profile, but not in this directory
    assert.same({ nil, "ENOENT" }, { found, code })
    assert.matches("lib/other.lua", message)
    assert.same({ nil, "app: the profile has no line of this file", "ENOENT" }, { prof:annotate "app" })
    assert.same({ nil, "the profile has no Lua line", "ENOENT" }, { profiles.empty():annotate() })
    local two = profiles.new { { weight = 1, "a/x.lua:1 f", "b/x.lua:1 f" } }
    assert.matches("^x.lua: several files have this name: [ab]/x.lua, [ab]/x.lua$", (select(2, two:annotate "x.lua")))
  end)

  it("finds the lines of a file again that has changed since", function()
    util.with_directory(function(dir)
      local path = dir .. "/app.lua"
      local function of_file(known)
        local t = { { weight = 60, path .. ":2 work" }, { weight = 40, path .. ":3 work" }, sources = { [path] = known } }
        return profiles.new(t):annotate()
      end
      local digest = source.digest(TEXT)
      util.write_file(path, table.concat(TEXT, "\n") .. "\n")
      assert.is_false(of_file(digest).changed)
      util.write_file(path, "-- new\n" .. table.concat(TEXT, "\n"):gsub("second", "third"))
      local a = of_file(digest)
      assert.same({ true, 60, 40 }, { a.changed, a.lines[3].self, a.gone })
      assert.matches("/app.lua: changed since the profile; 40 ns in lines that are gone\n", tostring(a))
      a = of_file(nil) -- a profile without digests: the file as it is
      assert.same({ false, 60, 40 }, { a.changed, a.lines[2].self, a.lines[3].self })
      util.write_file(path, "")
      assert.equal(100, of_file(nil).gone)
    end)
  end)
end)
