-- Profiles of Lua code by a hardware counter, in an emulated Arm machine: the lines that take the cycles.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local SPIN = 4e7 -- ns, and cycles: the emulated CPU has 1 GHz
local PERIOD = 1e6

local first -- the line of the first spin
local function work()
  first = profiling.next_line()
  kit.spin(SPIN)
  kit.spin(2 * SPIN)
  local x = 0
  for i = 1, 1000000 do x = x + i % 7 end
  return x
end
local LOOP = 3 -- the loop's line, counted from the first

describe("a profile by cycles", function()
  before_each(function() requires { vm = { "arm64", "icount" }, pmu = true } end)

  -- The weight of a line, compared with the expected one: samples come late, so one at either end may belong to the next line.
  local function near(prof, line, cycles)
    local got = profiling.on_line(prof, first + line)
    assert.is_true(math.abs(got - cycles) <= 3 * PERIOD, ("%d: %d, not %d\n%s"):format(line, got, cycles, profiling.text(prof)))
  end

  it("attributes cycles to the lines that take them, and none twice", function()
    for _, native in ipairs { false, true } do
      local prof, result = perf.profile({ event = "cycles", period = PERIOD, native = native }, work)
      assert.equal(2999998, result)
      assert.equal("cycles", prof.event)
      assert.equal(prof.total, profiling.sum(prof))
      assert.equal(0, prof.lost)
      near(prof, 0, SPIN)
      near(prof, 1, 2 * SPIN)
      near(prof, LOOP, prof.total - 3 * SPIN)
      -- The event also counts from its start to the call of work, and from its return to the stop: a sample may be there.
      local outside = prof.total - profiling.under(prof, "work") - profiling.under(prof, "(unsampled)")
      assert.is_true(outside >= 0 and outside <= 2 * PERIOD, profiling.text(prof))
    end
  end)

  it("counts the same as perf.measure", function()
    perf.measure("cycles:u", work)
    local count = perf.measure("cycles:u", work)[1].value
    local prof = perf.profile({ event = "cycles:u", period = PERIOD }, work)
    assert.is_true(math.abs(prof.total / count - 1) < 0.05, prof.total .. " of " .. count)
  end)

  it("by frequency attributes cycles too", function()
    local prof = perf.profile({ event = "cycles", freq = 500 }, work)
    assert.equal(prof.total, profiling.sum(prof))
    -- The kernel has to find the period first, and signals that come together are one sample.
    local expected = prof.total / 1e9 * 500
    assert.is_true(prof.sample_count > 0.4 * expected and prof.sample_count < 1.3 * expected,
      prof.sample_count .. " of " .. expected)
    assert.is_true(math.abs(profiling.on_line(prof, first + 1) / (2 * SPIN) - 1) < 0.1, profiling.text(prof))
  end)
end)
