--- Compares the results with tracefs and /proc/self/mounts.
local perf = require "perf"
local util = require "spec.support.util"

describe("tracefs", function()
  before_each(function() requires { tracefs = true, nostress = true } end) -- thousands of names

  it("has events by subsystem, as its directories have them", function()
    local events, text = util.of_tracepoints(function() return assert(perf.available_events()) end)
    local n, lines = 0, 0
    for group, list in pairs(events) do
      for i, name in ipairs(list) do
        n = n + 1
        assert.is_true(i == 1 or list[i - 1] < name)
      end
      assert.is_true(#list > 0, group)
    end
    for line in text:gmatch "[^\n]+" do
      local group, name = line:match "^([^:]+):(.+)$"
      local found = false
      for _, each in ipairs(events[group]) do found = found or each == name end
      assert.is_true(found, line)
      lines = lines + 1
    end
    assert.equal(lines, n)
  end)

  it("has each subsystem once", function()
    local events
    local list = util.of_tracepoints(function()
      events = perf.available_events()
      return assert(perf.subsystems())
    end)
    local n = 0
    for _ in pairs(events) do n = n + 1 end
    assert.equal(n, #list)
    for i, group in ipairs(list) do
      assert.is_table(events[group])
      assert.is_true(i == 1 or list[i - 1] < group)
    end
  end)

  it("has tracers, one of which is current", function()
    local list, current = assert(perf.tracers()), assert(perf.current_tracer())
    local found = {}
    for _, name in ipairs(list) do found[name] = true end
    assert.is_true(found.nop)
    assert.is_true(found[current])
    assert.equal(util.read_file(util.tracefs_dir() .. "/current_tracer"), current .. "\n")
  end)
end)

describe("perf.mounts", function()
  it("has the directories of a type", function()
    local found = {}
    for _, dir in ipairs(assert(perf.mounts "proc")) do found[dir] = true end
    assert.is_true(found["/proc"])
    assert.same({}, perf.mounts "no such type")
  end)

  it("takes a name", function()
    local ok, message = pcall(perf.mounts)
    assert.is_false(ok)
    assert.matches("tracing_spec.lua:%d+: bad argument #1.*string expected, got nil", message)
  end)
end)
