-- The story: on a machine with hardware counters, the first measurement of the default events loaded perf.kernel.pmu, only to
-- learn whether the CPU has several kinds of cores. That took 24 KB. But a CPU with a PMU that is named "cpu" has only one kind.
local kit = require "testkit"

-- In place of each hardware event, the kernel's dummy event is opened, so that every machine seems to count them.
local STATE = [[
  local core = require "perf.core"
  local generic, open = core.generic, io.open
  function core.generic(name)
    if name:find "^c[ya]c" or name:find "^instructions" or name:find "^branch" then return 1, 9 end
    return generic(name)
  end
  function io.open(path, ...)
    if path == "/sys/bus/event_source/devices/cpu/type" then path = "%s" end
    return open(path, ...)
  end
  local perf = require "perf"
  local counts = perf.measure(function() end)
  return #counts .. " " .. tostring(package.loaded["perf.kernel.pmu"] ~= nil)
]]

describe("the first measurement of the default events", function()
  it("does not look for other kinds of cores if a PMU is named cpu", function()
    requires { perf_open = true }
    assert.same({ true, "10 false" }, { kit.state(STATE:format "/dev/null") })
  end)

  it("looks for them if no PMU has that name", function()
    requires { perf_open = true }
    local ok, text = kit.state(STATE:format "/nonexistent")
    assert.is_true(ok, text)
    assert.matches(" true$", text)
  end)
end)
