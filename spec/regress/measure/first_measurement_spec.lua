-- The story: on a machine with hardware counters, the first measurement of the default events loaded perf.kernel.pmu, only to
-- learn whether the CPU has several kinds of cores. That took 24 KB. But a CPU with a PMU that is named "cpu" has only one kind.
-- Later: perf.event.user_read still loaded it for each hardware event, which took 70 KB with what it keeps about the PMUs; this
-- spec opened software events under the names of hardware events, and did not see it. And the first list of named events loaded
-- perf.names, which takes 180 KB, also for names that one function in C knows.
local kit = require "testkit"

-- In place of each hardware event, the kernel's dummy event is opened, so that every machine seems to count them.
local STATE = [[
  local core = require "perf.core"
  local open, open_file = core.open, io.open
  function core.open(attr, ...)
    if attr.type ~= 0 then return open(attr, ...) end
    local dummy = {}
    for field, value in pairs(attr) do dummy[field] = value end
    dummy.type, dummy.config = 1, 9
    return open(dummy, ...)
  end
  function io.open(path, ...)
    if path == "/sys/bus/event_source/devices/cpu/type" then path = "%s" end
    return open_file(path, ...)
  end
  local perf = require "perf"
  local counts = perf.measure(%s)
  local labels = {}
  for i = 1, #counts do labels[i] = counts[i].label end
  local function loaded(module) return package.loaded["perf." .. module] and " " .. module or "" end
  return table.concat(labels, "+") .. loaded "kernel.pmu" .. loaded "names" .. loaded "event.group" .. loaded "event.refusal"
]]

local DEFAULT = "cycles+instructions+branches+branch-misses+cache-references+cache-misses"
  .. "+task-clock+page-faults+context-switches+cpu-migrations"

local function measured(cpu, arguments) return select(2, kit.state(STATE:format(cpu, arguments))) end

describe("the first measurement", function()
  it("does not look for other kinds of cores if a PMU is named cpu", function()
    requires { perf_open = "user", paranoid = 1 }
    local wanted = require("perf.core").user_config1 == 0 and DEFAULT or DEFAULT .. " kernel.pmu" -- reads a file of Arm's PMU
    assert.equal(wanted, measured("/dev/null", "function() end"))
  end)

  it("looks for them if no PMU has that name", function()
    requires { perf_open = "user", paranoid = 1 }
    assert.matches("^" .. DEFAULT:gsub("%p", "%%%0") .. " kernel.pmu", measured("/nonexistent", "function() end"))
  end)

  it("resolves the kernel's own names without perf.names", function()
    requires { perf_open = "user", paranoid = 1 }
    for arguments, labels in pairs { ["'page-faults'"] = "page-faults", ["' faults '"] = "faults",
      ["'task-clock, cs ,page-faults'"] = "task-clock+cs+page-faults", ["{ 'task-clock', 'faults' }"] = "task-clock+faults" } do
      assert.equal(labels, measured("/nonexistent", arguments .. ", function() end"))
    end
    if require("perf.core").user_config1 == 0 then
      assert.equal("cpu-cycles+faults", measured("/dev/null", "'cpu-cycles,faults', function() end"))
    end
  end)

  it("resolves other names with it", function()
    requires { perf_open = "user", paranoid = 1 }
    for name in ("task-clock:u page-FAULTS software/page-faults/"):gmatch "%S+" do
      assert.matches("^" .. name:gsub("%p", "%%%0") .. ".* names", measured("/dev/null", ("%q, function() end"):format(name)))
    end
    assert.matches("page%-faults%?x: control character", measured("/dev/null", "'page-faults\\0x', function() end"))
    assert.matches("empty event name at character 13", measured("/dev/null", "'page-faults,,cs', function() end"))
  end)
end)
