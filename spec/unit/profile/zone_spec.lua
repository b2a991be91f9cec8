-- The samples of one zone as a Profile, and what luaperf report --zone and luaperf top --zone show.
local core = require "perf.core"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

describe("Profile:zone", function()
  it("has the samples of the zone, and their sum as its total", function()
    local whole = profiles.program()
    local part = whole:zone "input"
    assert.same({ 20e6, 20, 1 }, { part.total, part.sample_count, #part:samples() })
    assert.equal("app.lua:14 parse", part:top().lines[1].name)
    assert.same({ whole.event, whole.freq, whole.comm }, { part.event, part.freq, part.comm })
    assert.same({ 100e6, 6 }, { whole.total, #whole:samples() })
  end)

  it("of an unknown zone has no samples", function()
    local none = profiles.program():zone "other"
    assert.same({ 0, 0, 0 }, { none.total, none.sample_count, #none:samples() })
  end)

  it("has live memory, and what was freed of it", function()
    local prof = profiles.new { event = "heap", unit = "bytes", { weight = 3, zone = "a", "app.lua:1 main chunk" } }
    prof.freed = { { stack = {}, weight = 0, count = 0, allocated = 8, allocated_count = 1, zone = "a" },
      { stack = {}, weight = 0, count = 0, allocated = 9, allocated_count = 1 } }
    local part = prof:zone "a"
    assert.same({ 3, 1, 1, 8 }, { part.total, #part:samples(), #part.freed, part.freed[1].allocated })
  end)

  it("refuses a name that is not a string", function()
    assert.has_error(function() profiles.program():zone(5) end, "bad argument #1 to 'zone' (string expected, got number)")
  end)
end)

describe("luaperf report --zone", function()
  local report = require "perf.command.report"

  local function written(zone, before)
    local content, ok, message, code
    util.with_tmpname(function(path)
      util.with_tmpname(function(out)
        assert(profiles.program():speedscope(path))
        ok, message, code = report.run({ zone = zone, output = out, folded = not before, stdio = before, diff = before and path },
          { path })
        content = ok and util.read_file(out)
      end)
    end)
    return content or ok, message, code
  end

  it("writes only the samples of the zone", function()
    assert.equal("input;app.lua:40 main chunk;app.lua:31 main;app.lua:14 parse;string.find 20000000\n", written "input")
  end)

  it("compares only these samples", function()
    local text = written("input", true)
    assert.matches("parse", text)
    assert.is_nil(text:find("walk", 1, true))
  end)

  it("names the zones if none has this name", function()
    local ok, message, code = written "nowhere"
    assert.same({ nil, "no sample is in the zone 'nowhere'; the profile has input", "USAGE" }, { ok, message, code })
  end)

  -- The story: a profile of a script has no zones, as a rule, and the message was "attempt to concatenate a nil value".
  it("says so if the profile has no zones", function()
    local prof = profiles.new { event = "cpu-clock", unit = "ns", { weight = 3, "app.lua:1 main chunk" } }
    util.with_tmpname(function(path)
      assert(prof:speedscope(path))
      local ok, message, code = report.run({ zone = "parse" }, { path })
      assert.same({ nil, "no sample is in the zone 'parse'; the profile has no zones", "USAGE" }, { ok, message, code })
    end)
  end)

  -- The story: the message had the names as they are in the file, with ends of lines and escape sequences of terminals.
  it("shows names of zones on one line, as the tables do", function()
    local prof = profiles.new { event = "cpu-clock", unit = "ns", { weight = 3, zone = "a\n\27[2J", "app.lua:1 main chunk" } }
    util.with_tmpname(function(path)
      assert(prof:speedscope(path))
      local ok, message, code = report.run({ zone = "b\n" }, { path })
      assert.same({ nil, [[no sample is in the zone 'b\n'; the profile has a\n\x1b[2J]], "USAGE" }, { ok, message, code })
    end)
  end)
end)

describe("luaperf top --zone", function()
  local profile, terminal = require "perf.profile", require "perf.command.terminal"

  -- Show an interval with the samples of profiles.program. @return the text
  local function shown(zone)
    local parts, started, write = {}, profile.started, terminal.write
    finally(function() profile.started, terminal.write = started, write end)
    local function stop()
      local prof = profiles.program()
      prof.memory, prof.duration_ns = 1, 1e9
      return prof
    end
    profile.started = function() return { stop = stop, close = function() end } end
    terminal.write = function(text)
      parts[#parts + 1] = text
      return true
    end
    assert.equal(0, require "perf.command.top".run({ pid = { core.pid() }, delay = 0.001, times = 1, zone = zone }, {}, {}))
    return table.concat(parts)
  end

  it("shows only the samples of the zone, and their rate", function()
    local text = shown "input"
    assert.matches("app.lua:14 parse", text)
    assert.is_nil(text:find("walk", 1, true), text)
    assert.matches("\n0.02 s a second, ", text)
    assert.matches("walk", shown())
  end)

  it("shows that the interval has no samples of the zone", function()
    assert.matches("\nno samples\n", shown "nowhere")
  end)

  it("names the zone on the screen", function()
    local screen = require "perf.command.top_screen".new { zone = "/cart\n", pid = { 1 } }
    assert.matches("each 2 s, zone /cart\\n; h: keys", screen:text(nil, 24))
  end)
end)
