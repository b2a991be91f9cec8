-- Sets of one event and of several: reading, measuring, reset, and the descriptors for event loops.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local FAULTS = util.FAULTS

-- A set of the calling thread's events.
local function own(events)
  requires { perf_open = true }
  return assert(perf.set(events, { threads = kit.gettid() }))
end

describe("a Set", function()
  local set

  after_each(function()
    if set then set:close() end
    set = nil
  end)

  it("of several events has a count of each, from text and from a list", function()
    for _, events in ipairs { FAULTS .. ",task-clock", { FAULTS, "task-clock" }, { { event = FAULTS }, "task-clock" } } do
      set = own(events)
      assert.equal(2, #set)
      kit.touch_pages(64)
      assert(set:disable())
      local c = set:read()
      assert.same({ FAULTS, "task-clock" }, { c[1].label, c[2].label })
      assert.is_true(c[FAULTS] >= 64 and c["task-clock"] > 0)
      assert.is_nil(c.value)
      local rows = set:per_cpu()
      assert.same({ 2, c[1].value, c[2].value }, { #rows, rows[1].value, rows[2].value })
      assert.matches("^Set of 2 events\n.*" .. FAULTS:gsub("%p", "%%%0"), tostring(set))
      set:close()
    end
  end)

  it("counts an event that is named twice in two entries", function()
    set = own { FAULTS, FAULTS }
    kit.touch_pages(5000) -- many more page faults than the opening of the second event causes
    assert(set:disable())
    local c = set:read()
    assert.equal(2, #c)
    assert.is_true(c[1].value >= 5000 and c[2].value >= 5000 and c[1].value < 2 * c[2].value)
  end)

  it("of one event has the fields of its entry too", function()
    set = own(FAULTS)
    local c = set:read()
    assert.same({ c[1].value, c[1].raw, FAULTS }, { c.value, c.raw, c.label })
    c = set:measure(function() end)
    assert.equal(c[1].value, c.value)
  end)

  it("measures a function: its results follow, and what was counted before is not in it", function()
    set = own { FAULTS, "task-clock" }
    kit.touch_pages(5000)
    local c, a, b, d = set:measure(function(n)
      kit.touch_pages(n)
      return 1, nil, 3
    end, 64)
    assert.same({ 1, nil, 3 }, { a, b, d })
    assert.is_true(c[FAULTS] >= 64 and c[FAULTS] < 5000)
    assert.is_true(c.wall_ns > 0 and c["task-clock"] > 0)
    local ok, message = pcall(set.measure, set, function() error("mine", 0) end)
    assert.same({ false, "mine" }, { ok, message })
    assert.error_matches(function() set:measure(3) end, "bad argument #1 to 'measure' %(function expected, got number%)")
  end)

  it("is enabled by a measurement", function()
    requires { perf_open = true }
    set = assert(perf.set({ FAULTS }, { threads = kit.gettid(), deferred_enable = true }))
    kit.touch_pages(32)
    assert.equal(0, set:read()[1].raw)
    assert.is_true(set:measure(kit.touch_pages, 64)[FAULTS] >= 64)
  end)

  it("can be reset; a measurement with a reset in it has no count", function()
    set = own { FAULTS, "task-clock" }
    kit.touch_pages(5000)
    assert.is_true(set:reset())
    assert.is_true(set:read()[FAULTS] < 5000)
    local c = set:measure(function() set:reset() end)
    assert.is_nil(c[FAULTS])
    assert.is_string(c[1].why)
  end)

  it("has no counts of a measurement in the child of a fork", function()
    set = own { FAULTS }
    local measuring = coroutine.create(function() return (set:measure(coroutine.yield)) end)
    assert(coroutine.resume(measuring))
    assert.matches("fork", util.in_child(function()
      local _, c = assert(coroutine.resume(measuring))
      return c[1].value == nil and c[1].label == FAULTS and c[1].why or tostring(c)
    end))
    assert.is_number(select(2, assert(coroutine.resume(measuring)))[FAULTS])
  end)

  it("has the descriptors of its events", function()
    set = own { FAULTS, "task-clock" }
    assert.same({ set[1]:fd(), set[2]:fd() }, set:fds())
    set:close()
    assert.error_matches(function() set:fds() end, "calling 'fds' on bad self %(Set is closed%)")
  end)

  it("is refused for a list without an event, or with an unknown one", function()
    for want, events in pairs { ["a set needs an event"] = {}, ["page%-fautls.*did you mean 'page%-faults'"] = { "page-fautls" },
      ["got number"] = 3 } do
      assert.error_matches(function() perf.set(events) end, "bad argument #1 to 'set' %(.*" .. want)
    end
  end)
end)
