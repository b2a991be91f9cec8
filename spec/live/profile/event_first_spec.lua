-- The event as the first argument of perf.profile and perf.profiler, with the other options after it.
local perf = require "perf"

local function mistake(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("perf.profile and perf.profiler", function()
  before_each(function() requires { perf_open = "user" } end)

  it("take the options after the event's name", function()
    local p = assert(perf.profiler("dummy:u", { period = 3 }))
    assert.matches("every 3", tostring(p))
    p:close()
    local prof, result = perf.profile("dummy:u", { period = 3 }, function(...) return select("#", ...) end, nil, nil)
    assert.same({ 3, 2 }, { prof.period, result })
    assert.equal(3, (perf.profile({ event = "dummy:u", period = 3 }, function() end)).period)
  end)

  it("take a callable table for the function", function()
    local callable = setmetatable({}, { __call = function(_, x) return x end })
    assert.equal(8, (select(2, assert(perf.profile("dummy:u", callable, 8)))))
  end)

  it("name the argument that is wrong", function()
    for _, case in ipairs {
      { "#2 to 'profiler' %(unknown option 'freqq'; did you mean 'freq'", perf.profiler, "dummy", { freqq = 1 } },
      { "#2 to 'profiler' %(option 'event': the event is the argument before", perf.profiler, "dummy", { event = "dummy" } },
      { "#2 to 'profiler' %(table of options expected, got number", perf.profiler, "dummy", 1 },
      { "#2 to 'profile' %(unknown option 'freqq'", perf.profile, "dummy", { freqq = 1 }, print },
      { "#3 to 'profile' %(function expected, got nil", perf.profile, "dummy", { freq = 1 } },
      { "#2 to 'profile' %(function expected, got number", perf.profile, "dummy", 1 },
      { "#1 to 'profiler' %(a table of options has a name for each value, but %[1%] has none; there are coroutines, event",
        perf.profiler, { "dummy" } } } do
      assert.matches(case[1], mistake(case[2], case[3], case[4], case[5]))
    end
  end)
end)
