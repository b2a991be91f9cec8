-- The story: a span within another took 0.9 us more on LuaJIT if the program also had Counts of another number of events: the
-- loop around it was not compiled. There is a type of Counts for each number of events, and the function that tells Counts from
-- other values went through these types. LuaJIT's compiler gives up at a loop within a loop if the inner one goes round.
local compiled = require "spec.support.compiled"
local counts = require "perf.counts"
local perf = require "perf"

local function nothing() end

it("a loop that looks whether a value is Counts is compiled, whatever the number of events", function()
  requires { jit = true, nostress = true, perf_open = "user" }
  for _, events in ipairs { "dummy", "dummy,task-clock:u", "dummy,task-clock:u,page-faults:u" } do
    local c = perf.measure(events, nothing)
    local run = assert(loadstring "local is, c = ... for _ = 1, 1000 do is(c) end")
    assert.is_truthy(compiled.trace(run, counts.is, c), events)
  end
end)
