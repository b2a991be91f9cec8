-- The story: perf.release closes the events of all lists. When perf.measure's function called it, the measurement ended with the
-- error "Group is closed, or a member of it", about a Group that the program never had.
local perf = require "perf"

local function closed(ok, message)
  assert.is_false(ok)
  local what = "the events were closed, by perf.release or close, before the measurement ended"
  assert.matches("released_measurement_spec.lua:%d+: " .. what, message)
end

describe("a measurement during which its events are closed", function()
  before_each(function() requires { perf_open = true } end)

  it("raises an error that says so, and the next one opens the events again", function()
    closed(pcall(function() local c = perf.measure("page-faults", perf.release) return c end))
    closed(pcall(function()
      local c = perf.measure("page-faults", function() perf.measure("dummy", perf.release) end)
      return c
    end))
    closed(pcall(function() local c = perf.measure(perf.release) return c end))
    closed(pcall(function() local b = perf.bench("page-faults", perf.release) return b end))
    assert.equal(0, perf.measure("dummy", function() end).dummy)
  end)

  it("of a profiler's counters says so", function()
    local p = assert(perf.software_profiler { events = "page-faults,dummy" })
    closed(pcall(function() local c = p:measure(function() p:close() end) return c end))
  end)

  it("of a Group names the Group", function()
    local g = assert(perf.group { "page-faults", "dummy" })
    local ok, message = pcall(function() local c = g:measure(function() g:close() end) return c end)
    assert.is_false(ok)
    assert.matches("Group is closed, or a member of it", message, 1, true)
  end)
end)
