-- More events than counters, in an emulated Arm machine: groups that fit and that do not, events that share counters, and pinned
-- ones that never get one.
local kit = require "testkit"
local perf = require "perf"

local SPIN = 4e7 -- ns: ten turns of the kernel's 4 ms

local function copies(event, n)
  local list = {}
  for i = 1, n do list[i] = event end
  return list
end

describe("counters", function()
  local opened = {}
  local function keep(object, message, code)
    assert(object, message, code)
    opened[#opened + 1] = object
    return object
  end
  before_each(function() requires { vm = "arm64", pmu = true } end)
  after_each(function()
    for _, o in ipairs(opened) do o:close() end
    opened = {}
  end)

  it("count a group's events over the same instants", function()
    local g = keep(perf.group { "cycles:u", "cycles:k", "cycles" })
    local c = g:measure(kit.spin, 2e6)
    assert.equal(3, #c)
    for i = 1, 3 do
      assert.equal(c[1].enabled_ns, c[i].enabled_ns)
      assert.equal(c[1].running_ns, c[i].running_ns)
      assert.equal(c[i].enabled_ns, c[i].running_ns)
    end
    assert.is_true(math.abs((c[1].value + c[2].value) / c[3].value - 1) < 0.05)
  end)

  it("accept one event for each counter in a group, and refuse one more by name", function()
    local n = perf.features().pmu.counters
    local g = keep(perf.group(copies("cycles:u", n)))
    local c = g:measure(kit.spin, 1e6)
    assert.equal(n, #c)
    for _, e in ipairs(c) do assert.is_true(e.value > 1e5) end
    local none, message, code = perf.group(copies("cycles:u", n + 2))
    assert.is_nil(none)
    assert.equal("EINVAL", code)
    assert.matches("cycles:u", message, 1, true)
    g:close()
    -- Arm's driver does not count the leader while it is disabled: one more event is opened, and never counts.
    c = keep(perf.group(copies("cycles:u", n + 1))):measure(kit.spin, 1e6)
    for _, e in ipairs(c) do
      assert.is_nil(e.value)
      assert.equal("it never got a counter: other events used all of them; this program has these enabled: "
        .. ("cycles:u, "):rep(n) .. "cycles:u", e.why)
    end
  end)

  it("are shared by 12 events in turn, whose scaled counts are right to 10 %", function()
    local whole = keep(perf.open "cycles:u"):measure(kit.spin, SPIN)
    assert.equal(whole.enabled_ns, whole.running_ns)
    local events = {}
    for i = 1, 12 do events[i] = keep(perf.open "cycles:u") end
    for _, ev in ipairs(events) do ev:enable() end
    kit.spin(SPIN)
    for _, ev in ipairs(events) do ev:disable() end
    local shared = 0
    for i, ev in ipairs(events) do
      local e = ev:read()
      assert.is_true(e.running_ns > 0, i)
      if e.running_ns < e.enabled_ns then
        shared = shared + 1
        assert.is_true(e.raw < e.value)
      end
      -- Relative to the time that this event was enabled, as for the unshared one.
      local rate, expected = e.value / e.enabled_ns, whole.value / whole.enabled_ns
      assert.is_true(math.abs(rate / expected - 1) < 0.1, i .. ": " .. rate / expected)
    end
    assert.is_true(shared > 0)
  end)

  it("are shared by the groups that perf.measure makes of 20 events", function()
    local whole = perf.measure("cycles:u", kit.spin, SPIN)
    local c = perf.measure(copies("cycles:u", 20), kit.spin, SPIN)
    assert.equal(20, #c)
    assert.equal("hardware", c.source)
    local times = {}
    for i, e in ipairs(c) do
      assert.is_nil(e.why)
      local rate = e.value / e.enabled_ns / (whole[1].value / whole[1].enabled_ns)
      assert.is_true(math.abs(rate - 1) < 0.1, i .. ": " .. rate)
      assert.is_true(e.running_ns < e.enabled_ns)
      times[tostring(e.running_ns)] = true
    end
    -- As few groups as possible: no more different times than that.
    local different = 0
    for _ in pairs(times) do different = different + 1 end
    assert.is_true(different <= math.ceil(20 / perf.features().pmu.counters), different)
    assert.matches("%%", tostring(c)) -- the share of the time
  end)

  it("separate hardware and software events of a list, in the order of the list", function()
    local c = perf.measure("page-faults,cycles:u,task-clock,cycles:k,minor-faults", function()
      kit.touch_pages(64)
      kit.spin(1e6)
    end)
    assert.same({ "page-faults", "cycles:u", "task-clock", "cycles:k", "minor-faults" },
      { c[1].label, c[2].label, c[3].label, c[4].label, c[5].label })
    assert.equal(64, c["page-faults"])
    assert.equal(64, c["minor-faults"])
    assert.is_true(c["cycles:u"] > 0 and c["cycles:k"] > 0)
  end)

  it("are given to pinned events first; those that get none have no value, with the reason", function()
    local n = perf.features().pmu.counters
    local events = {}
    for i = 1, n + 2 do events[i] = keep(perf.open { event = "cycles:u", pinned = true }) end
    for _, ev in ipairs(events) do ev:enable() end
    kit.spin(1e7)
    local with, without = 0, 0
    for _, ev in ipairs(events) do
      local e = assert(ev:read())
      if e.value then
        with = with + 1
        assert.is_true(e.value > 1e5)
        assert.equal(e.enabled_ns, e.running_ns)
      else
        without = without + 1
        assert.is_string(e.why)
        assert.matches("^it is pinned and found no counter free", e.why)
        assert.matches(e.why, tostring(ev), 1, true)
      end
    end
    assert.equal(n, with)
    assert.equal(2, without)
  end)

  it("may be missing for pinned events of a list too, which then have a reason", function()
    local c = perf.measure(copies("cycles:uD", 20), kit.spin, 1e6)
    local with, without = 0, 0
    for _, e in ipairs(c) do
      if e.value then
        with = with + 1
      else
        without = without + 1
        assert.matches("^it is pinned and found no counter free", e.why)
      end
    end
    assert.is_true(with >= 1 and with <= perf.features().pmu.counters)
    assert.equal(20, with + without)
  end)

  it("are taken from events that share them for a pinned event", function()
    local n = perf.features().pmu.counters
    local pinned = keep(perf.open { event = "cycles:u", pinned = true })
    local others = {}
    for i = 1, n do others[i] = keep(perf.open "cycles:u") end
    pinned:enable()
    for _, ev in ipairs(others) do ev:enable() end
    kit.spin(SPIN)
    local p, part = pinned:read(), 0
    assert.equal(p.enabled_ns, p.running_ns)
    for _, ev in ipairs(others) do
      local e = ev:read()
      if e.running_ns < e.enabled_ns then part = part + 1 end
    end
    assert.is_true(part > 0)
  end)

  it("of one CPU belong to an exclusive event alone", function()
    local ev = keep(perf.open { event = "cycles:u", exclusive = true })
    local e = ev:measure(kit.spin, 1e6)
    assert.is_true(e.value > 1e5)
  end)
end)
