-- The story: resty.perf loads the profiler, but not the module with the methods of events, so a worker could not be profiled by a
-- tracepoint: "attempt to call method 'measure'".
local util = require "spec.support.util"

local script = [[
local p = assert(require "perf.profile".profiler { event = "syscalls:sys_enter_getppid" })
p:close()
io.write "closed"
]]

describe("the module perf.profile alone", function()
  it("profiles by a tracepoint", function()
    requires { tracepoint = "syscalls:sys_enter_getppid", perf_open = true }
    util.with_tmpname(function(path)
      util.write_file(path, script)
      assert.equal("closed", (util.shell(util.lua() .. " " .. path)))
    end)
  end)
end)
