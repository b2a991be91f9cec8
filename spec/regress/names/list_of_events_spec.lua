-- The story: perf.measure({"page-faults", nil, "cpu-clock"}, fn) counted only page faults and did not notice the nil from a
-- misspelt variable, and {"page-faults", inherit = true} ignored its field. And in a REPL, whose `return perf.open "cyclse"` is a
-- tail call, messages named no function: "bad argument #1 (cyclse: unknown event ...)".
local perf = require "perf"
local message_of = require("spec.support.util").message_of

describe("a list of events", function()
  local function nothing() end

  it("with a hole is a mistake that names the place", function()
    local holed = { { "dummy", nil, "cpu-clock" }, { nil, "dummy" }, { "dummy", nil, nil, "cpu-clock", "cpu-clock:u" } }
    for _, list in ipairs(holed) do
      local place = list[1] and 2 or 1
      local want = ("event %d of the list is nil"):format(place)
      assert.matches("bad argument #1 to 'measure' .*" .. want, message_of(perf.measure, list, nothing))
      assert.matches("bad argument #1 to 'group' .*" .. want, message_of(perf.group, list))
      assert.matches("bad argument #1 .*" .. want, message_of(perf.bench, list, nothing))
      assert.matches(want, message_of(perf.software_profiler, { events = list }))
      assert.matches(want, message_of(perf.record, { "true" }, { events = list, output = "/dev/null" }))
    end
  end)

  it("has no fields beside its positions", function()
    local list = { "dummy", inherit = true }
    assert.matches("unknown field 'inherit' in a list of events", message_of(perf.measure, list, nothing))
    assert.matches("unknown field 'inherit' in a list of events", message_of(perf.group, list))
  end)

  it("may be a single event's table wherever a list is measured", function()
    requires { perf_open = "user" }
    local stats = perf.bench({ event = "dummy" }, nothing, { repeats = 1, warmup = 0, min_time = 0 })
    assert.equal("dummy", stats[1].label)
    assert.is_true(perf.measure(setmetatable({}, { __call = function() end })).wall_ns > 0) -- an object that can be called
  end)
end)

describe("a mistake in a tail call", function()
  it("names the function", function()
    for name, call in pairs {
      open = function() return perf.open "cyclse" end,
      measure = function() return perf.measure("cyclse", print) end,
      group = function() return perf.group { "cyclse" } end,
      set = function() return perf.set "cyclse" end,
      attr = function() return perf.attr "cyclse" end,
      bench = function() return perf.bench("cyclse", print) end,
    } do
      assert.matches(("bad argument #1 to '%s' (cyclse: unknown event"):format(name), message_of(call), 1, true)
    end
    assert.matches("#1 to 'measure' (list of events or function expected, got number)", message_of(perf.measure, 12), 1, true)
    assert.matches("#1 to 'start' (list of events expected, got function)", message_of(perf.start, print), 1, true)
  end)
end)

describe("a mistake in a list of events", function()
  it("is reported with the argument of the function that was called", function()
    local function compare(events)
      return message_of(perf.compare, { a = print, b = tostring }, { events = events })
    end
    assert.matches("bad argument #2 to 'compare' (option 'events': cyclse: unknown event", compare "cyclse", 1, true)
    local holed = { "dummy", nil, "dummy:u" }
    assert.matches("bad argument #2 to 'compare' (option 'events': event 2 of the list is nil)", compare(holed), 1, true)
  end)

  it("prints what perf lists", function()
    assert.matches("^cpu%-clock: attr{.*\ntask%-clock: attr{", tostring(perf.all_software()))
    requires { tracefs = true }
    assert.equal("sched:sched_switch", tostring(perf.tracepoints "sched:sched_switch"))
  end)
end)
