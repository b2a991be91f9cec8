-- The story: while a profiler runs on LuaJIT, compiled code has marks that distinguish its lines. The child of a fork that closed
-- its parent's profiler gave back its own marks: its running profiler had none from then on.
local perf = require "perf"
local compiled = require "spec.support.compiled"
local util = require "spec.support.util"

describe("a child that closes its parent's profiler", function()
  it("keeps the marks of its own profiler", function()
    requires { jit = true, perf_open = true, registers = true, paranoid = 2, nostress = true }
    local none = compiled.exits()
    local inherited = assert(perf.profiler { event = "page-faults:u" })
    assert.is_true(inherited:start())
    local said = util.in_child(function()
      local own = assert(perf.profiler { event = "page-faults:u" })
      assert(own:start())
      inherited:close()
      local marked = compiled.exits()
      own:stop()
      return ("%s %s"):format(marked > none, compiled.exits() == none)
    end)
    inherited:stop()
    assert.equal("true true", said)
  end)
end)
