-- Names of frames, and stacks made from the sampler's result.
local core = require "perf.core"
local make = require("perf.profile.collect").make
local Profile = require "perf.profile.profile"
local util = require "spec.support.util"
local zone = require "perf.profile.zone"

local profiler = { label = "page-faults", unit = "", attr = { sample_period = 1 }, started = 1.5, pid = 1, tid = 1 }

-- A result of these frames and nodes {parent, frame, weight, count}.
local function result(frames, nodes, more)
  local found = { frames = frames, parent = {}, frame = {}, weight = {}, count = {}, unsampled = 0, unsampled_count = 0,
    total = 0, lost = 0, samples = 0, duration_ns = 1, memory = 1 }
  for i, node in ipairs(nodes) do
    found.parent[i], found.frame[i], found.weight[i], found.count[i] = node[1], node[2], node[3] or 0, node[4] or 0
  end
  for k, v in pairs(more or {}) do found[k] = v end
  return make(profiler, found)
end

local function lua(file, linedefined, line, func)
  return { kind = "lua", source = file and "@" .. file or "x", linedefined = linedefined, line = line, func = func }
end

local function names(frames)
  local nodes, list = {}, {}
  for i in ipairs(frames) do nodes[i] = { 0, i, 100 - i, 1 } end
  for i, s in ipairs(result(frames, nodes):samples()) do list[i] = s.stack[1].name end
  return list
end

describe("a profile's result", function()
  it("names Lua functions as they are defined, then as they are called", function()
    util.with_tmpname(function(path)
      util.write_file(path, "local function parse()\nend\nfunction M.walk(a) end\nM.run = function() end\n"
        .. "call(function() end)\nf(function() end, function() end)\nlocal functional = 1\n")
      assert.same({ path .. ":1 parse", path .. ":3 M.walk", path .. ":4 M.run", path .. ":5 known", path .. ":5 anonymous@5",
        path .. ":6 anonymous@6", path .. ":7 anonymous@7", path .. ":9 main chunk" },
        names { lua(path, 1, 1, "other"), lua(path, 3, 3), lua(path, 4, 4), lua(path, 5, 5, "known"), lua(path, 5, 5),
          lua(path, 6, 6), lua(path, 7, 7), lua(path, 0, 9, "x") })
    end)
    assert.same({ "/nowhere/at/all.lua:7 f", "[string \"x\"]:3 anonymous@2", "/dev/stdin:4 g" },
      names { lua("/nowhere/at/all.lua", 5, 7, "f"), lua(nil, 2, 3), lua("/dev/stdin", 1, 4, "g") })
  end)

  it("names C functions by the modules that have them", function()
    local prof = result({ { kind = "c", address = core.object_address(string.gsub) }, { kind = "c", address = 64, func = "poll" },
      { kind = "c", address = 64 } }, { { 0, 1, 3, 1 }, { 0, 2, 2, 1 }, { 0, 3, 1, 1 } })
    local list = prof:samples()
    assert.same({ "string.gsub", "builtin" }, { list[1].stack[1].name, list[1].stack[1].kind })
    assert.same({ "poll", "c" }, { list[2].stack[1].name, list[2].stack[1].kind })
    assert.equal("function 0x40", list[3].stack[1].name)
  end)

  it("lists stacks innermost first, the heaviest first, without the host's own frame", function()
    local frames = { { kind = "c", address = 64 }, lua("/x/a.lua", 0, 1), lua("/x/a.lua", 5, 6, "f"),
      { kind = "state", state = "gc" } }
    local prof = result(frames, { { 0, 1 }, { 1, 2, 5, 2 }, { 2, 3, 7, 1 }, { 3, 4, 9, 4 } }, { total = 21 })
    local got = {}
    for i, s in ipairs(prof:samples()) do
      got[i] = { s.weight, s.count }
      for _, f in ipairs(s.stack) do table.insert(got[i], f.name) end
    end
    assert.same({ { 9, 4, "(garbage collector)", "/x/a.lua:6 f", "/x/a.lua:1 main chunk" },
      { 7, 1, "/x/a.lua:6 f", "/x/a.lua:1 main chunk" }, { 5, 2, "/x/a.lua:1 main chunk" } }, got)
    assert.equal(prof:samples()[1].stack[2], prof:samples()[2].stack[1]) -- frames are shared
    assert.equal(Profile, getmetatable(prof))
    assert.equal(21, prof.total)
  end)

  it("removes zones from the stack, and shows weight without a safe point or a sample", function()
    local z = zone.zone "a zone"
    local number = core.set_zone(0)
    z:close()
    core.set_zone(0)
    local prof = result({ { kind = "zone", zone = number }, lua("/x/a.lua", 0, 1), { kind = "state", state = "c" } },
      { { 0, 1 }, { 1, 2, 5, 1 }, { 0, 3, 2, 1 } }, { unsampled = 1 })
    local list = prof:samples()
    assert.equal("a zone", list[1].zone)
    assert.equal(1, #list[1].stack)
    assert.equal("(C function)", list[2].stack[1].name)
    assert.same({ "(unsampled)", 1, 0 }, { list[3].stack[1].name, list[3].weight, list[3].count })
    assert.equal("state", list[3].stack[1].kind)
  end)

  it("adds up the addresses of one function", function()
    requires { ext = "symbols" }
    local code = core.object_address()
    local prof = result({ { kind = "native", address = code }, { kind = "native", address = code + 1 } },
      { { 0, 1, 3, 1 }, { 0, 2, 4, 2 } })
    assert.equal(1, #prof:samples())
    assert.same({ 7, 3 }, { prof:samples()[1].weight, prof:samples()[1].count })
    assert.is_truthy(prof:samples()[1].stack[1].name:find("lua_gettop", 1, true))
  end)
end)

-- Behind code without frame pointers, a call chain has values that are not addresses. Lua 5.1 and 5.2 get values above 2^53 as
-- text, which was compared with the mappings' numbers.
describe("a native frame", function()
  it("may have another value in place of an address", function()
    local native = require("perf.profile.native").new()
    local frame = native:frame("native", core.u64(0x12345678, 0x12345678))
    assert.same({ name = "(compiled code)", func = "(compiled code)", kind = "jit", address = frame.address }, frame)
    native:close()
  end)
end)
