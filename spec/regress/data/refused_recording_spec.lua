-- The story: perf.record of a command that failed before the command began waited a second for the command to end by SIGTERM,
-- which it blocked. And a refused ring had the event's label twice in its message.
local core = require "perf.core"
local perf = require "perf"
local util = require "spec.support.util"

describe("perf.record of a command", function()
  it("does not wait for a command that has not begun if the recording is refused", function()
    requires { perf_open = "user" }
    util.with_tmpname(function(path)
      local watch, waits = core.watch, 0
      finally(function()
        core.watch = watch
        core.fault()
      end)
      core.watch = function(...) -- luacheck: ignore 122
        waits = waits + 1
        return watch(...)
      end
      perf.release() -- no idle list is left that could be closed
      core.fault("mmap", "ENOMEM", 0)
      local ok, message, code = perf.record({ "sleep", "60" }, { output = path, events = "page-faults:u" })
      assert.same({ nil, "ENOMEM" }, { ok, code })
      assert.equal(1, select(2, message:gsub("page%-faults:u", "")), message)
      assert.equal(0, waits)
    end)
  end)
end)
