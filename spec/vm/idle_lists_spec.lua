-- The story: the lists that perf.measure keeps open must not take counters from each other while they are idle. In 0.1.0 two
-- lists of five hardware events each shared the seven counters of this machine, whichever was measured: 26 of 50 short
-- measurements had no value at all ("other events used all of them": the others were the program's own idle list).
local kit = require "testkit"
local perf = require "perf"
local measure = require "perf.measure"

local CYCLES = "cycles:u,cycles:k,cycles,cycles:uk,cycles:u"

local function five(tag)
  return { "cycles:u", "cycles:k", "cycles", "instructions:u", { event = "instructions", label = tag } }
end

-- Every event had its counter all the time.
local function whole(c)
  for _, e in ipairs(c) do
    if not e.value or e.running_ns ~= e.enabled_ns or e.running_ns == 0 then return false end
  end
  return true
end

describe("lists of hardware events that wait", function()
  before_each(function()
    requires { vm = "arm64", pmu = true }
    measure._release()
  end)
  after_each(measure._release)

  for n = 1, 3 do
    it(("leave the counters to the one that measures: %d lists of five in turn"):format(n), function()
      local lists, good = { CYCLES, five "a", five "b" }, 0
      for i = 1, 50 do
        local c = perf.measure(lists[(i - 1) % n + 1], kit.spin, 1e5)
        if #c == 5 and whole(c) then good = good + 1 end
      end
      assert.equal(50, good)
    end)
  end

  it("leave the counters to an Event and a Group", function()
    perf.measure(five "a", kit.spin, 1e5)
    perf.measure(five "b", kit.spin, 1e5)
    local g = assert(perf.group { "cycles:u", "cycles:k", "cycles", "cycles:u", "cycles:k" })
    for _ = 1, 50 do
      assert.is_true(whole((g:measure(kit.spin, 1e5))))
      g:disable() -- it belongs to the program, and shares counters with the program's other events
      perf.measure(CYCLES, kit.spin, 1e4)
    end
    g:close()
  end)

  it("count exactly when they nest", function()
    local inner
    local outer = perf.measure("cycles:u,instructions:u", function()
      kit.spin(1e6)
      inner = perf.measure("cycles:u,cycles", kit.spin, 1e6)
      kit.spin(1e6)
    end)
    assert.is_true(whole(outer) and whole(inner))
    assert.is_true(outer["cycles:u"] > 2 * inner["cycles:u"])
    local again
    outer = perf.measure("cycles:u", function()
      again = perf.measure("cycles:u", kit.spin, 1e6)
      kit.spin(1e6) -- still counted
    end)
    assert.is_true(outer["cycles:u"] > 1.5 * again["cycles:u"])
  end)

  it("leave the counters after an error in the measured function, too, once that is collected", function()
    for _ = 1, 3 do
      assert.is_false(pcall(perf.measure, CYCLES, error, "on purpose"))
      assert.is_false(pcall(perf.measure, five "a", error, "on purpose"))
      coroutine.wrap(function() perf.measure(five "b", coroutine.yield) end)()
    end
    for _ = 1, 3 do collectgarbage() end
    for _ = 1, 50 do assert.is_true(whole((perf.measure(five "c", kit.spin, 1e5)))) end
  end)
end)
