-- The arguments of perf.bench and perf.compare: events first or as an option, options last.
local perf = require "perf"

local function nothing() end

describe("perf.bench and perf.compare", function()
  before_each(function() requires { perf_open = "user" } end)

  it("take the events as the first argument or as an option", function()
    for _, events in ipairs { "dummy", { "dummy" }, { event = "dummy" } } do
      assert.equal("dummy", perf.bench(events, nothing, { repeats = 2, min_time = 0 })[1].label)
      assert.equal("dummy", perf.bench(nothing, { repeats = 2, min_time = 0, events = events })[1].label)
      local candidates = { a = nothing, b = nothing }
      assert.equal("dummy", perf.compare(events, candidates, { repeats = 2, min_time = 0 })[1].label)
      assert.equal("dummy", perf.compare(candidates, { repeats = 2, min_time = 0, events = events })[1].label)
    end
    local pairs = { { "a", nothing }, { "b", nothing } }
    assert.same({ "a", "b" }, perf.compare({ { event = "dummy" } }, pairs, { repeats = 2, min_time = 0 }).names)
    assert.same({ "a", "b" }, perf.compare(pairs, { repeats = 2, min_time = 0, events = "dummy" }).names)
    assert.same({ "f2", "f10", "g1" }, perf.compare({ f10 = nothing, g1 = nothing, f2 = nothing },
      { repeats = 2, min_time = 0, events = "dummy" }).names)
    assert.same({ "event", "type" }, perf.compare({ event = nothing, type = nothing },
      { repeats = 2, min_time = 0, events = "dummy" }).names)
  end)

  it("refuse events in both places", function()
    assert.error_matches(function() perf.bench("dummy", nothing, { events = "dummy" }) end,
      "bad argument #3 to 'bench' %(option 'events': there is an argument with events%)")
    assert.error_matches(function() perf.compare("dummy", { a = nothing, b = nothing }, { events = "dummy" }) end,
      "bad argument #3 to 'compare' %(option 'events': there is an argument with events%)")
  end)

  it("name the argument with the mistake", function()
    for want, wrong in pairs {
      ["#1 to 'bench' %(unknown option 'warmupp'; did you mean 'warmup'%? options are in the last argument%)"] =
        function() perf.bench({ warmupp = 1 }, nothing) end,
      ["#1 to 'bench' %('warmup' is an option; options are in the last argument%)"] = function()
        perf.bench({ warmup = 1 }, nothing)
      end,
      ["#1 to 'open' %('pid' is an option; options are in the last argument%)"] = function()
        perf.open { event = "dummy", pid = 0 }
      end,
      ["#1 to 'open' %(an array of events, where one event is expected; perf.group and perf.set open several%)"] = function()
        perf.open { "dummy", "dummy" }
      end,
      ["#2 to 'compare' %(a comparison needs two candidates%)"] = function() perf.compare("dummy", { a = nothing }) end,
      ["#1 to 'compare' %(table of candidates expected, got string%)"] = function() perf.compare "dummy" end,
      ["#3 to 'compare' %(option 'baseline': no candidate is named 'c'%)"] = function()
        perf.compare("dummy", { a = nothing, b = nothing }, { baseline = "c" })
      end,
      ["#3 to 'compare' %(unknown option 'warmupp'"] = function()
        perf.compare("dummy", { a = nothing, b = nothing }, { warmupp = 1 })
      end,
      ["#1 to 'doctor' %(no argument expected"] = function() perf.doctor { width = 3 } end,
    } do
      assert.error_matches(wrong, "bad argument " .. want)
    end
  end)

  it("open a list of one event", function()
    local ev = assert(perf.open { "dummy" })
    assert.equal("dummy", ev:label())
    ev:close()
  end)
end)
