-- The story: a compiled loop called a function that makes a table, and called the collector. The profile showed the collector on
-- a line without an allocation. The unwinder finds the trace that has called the collector by its return address on the C stack.
-- Each trace has a frame there, and the address is below the frame. The function had also been compiled alone, as a trace with a
-- smaller frame. The last run of that trace, before the loop began, had left its return address within the
-- frame of the loop's trace. So both traces seemed to have called the collector, and the unwinder took the first one.
local page_fault = require "spec.support.page_fault"
local perf = require "perf"
local profiling = require "spec.support.profiling"

-- The loop's trace expects the function of the loop's first run. With another function, the trace calls the collector and is left
-- at once, so it writes nothing into its frame.
local TEXT = [[
local function new()
return function(i)
local a = i + 1
return { i, a, i, a }
end
end
local function alone(n, make)
local t = {}
for i = 1, n do t[1] = make(i) end
return t
end
jit.off(alone)
local function run(n, make)
local t, s = {}, 0
for i = 1, n do
s = s + i % 7
t[1] = make(i)
s = s - i % 5
end
return s, t
end
return new, alone, run]]
local MAKES, CALLS = 4, 17 -- lines

describe("a return address of an earlier call", function()
  before_each(function()
    requires { lua = "luajit", perf_open = true, registers = true, nostress = true }
  end)
  after_each(page_fault.restore)

  it("is not taken for that of the collector's caller", function()
    local jit = rawget(_G, "jit")
    jit.flush()
    jit.opt.start("hotloop=1", "hotexit=1")
    local new, alone, run = assert(loadstring(TEXT, "=program"))()
    alone(1000, new())
    run(1000, new())
    local prof = perf.profile({ freq = 4000 }, run, 3e5, new())
    local collected, there = 0, 0
    for _, s in ipairs(prof:samples()) do
      if s.stack[1].name == "(garbage collector)" then
        local f = profiling.place(s.stack)
        collected = collected + s.weight
        there = there + (f and (f.line == MAKES or f.line == CALLS) and s.weight or 0)
      end
    end
    assert.is_true(collected > 0 and there >= 0.9 * collected, profiling.text(prof))
  end)
end)
