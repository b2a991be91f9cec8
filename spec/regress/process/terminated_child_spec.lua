-- The story: one Lua state of a process has the handler of SIGTERM, and a flag said that one had it. The child of a fork
-- inherited the flag, but not that state's thread: no state of the child could install the handler, and none could clear it.
local util = require "spec.support.util"

describe("a handler for SIGTERM of another process", function()
  it("does not keep a child from installing one", function()
    local output, status = util.shell(([[timeout -s KILL 600 %s -e '
      local core, kit = require "perf.core", require "testkit"
      assert(core.on_terminate(function() return 7 end))
      print(require("perf").pool { size = 1 }:submit(function()
        return require("testkit").fork(function()
          local terminate = require("perf.core").on_terminate
          assert(terminate(function() return 9 end), "it is not installed")
          assert(not terminate(function() return 8 end), "it is installed twice")
          os.execute("kill -TERM " .. require("testkit").getpid())
          for i = 1, 1000 do collectgarbage "step" end
          return "the signal did not end it"
        end)
      end):get(20))
      os.execute("kill -TERM " .. kit.getpid())
      while true do collectgarbage "step" end']]):format(util.lua()))
    assert.same({ "9\t\n", 7 }, { output, status })
  end)
end)
