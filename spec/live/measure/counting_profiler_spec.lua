--- Profilers: bundles of counters on live events.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local exactly = util.exactly

-- fn raises at this file: bad argument #1 (part
local function raises(part, fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, part)
  assert.matches("measure/counting_profiler_spec.lua:%d+: bad argument #1", message)
  assert.matches(part, message, 1, true)
end

local function labels(list)
  local out = {}
  for i, e in ipairs(list) do out[i] = e.label end
  return out
end

local nowhere = { type = 0x7ffffff0, config = 0, label = "nowhere" } -- no machine has this PMU

local software = { "cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults",
  "major-faults", "alignment-faults", "emulation-faults", "cgroup-switches" }

describe("perf.software_profiler", function()
  before_each(function() requires { perf_open = true, paranoid = 1 } end)

  it("counts every software event that counts anything", function()
    local p = assert(perf.software_profiler())
    local names, here = {}, 0
    for _, ev in ipairs(p) do names[ev:label()] = true end
    for _, m in ipairs(p.missing) do names[m.label] = true end
    for _, name in ipairs(software) do here = here + (names[name] and 1 or 0) end
    assert.equal(#software, here)
    assert.equal(#software, #p + #p.missing)
    assert.same(labels(p:read()), (function()
      local out = {}
      for i, ev in ipairs(p) do out[i] = ev:label() end
      return out
    end)())
    p:close()
  end)

  it("starts, stops, resets and reads", function()
    local p = assert(perf.software_profiler { events = "page-faults,minor-faults" })
    kit.touch_pages(5)
    assert.is_nil(p:read()["page-faults"])
    exactly(64, function()
      assert.is_true(p:reset())
      assert.is_true(p:enable())
      kit.touch_pages(64)
      assert.is_true(p:disable())
      kit.touch_pages(5)
      return p:read()["page-faults"]
    end)
    local c = p:read()
    assert.equal(64, c["page-faults"])
    assert.equal(64, c["minor-faults"])
    assert.equal("software", c.source)
    assert.is_true(p:reset())
    assert.equal(0, p:read()["page-faults"])
    p:close()
  end)

  it("measures by difference, whatever was counted before", function()
    local p = assert(perf.software_profiler { events = { "page-faults" } })
    for n = 1, 5 do
      exactly(n, function() return p:measure(kit.touch_pages, n)["page-faults"] end)
    end
    local _, a, b, c = p:measure(function(...) return ... end, nil, 2, nil)
    assert.same({ nil, 2, nil }, { a, b, c })
    assert.equal(4, select("#", p:measure(function() return nil, 2, nil end)))
    local ok, message = pcall(p.measure, p, error, { "mine" })
    assert.is_false(ok)
    assert.same({ "mine" }, message)
    p:close()
  end)

  it("counts another process, and with inherit its children", function()
    requires { nosan = true }
    local function faults(inherit)
      return tonumber(util.in_child(function()
        local p = assert(perf.software_profiler { events = "page-faults", inherit = inherit })
        p:enable()
        local before = p:read()["page-faults"]
        kit.fork(function() kit.touch_pages(3000) end)
        p:disable()
        local n = p:read()["page-faults"] - before
        p:close()
        return n
      end))
    end
    assert.is_true(faults(false) < 3000)
    assert.is_true(faults(true) >= 3000)
  end)

  it("names the events that this machine does not count, and counts the rest", function()
    local p = assert(perf.software_profiler { events = { nowhere, "page-faults" } })
    assert.equal(1, #p)
    assert.equal("page-faults", p[1]:label())
    assert.same({ "nowhere" }, labels(p.missing))
    assert.is_string(p.missing[1].message)
    assert.equal("ENOENT", p.missing[1].code)
    assert.matches("not counted here: nowhere", tostring(p), 1, true)
    p:close()
  end)

  it("fails as a whole for an error that concerns all events", function()
    local p, message, code = perf.software_profiler { pid = 0x3fffffff }
    assert.is_nil(p)
    assert.equal("ESRCH", code)
    assert.is_string(message)
    p, message, code = perf.cache_profiler { pid = 0x3fffffff }
    assert.is_nil(p)
    assert.is_string(message)
    assert.is_string(code)
  end)

  it("closes once, and refuses use afterwards", function()
    local p = assert(perf.software_profiler { events = "page-faults" })
    local event = p[1]
    p:close()
    p:close()
    assert.is_false(event:is_open())
    assert.equal("CountingProfiler(software, closed)", tostring(p))
    for _, method in ipairs { "enable", "disable", "reset", "read", "measure" } do
      raises(("to '%s' (CountingProfiler is closed)"):format(method), function() p[method](p, print) end)
      raises("Profiler expected, got number", function() p[method](1) end)
    end
  end)

  it("is closed at the end of its scope, on 5.4", function()
    requires { lua = "5.4" }
    local chunk = assert(load [[
      local perf = ...
      local event
      do
        local p <close> = assert(perf.software_profiler {events = "page-faults"})
        event = p[1]
      end
      return event:is_open()
    ]])
    assert.is_false(chunk(perf))
  end)
end)

describe("a profiler's options", function()
  it("are checked before anything is opened", function()
    raises("unknown option 'pd'; did you mean 'pid'?", perf.software_profiler, { pd = 1 })
    raises("table of options expected, got string", perf.hardware_profiler, "cycles")
    raises("option 'pid': number expected, got string", perf.cache_profiler, { pid = "1" })
    raises("option 'cpu': integer expected", perf.cache_profiler, { cpu = 0.5 })
    raises("option 'events': string or array expected, got boolean", perf.cache_profiler, { events = true })
    raises("option 'events': the list has no event", perf.cache_profiler, { events = {} })
    raises("option 'cgroup': path or descriptor expected, got table", perf.cache_profiler, { cgroup = {} })
    raises("page-fautls: unknown event", perf.software_profiler, { events = "cpu-clock,page-fautls" })
  end)
end)

describe("perf.hardware_profiler", function()
  it("gives the reason if the machine counts no event", function()
    requires { perf_open = true }
    local p, message, code = perf.hardware_profiler { events = { nowhere } }
    assert.is_nil(p)
    assert.matches("^nowhere: ", message)
    assert.equal("ENOENT", code)
    for _, f in ipairs { perf.hardware_profiler, perf.cache_profiler } do
      p, message, code = f()
      if p then p:close() else assert.matches("^%u+$", code) assert.is_string(message) end
    end
  end)

  it("counts the events that the CPU has", function()
    requires { pmu = true }
    local event = kit.can_open { type = 0, config = 1 } and "instructions" or "cycles" -- an emulated CPU lacks the former
    local p = assert(perf.hardware_profiler { events = event .. ":u" })
    local c = p:measure(function()
      local n = 0
      for i = 1, 1e6 do n = n + i % 7 end
      return n
    end)
    assert.is_true(c[event] > 1e5)
    assert.equal("hardware", c.source)
    p:close()
    p = assert(perf.hardware_profiler())
    assert.equal(10, #p + #p.missing)
    p:close()
  end)
end)
