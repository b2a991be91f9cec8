-- The story: `timeout -s INT 10 luaperf record app.lua` ended without a profile. timeout interrupts its whole process group, so
-- luaperf and the script each got the SIGINT, and luaperf passed its own on. The script's interpreter handles one SIGINT; the
-- second one ended it at once.
local signalled = require "spec.support.luaperf".signalled
local util = require "spec.support.util"

describe("an interrupt of the whole process group", function()
  before_each(function() requires { perf_open = true, nosan = true } end)

  it("is followed by SIGTERM for a script, not by a second SIGINT", function()
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.lua", [[
        require("testkit").count_signals(2) -- with this handler it survives any number of SIGINTs
        io.open("going", "w"):close()
        local core = require "perf.core"
        local ends = core.wall_ns() + 60e9
        while core.wall_ns() < ends do core.watch({}, 1) end]])
      local status, output = signalled(dir, "INT", "record a.lua", true)
      assert.equal(143, status, output)
      assert.matches("samples? of task%-clock in luaperf.json", output)
    end)
  end)

  -- Later, luaperf sent that SIGTERM again after three seconds, and the second one ended a script that was blocked in C.
  it("is sent once, so a script that is blocked writes its profile afterwards", function()
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "io.open('going', 'w'):close() os.execute 'exec sleep 5'")
      local _, output = signalled(dir, "INT", "record a.lua")
      assert.matches("^%[ luaperf: %d+ samples? of task%-clock in luaperf.json %]\n$", output)
    end)
  end)

  it("does not lose the profile of a script", function()
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "io.open('going', 'w'):close() while true do string.rep('x', 10):byte() end")
      local _, output = signalled(dir, "INT", "record a.lua", true)
      assert.matches("samples? of task%-clock in luaperf.json", output)
    end)
  end)
end)
