-- The story: luaperf top started its profiler anew for each interval, which loads the BPF program and searches the memory of the
-- process.
local core = require "perf.core"
local profile = require "perf.profile"

it("luaperf top starts its profiler once, unless it has seen very many stacks", function()
  local calls, memory = {}, 1
  local function note(name)
    return function()
      calls[#calls + 1] = name
      return { memory = memory, event = "task-clock", unit = "ns", total = 0, lost = 0, sample_count = 0, duration_ns = 1,
        samples = function() return {} end, top = require("perf.profile.report.top").top }
    end
  end
  local fake = { stop = note "stop", snapshot = note "snapshot", close = function() end }
  function fake.start()
    calls[#calls + 1] = "start"
    return true
  end
  local started, write = profile.started, require "perf.command.terminal".write
  finally(function() profile.started, require "perf.command.terminal".write = started, write end)
  profile.started = function()
    fake.start()
    return fake
  end
  require "perf.command.terminal".write = function() return true end
  local function top()
    calls = {}
    return assert(require "perf.command.top".run({ pid = { core.pid() }, delay = 0.001, times = 3 }, {}, {}))
  end
  assert.equal(0, top())
  assert.same({ "start", "snapshot", "snapshot", "stop" }, calls)
  memory = 2 ^ 30
  assert.equal(0, top())
  assert.same({ "start", "snapshot", "stop", "start", "snapshot", "stop", "start", "stop" }, calls)
end)
