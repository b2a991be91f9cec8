-- The story: to distinguish the lines of compiled code, each profiler started LuaJIT's own, of which a process has one. Its
-- start and its stop discarded all code that the program had compiled, and a profiler of the program (jit.p) replaced it. Later,
-- the lines were not distinguished any more after the program had stopped a profiler of its own.
local perf = require "perf"
local compiled = require "spec.support.compiled"

describe("a profiler on LuaJIT", function()
  before_each(function() requires { jit = true, perf_open = true, registers = true, paranoid = 2, nostress = true } end)

  it("leaves the compiled code of the program", function()
    perf.profile({ event = "page-faults:u" }, function() end) -- learns the layout, and loads modules
    local run, trace = compiled.loop()
    local util = require "jit.util"
    local code = select(2, util.tracemc(trace))
    local events = compiled.events(function()
      local p = assert(perf.profiler { event = "page-faults:u" })
      assert(p:start())
      run()
      p:stop()
    end)
    assert.is_nil(events.flush)
    assert.equal(code, select(2, util.tracemc(trace)))
  end)

  it("distinguishes the lines of code that is compiled meanwhile, and only of that", function()
    local before = compiled.exits()
    local outer, inner = assert(perf.profiler { event = "page-faults:u" }), assert(perf.profiler { event = "page-faults:u" })
    assert(outer:start())
    local during = compiled.exits()
    assert(inner:start())
    outer:stop()
    local still = compiled.exits()
    inner:stop()
    local profile = require "jit.profile"
    profile.start("li1000", function() end)
    local marked = compiled.exits() -- how many the marks add depends on the machine
    profile.stop()
    assert.is_true(marked > before, ("%d exits, %d before"):format(marked, before))
    assert.equal(marked, during)
    assert.same({ during, before }, { still, compiled.exits() })
  end)

  it("leaves LuaJIT's profiler to the program", function()
    local profile, n = require "jit.profile", 0
    local p = assert(perf.profiler { event = "page-faults:u" })
    assert(p:start())
    profile.start("li1", function(_, samples) n = n + samples end)
    local during = compiled.exits()
    p:stop()
    local after, started = compiled.exits(), os.clock()
    repeat compiled.exits() until n > 0 or os.clock() - started > 20
    profile.stop()
    assert.is_true(n > 0)
    assert.equal(during, after)
    assert.is_true(compiled.exits() < after)
  end)

  it("distinguishes the lines again from the first sample after the program has stopped LuaJIT's profiler", function()
    local profile, kit = require "jit.profile", require "testkit"
    local none = compiled.exits()
    local p = assert(perf.profiler { event = "page-faults:u", period = 1 })
    assert(p:start())
    local during = compiled.exits()
    profile.start("i1000", function() end)
    profile.stop()
    kit.touch_pages(1)
    local again = compiled.exits()
    p:stop()
    assert.is_true(during > none, ("%d exits, %d before"):format(during, none))
    assert.same({ during, none }, { again, compiled.exits() })
  end)
end)
