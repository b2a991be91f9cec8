-- The story: LuaJIT's profiler starts its timer before it installs its handler of SIGPROF. perf.profile, which starts it for a
-- moment, blocks the signal only in its own thread. When a loaded machine did not run that thread between the two calls, the
-- timer expired, and another thread of the program got the signal, which ended the process.
local util = require "spec.support.util"

describe("LuaJIT's timer, which expires before its handler is there", function()
  it("does not end a program with a second thread", function()
    requires { lua = "luajit", perf_open = "user", nosan = true }
    util.with_tmpname(function(path)
      util.write_file(path, [[
        local workers = require("testkit").workers(1)
        local prof = assert(require("perf").profile(function() end))
        io.write(tostring(prof ~= nil))
        workers:close()
      ]])
      local kit = package.searchpath("testkit", package.cpath)
      local output, status = util.shell(("LD_PRELOAD=%s KIT_SLOW_TIMER=1 %s %s"):format(kit, util.lua(), path))
      assert.same({ "true", 0 }, { output, status })
    end)
  end)
end)
