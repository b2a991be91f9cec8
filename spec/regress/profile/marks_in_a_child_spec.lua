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

-- The story: the child's own profiler was not the last one that used the marks, since the parent's counted too. So the code that
-- the child compiled after its profile had marks, which cost a little time.
describe("a child that leaves its parent's profiler alone", function()
  it("has no marks when its own profiler has stopped", function()
    requires { jit = true, registers = true, nostress = true }
    local none = compiled.exits()
    local inherited = assert(perf.profiler { event = "alloc" })
    assert.is_true(inherited:start())
    local said = util.in_child(function()
      local own = assert(perf.profiler { event = "alloc" })
      assert(own:start())
      local marked = compiled.exits()
      own:stop()
      return ("%s %s"):format(marked > none, compiled.exits() == none)
    end)
    local marked = compiled.exits()
    inherited:stop()
    assert.equal("true true", said)
    assert(marked > none)
    assert.equal(none, compiled.exits())
  end)
end)

-- The story: LuaJIT's own profiler clears the mode of the marks when it stops. A profiler of the kernel's events sets it again at
-- its next sample; those of allocations did not, so that lines in code that was compiled from then on were ranges.
describe("a profiler of allocations", function()
  it("has its marks again when the program has used LuaJIT's own profiler", function()
    requires { jit = true, registers = true, nostress = true }
    local luajits = require "jit.profile"
    for _, event in ipairs { "alloc", "heap" } do
      local none = compiled.exits()
      local p = assert(perf.profiler { event = event, period = 1 })
      assert.is_true(p:start())
      luajits.start("f", function() end)
      luajits.stop()
      local marked = compiled.exits()
      p:stop()
      assert(marked > none)
      assert.equal(none, compiled.exits())
    end
  end)
end)
