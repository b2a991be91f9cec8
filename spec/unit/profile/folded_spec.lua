-- Twice: numbers are the same in Lua 5.1 to LuaJIT, and have a subtype in Lua 5.3 and 5.4.
local folded = require "perf.profile.report.folded"
local profiles = require "spec.support.profiles"

-- Parses like a flame graph tool: everything up to the last blank is the stack.
local function as_tools_read(content)
  local list = {}
  for line in content:gmatch "([^\n]*)\n" do
    local stack, weight = line:match "^(.*) (%d+)$"
    assert.is_truthy(stack, line)
    local names = {}
    for name in stack:gmatch "[^;]+" do names[#names + 1] = name end
    list[#list + 1] = { names = names, weight = tonumber(weight) }
  end
  return list
end

describe("perf.profile.report.folded", function()
  it("writes a line for each stack, the outermost first", function()
    local content = profiles.program():folded()
    assert.equal("app.lua:40 main chunk;app.lua:31 main;app.lua:12 parse 50000000\n", content:match "^[^\n]*\n")
    local lines = as_tools_read(content)
    assert.equal(6, #lines)
    assert.same({ names = { "(outside Lua)" }, weight = 5e6 }, lines[6])
  end)

  it("returns names unchanged, and tools see the same number of frames", function()
    local content = profiles.nasty():folded()
    local seen, back = as_tools_read(content), assert(folded.decode(content))
    assert.equal(#profiles.names, #back)
    for i, name in ipairs(profiles.names) do
      assert.equal(2, #seen[i].names, name)
      assert.same({ names = { "app.lua:1 main chunk", name == "" and "(no name)" or name }, weight = i }, back[i])
    end
  end)

  it("begins the stack of a sample with its zone", function()
    local content = profiles.program():folded()
    assert.equal("input;app.lua:40 main chunk;app.lua:31 main;app.lua:14 parse;string.find 20000000",
      content:match "[^\n]*string.find[^\n]*")
    local odd = profiles.new { { weight = 3, zone = "a;b" }, { weight = 2, zone = "", "app.lua:1 main chunk" } }
    assert.equal("a\\x3bb 3\n(no name);app.lua:1 main chunk 2\n", odd:folded())
  end)

  it("of a profile without samples is empty", function()
    assert.equal("", profiles.empty():folded())
    assert.same({}, folded.decode "")
    assert.equal("(no stack) 7\n", profiles.new { { weight = 7 } }:folded())
  end)

  it("writes many lines whole", function()
    local t = {}
    for i = 1, 10000 do t[i] = { weight = i, "f" .. i } end
    local lines = as_tools_read(profiles.new(t):folded())
    assert.equal(10000, #lines)
    assert.same({ names = { "f9999" }, weight = 9999 }, lines[9999])
  end)

  it("gives the line that is not a folded stack", function()
    local ok, message, code = folded.decode "a;b 1\nnothing here\n"
    assert.is_nil(ok)
    assert.equal("line 2: not a folded stack: nothing here", message)
    assert.equal("EBADMSG", code)
    assert.same({ { names = { "a" }, weight = 1.5 } }, folded.decode "a 1.5")
  end)
end)
