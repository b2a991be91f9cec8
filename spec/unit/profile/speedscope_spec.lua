-- Twice: numbers are the same in Lua 5.1 to LuaJIT, and have a subtype in Lua 5.3 and 5.4.
local json = require "perf.base.json"
local load = require "perf.profile.load"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

local function decode(prof)
  return assert(json.decode(prof:speedscope()))
end

local function same_stacks(a, b)
  local function plain(prof)
    local list = {}
    for i, s in ipairs(prof:samples()) do
      local stack = {}
      for k, f in ipairs(s.stack) do
        stack[k] = { f.name, f.kind, f.file or 0, f.line or 0, f.func or 0, f.module or 0, f.linedefined or 0 }
      end
      list[i] = { stack, s.weight, s.count, s.zone or 0 }
    end
    return list
  end
  assert.same(plain(a), plain(b))
end

describe("perf.profile.report.speedscope", function()
  it("writes files that agree with the format's schema", function()
    for _, prof in ipairs { profiles.program(), profiles.nasty(), profiles.empty() } do
      local t = decode(prof)
      assert.equal("https://www.speedscope.app/file-format-schema.json", t["$schema"])
      assert.matches("^lua%-perf ", t.exporter)
      assert.equal("string", type(t.name))
      assert.equal(0, t.activeProfileIndex)
      for _, f in ipairs(t.shared.frames) do assert.equal("string", type(f.name)) end
      local p = t.profiles[1]
      assert.same({ "sampled", "nanoseconds", 0, prof.total }, { p.type, p.unit, p.startValue, p.endValue })
      assert.equal(#prof:samples(), #p.samples)
      assert.equal(#prof:samples(), #p.weights)
      for _, stack in ipairs(p.samples) do
        for _, id in ipairs(stack) do assert.is_table(t.shared.frames[id + 1]) end
      end
    end
    assert.equal("none", decode(profiles.new { unit = "" }).profiles[1].unit)
  end)

  it("has the outermost frame of a stack first", function()
    local t = decode(profiles.program())
    local names = {}
    for i, id in ipairs(t.profiles[1].samples[2]) do names[i] = t.shared.frames[id + 1].name end
    assert.same({ "input", "app.lua:40 main chunk", "app.lua:31 main", "app.lua:14 parse", "string.find" }, names)
    assert.equal(20e6, t.profiles[1].weights[2])
  end)

  it("reads the zones of files that have them in a field of their own", function()
    util.with_tmpname(function(path)
      util.write_file(path, [==[{"shared":{"frames":[{"name":"f"}]},"profiles":[{"type":"sampled","samples":[[0],[0]],
        "weights":[1,2],"zones":["","input"],"zone":[0,1]}],"lua_perf":{"event":"cycles"}}]==])
      local samples = assert(load.all(path))[1]:samples()
      assert.same({ 1, 2, "input" }, { #samples[1].stack, samples[2].weight, samples[2].zone })
      assert.is_nil(samples[1].zone)
    end)
  end)

  it("is the same after it is written and read", function()
    util.with_tmpname(function(path)
      local limited = profiles.program()
      limited.requested = 1000000
      for _, prof in ipairs { profiles.program(), limited, profiles.empty() } do
        assert.is_true(prof:speedscope(path))
        local list = assert(load.all(path))
        assert.equal(1, #list)
        same_stacks(prof, list[1])
        for _, key in ipairs { "event", "unit", "total", "lost", "sample_count", "freq", "requested", "started", "duration_ns",
          "pid", "tid", "comm" } do
          assert.equal(prof[key], list[1][key], key)
        end
        assert.equal(tostring(prof), tostring(list[1]))
      end
    end)
  end)

  it("keeps what was allocated beside what is alive", function()
    local prof = profiles.new { event = "heap", unit = "bytes", { weight = 64, count = 2, "a.lua:1 f" },
      { weight = 0, count = 0, "a.lua:2 g" } }
    prof.list[1].allocated, prof.list[1].allocated_count = 320, 10
    prof.list[2].allocated, prof.list[2].allocated_count = 96, 3
    prof = prof.new({ event = prof.event, unit = prof.unit, total = 64 }, prof:samples())
    assert.equal(1, #prof:samples())
    local again = assert(load.decode(prof:speedscope()))
    assert.equal(1, #again:samples())
    local s, freed = again:samples()[1], again.freed[1]
    assert.same({ 64, 2, 320, 10 }, { s.weight, s.count, s.allocated, s.allocated_count })
    assert.same({ "a.lua:2 g", 0, 0, 96, 3 },
      { freed.stack[1].name, freed.weight, freed.count, freed.allocated, freed.allocated_count })
    assert.equal(prof:pprof(), again:pprof())
  end)

  it("writes many samples whole", function()
    local prof = profiles.large(9000)
    local t = decode(prof)
    assert.equal(9000, #t.profiles[1].samples)
    assert.equal(#prof:samples()[9000].stack, #t.profiles[1].samples[9000])
  end)
end)

describe("perf.profile.load", function()
  local function read(content)
    local result
    util.with_tmpname(function(path)
      util.write_file(path, content)
      local list, message, code = load.all(path)
      result = { list and list[1] or message:sub(#path + 3), code }
    end)
    return result[1], result[2]
  end

  it("accepts speedscope files of other programs", function()
    local prof = read [=[{"shared": {"frames": [{"name": "a"}, {"name": "b", "file": "x.js", "line": 3}]}, "profiles": [
      {"type": "sampled", "name": "cpu", "unit": "milliseconds", "startValue": 0, "endValue": 3,
       "samples": [[0, 1], [0], [0, 1]], "weights": [1, 0.5, 1]}]}]=]
    assert.equal("cpu", prof.event)
    assert.equal("ns", prof.unit)
    assert.equal(2.5e6, prof.total)
    assert.equal(2, #prof:samples())
    assert.same({ "b", 2e6, 2 }, { prof:samples()[1].stack[1].name, prof:samples()[1].weight, prof:samples()[1].count })
  end)

  it("accepts folded stacks", function()
    local prof = read "main;f;g 3\nmain;f 2\nmain;f;g 1\n"
    assert.same({ 6, 2, "g" }, { prof.total, #prof:samples(), prof:samples()[1].stack[1].name })
    assert.equal(4, prof:samples()[1].weight)
  end)

  it("gives the reason why a file is invalid", function()
    local SAMPLED = '{"shared": {"frames": []}, "profiles": [{"type": "sampled", '
    local function refused(content, wanted)
      local message, code = read(content)
      assert.equal("EBADMSG", code, content)
      assert.matches(wanted, message)
    end
    refused("{", "not valid JSON: byte 2: a name expected")
    refused("{}", "not a speedscope file")
    refused('{"shared": {}}', "no frames")
    refused('{"shared": {"frames": [1]}}', "frame 0 is malformed")
    refused('{"shared": {"frames": []}}', "no profile in it")
    refused('{"shared": {"frames": []}, "profiles": [{"type": "evented"}]}', "not a sampled one")
    refused(SAMPLED .. '"samples": [[0]], "weights": []}]}', "differ")
    refused(SAMPLED .. '"samples": [[0]], "weights": [1]}]}', "sample 1 has a frame")
    refused(SAMPLED .. '"samples": [7], "weights": [1]}]}', "sample 1 is not a list")
    refused(SAMPLED .. '"samples": [[]], "weights": ["x"]}]}', "weight 1 is no")
    refused("what is this\n", "neither a profile nor a perf.data file: line 1: not a folded stack: what is this")
    refused("\31\139\8\0", "a pprof file")
    refused("<!DOCTYPE html>\n", "a flame graph, which a browser shows") -- the error was about a bad folded stack
    local list, message, code = load.all "/no/such/file"
    assert.is_nil(list)
    assert.equal("ENOENT", code)
    assert.matches("/no/such/file", message)
  end)

  it("is not deceived by damage anywhere in a file", function()
    local whole = profiles.nasty():speedscope()
    for at = 1, #whole, 13 do
      local prof, code = read(whole:sub(1, at - 1) .. "\255" .. whole:sub(at + 1))
      assert.is_true(type(prof) == "table" or code == "EBADMSG")
      if at % 5 == 0 then
        prof, code = read(whole:sub(1, at))
        assert.is_true(type(prof) == "table" or code == "EBADMSG")
      end
    end
  end)
end)
