-- The story: while a profiler runs on LuaJIT, compiled code has marks that distinguish its lines. The child of a fork that closed
-- its parent's profiler gave back its own marks: its running profiler had none from then on.
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

describe("a child that closes its parent's profiler", function()
  it("keeps the marks of its own profiler", function()
    requires { lua = "luajit", perf_open = true, registers = true, paranoid = 2 }
    local inherited = assert(perf.profiler { event = "page-faults:u" })
    assert.is_true(inherited:start())
    local said = util.in_child(function()
      local own, code = assert(perf.profiler { event = "page-faults:u" }), nil
      assert(own:start())
      inherited:close()
      -- both marks and safe points need LuaJIT's profiler, of which a process has one
      profiling.at_safe_points(function() code = select(3, perf.profiler({ event = "page-faults:u" }):start()) end)
      own:stop()
      return code
    end)
    inherited:stop()
    assert.equal("EBUSY", said)
  end)
end)
