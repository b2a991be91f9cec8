-- The story: compiled code of one of several lines has a frame "FILE:FIRST-LAST FUNCTION". A profile that was written as folded
-- stacks or for perf report, and read again, showed it as native code without a file.
local load = require "perf.profile.load"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

describe("compiled code of several lines, in a file that is read again,", function()
  local function check(format)
    local frame
    util.with_directory(function(dir)
      local path = dir .. "/profile." .. format
      local prof = profiles.new { { weight = 5, "app.lua:12-15 parse", "app.lua:40 main chunk" } }
      assert(prof[format](prof, path))
      frame = assert(load.all(path))[1]:samples()[1].stack[1]
    end)
    assert.same({ "app.lua:12-15 parse", "range", "app.lua", 12, 15, "parse" },
      { frame.name, frame.kind, frame.file, frame.line, frame.lastline, frame.func })
  end

  it("has its lines in folded stacks", function() check "folded" end)
  it("has its lines in speedscope's format", function() check "speedscope" end)
  it("has its lines in a perf.data file", function()
    requires { ext = "symbols" }
    check "perf_data"
  end)
end)
