-- The frame "(garbage collector)" in the profile of another process: see spec/live/profile/collector_spec.lua. In PUC Lua,
-- the BPF program counts the samples of a C function without unwinding them, except samples in the collector.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"

describe("the garbage collector in a profile of another process", function()
  it("has nearly all of a call of collectgarbage, and its stack", function()
    -- The sanitizers' free uses more of the C stack than is searched for the collector.
    outside.requires { nosan = true }
    local prof = outside.profile({ event = "task-clock", freq = 4000 }, function()
      local keep = {}
      for i = 1, 20000 do keep[i] = { i } end
      for _ = 1, 100 do collectgarbage() end
      return #keep
    end)
    local collects, called = 0, 0
    for _, s in ipairs(prof:samples()) do
      for i, f in ipairs(s.stack) do
        if f.name == "collectgarbage" then
          called = called + s.weight
          collects = collects + (i == 2 and s.stack[1].name == "(garbage collector)" and s.weight or 0)
        end
      end
    end
    local text = profiling.text(prof)
    assert.is_true(called > 0.5 * tonumber(prof.total), text)
    assert.is_true(collects > 0.8 * called, text)
  end)
end)
