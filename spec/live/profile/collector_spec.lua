-- The frame "(garbage collector)": the collector's work is distinguished from that of the line and the C function that allocated.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local COLLECTOR = "(garbage collector)"
local place = profiling.place
local keep, sink = {}, {}

-- The samples in the collector, and those of all others.
local function samples(prof)
  local collects, others = {}, {}
  for _, s in ipairs(prof:samples()) do
    local list = s.stack[1].name == COLLECTOR and collects or others
    list[#list + 1] = s
  end
  return collects, others
end

local function weight(list)
  local sum = 0
  for _, s in ipairs(list) do sum = sum + s.weight end
  return sum
end

describe("the garbage collector in a profile", function()
  setup(function()
    for i = 1, 20000 do keep[i] = { i } end
  end)
  teardown(function()
    assert.equal(20000, #keep)
    keep = {}
  end)
  before_each(function()
    requires { perf_open = true, registers = true, nostress = true, nosan = true }
    collectgarbage()
  end)

  it("has nearly all of a call of collectgarbage, and its stack", function()
    local function full()
      for _ = 1, 40 do collectgarbage() end
    end
    local prof = perf.profile({ freq = 4000 }, full)
    local collects = samples(prof)
    assert.is_true(weight(collects) > 0.8 * tonumber(prof.total), profiling.text(prof))
    for _, s in ipairs(collects) do
      assert.equal("collectgarbage", s.stack[2].name, profiling.text(prof))
      assert.equal("full", s.stack[3].func, profiling.text(prof))
    end
  end)

  it("has its part of code that allocates, and little of it while it is stopped", function()
    local function garbage(n)
      for i = 1, n do sink[1] = { i, { i }, ("x"):rep(i % 50) .. i } end
      return sink
    end
    local prof = util.collecting(perf.profile, { freq = 4000 }, garbage, 2e5)
    local collects = samples(prof)
    assert.is_true(weight(collects) > 0.02 * tonumber(prof.total), profiling.text(prof))
    for _, s in ipairs(collects) do assert.equal("garbage", place(s.stack).func, profiling.text(prof)) end

    collectgarbage "stop"
    local stopped = perf.profile({ freq = 4000 }, garbage, 2e5)
    collectgarbage "restart"
    -- Lua calls the collector, which returns at once.
    assert.is_true(weight(samples(stopped)) < 0.02 * tonumber(stopped.total), profiling.text(stopped))
  end)

  it("has nothing of the finalizers that it calls", function()
    local function finalize()
      local n = 0
      for i = 1, 5000 do n = n + i % 7 end
      return n
    end
    local function run()
      for _ = 1, 10 do
        for _ = 1, 50 do util.finalized(finalize) end
        collectgarbage()
      end
    end
    local prof = perf.profile({ freq = 4000 }, run)
    local collects, others = samples(prof)
    for _, s in ipairs(collects) do assert.not_equal("finalize", place(s.stack).func, profiling.text(prof)) end
    local there = {}
    for _, s in ipairs(others) do
      local f = place(s.stack)
      if f and f.func == "finalize" then there[#there + 1] = s end
    end
    assert.is_true(weight(there) > 0, profiling.text(prof))
  end)
end)
