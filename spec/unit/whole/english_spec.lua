-- Once: it checks a tool, which LuaJIT runs.
local util = require "spec.support.util"

-- The findings of tools/english.lua in a file with this text, and its status.
local function check(text)
  local output, status
  util.with_tmpname(function(name)
    util.write_file(name, text)
    output, status = util.shell("luajit tools/english.lua " .. name)
  end)
  return output, status
end

describe("tools/english.lua", function()
  before_each(function() requires{cmd = "luajit"} end)

  it("accepts plain comments and titles", function()
    local out, status = check [[
-- The events of a group.
local x = 1 -- the first
-- What is it?
it("counts what a function does", f)
]]
    assert.same({ "", 0 }, { out, status })
  end)

  it("names the line of a riddle, and a plain form", function()
    local out, status = check [[
-- What the events are.
it("refuses what is no list", f)
/* for who asks */
x = 1 -- where it is
]]
    assert.equal(1, status)
    local lines = {}
    for line in out:gmatch ":(%d+): " do lines[#lines + 1] = line end
    assert.same({ "1", "2", "3", "4" }, lines)
    assert.matches("plain: 'a value that is not'", out, 1, true)
  end)

  it("reads the second line of a comment as its continuation", function()
    local _, status = check "-- The events of the group\n-- what they count, and\n/* The bits\n * where they are */\n"
    assert.equal(0, status)
  end)
end)
