-- The story: a SIGTERM before the script of `luaperf record` had begun, while the profiler was made, was reported as "it called
-- exec or _exit, which end the script at once", since the file that says that the session runs stayed there. A SIGINT at that
-- time was reported as a mistake in the options.
local host = require "perf.kernel.host"
local luaperf = require "spec.support.luaperf".shell
local util = require "spec.support.util"

-- Ends a session by `how` while its profiler is made. Returns the output, the status, and whether the file is still there.
local function ended(how)
  local output, status, there
  util.with_directory(function(dir)
    util.write_file(dir .. "/a.lua", ([[
      require("perf").profiler = function() %s while true do collectgarbage "step" end end
      require("perf.command.session").start { mode = "record", output = "a.json", running = "running", terminated = true,
        mistake = 129 }
      print "the script has begun"]]):format(how))
    output, status = luaperf(dir, util.lua() .. " a.lua")
    there = host.readable(dir .. "/running")
  end)
  return output, status, there
end

describe("a signal before the script has begun", function()
  it("ends the session without a word, and without its file", function()
    local output, status, there = ended "require('testkit').kill(require('testkit').getpid(), 15)"
    assert.same({ "", -15, false }, { output, status, there and true })
  end)

  it("is no mistake in the options if it is an interrupt", function()
    local output, status, there = ended "error 'interrupted!'"
    assert.same({ "", -2, false }, { output, status, there and true })
  end)
end)
