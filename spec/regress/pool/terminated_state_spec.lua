-- The story: a handler for SIGTERM outlived the Lua state that had installed it: after the state's end a SIGTERM wrote into freed
-- memory. And a signal that arrived while the result of a run was written ended the process without the result.
local kit = require "testkit"
local util = require "spec.support.util"

describe("a handler for SIGTERM", function()
  it("is removed with the Lua state that installed it", function()
    for _ = 1, 3 do
      local status, text = kit.fork(function()
        local core = require "perf.core"
        local ok, installed = kit.state [[return tostring(require("perf.core").on_terminate(function() return 9 end))]]
        assert(ok and installed == "true", installed)
        assert(core.on_terminate(function() return 7 end), "it is still installed")
        core.on_terminate()
        ok, installed = kit.state [[return tostring(require("perf.core").on_terminate(function() return 9 end))]]
        assert(ok and installed == "true", installed)
        os.execute("kill -TERM " .. kit.getpid())
        return "the signal did not end it"
      end)
      assert.is_true(status == -15 or status == 128 + 15, tostring(status) .. ": " .. tostring(text))
    end
  end)

  it("stays when an earlier handler is collected", function()
    local output, status = util.shell(([[timeout -s KILL 600 %s -e '
      local core = require "perf.core"
      for i = 1, 10 do
        assert(core.on_terminate(function() return 9 end))
        assert(not core.on_terminate(function() return 8 end))
        collectgarbage()
        assert(core.on_terminate() == nil)
      end
      assert(core.on_terminate(function() return 9 end))
      collectgarbage()
      collectgarbage()
      os.execute("kill -TERM " .. core.pid())
      while true do collectgarbage "step" end']]):format(util.lua()))
    assert.same({ "", 9 }, { output, status })
  end)

  it("is delayed until the result is written", function()
    local output, status = util.shell(([[timeout -s KILL 600 %s -e '
      local core = require "perf.core"
      assert(core.on_terminate(function() return 9 end))
      core.hold_signals()
      os.execute("kill -TERM " .. core.pid())
      for i = 1, 100 do collectgarbage() end
      io.write "written"
      local asked = core.on_terminate()
      io.write(" ", asked)
      core.end_by(asked)']]):format(util.lua()))
    assert.same({ "written 15", -15 }, { output:match "^written 15", status }) -- the shell may print more
  end)
end)
