-- Event:measure: two reads, and an enable only if the event may be disabled.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local rings = require "spec.support.rings"
local util = require "spec.support.util"

local keep = rings.keep

describe("Event:measure", function()
  setup(function() rings.compiler(false) end)
  teardown(function() rings.compiler(true) end)
  after_each(rings.close_all)

  local function faults(opts) return keep(assert(perf.open("page-faults:u", opts))) end

  it("returns a reading of that time, as read does, and the function's results", function()
    requires { perf_open = "user" }
    local ev = faults()
    ev:enable()
    kit.touch_pages(3)
    for n = 1, 3 do
      util.exactly(n, function() return ev:measure(kit.touch_pages, n).value end)
      local e, a, b, c = ev:measure(function(...) return ... end, n, nil, "x")
      assert.same({ e.value, "page-faults:u", ev:id(), n, "x" }, { e.raw, e.label, e.id, a, c })
      assert.is_nil(b)
      assert.is_true(e.enabled_ns > 0 and e.enabled_ns == e.running_ns)
    end
  end)

  it("enables the event, however it was disabled before", function()
    requires { perf_open = "user" }
    local ev = faults()
    local function measure() util.exactly(4, function() return ev:measure(kit.touch_pages, 4).value end) end
    measure()
    ev:disable()
    measure()
    ev:refresh(1)
    measure()
    ev:fd() -- the caller may use it in any way
    measure()
  end)

  it("enables a group's members too", function()
    requires { perf_open = "user" }
    local group = keep(assert(perf.group { "page-faults:u", "task-clock" }))
    for _ = 1, 2 do
      util.exactly(4, function() return group[1]:measure(kit.touch_pages, 4).value end)
      group:disable()
    end
    util.exactly(4, function() return group:measure(kit.touch_pages, 4)["page-faults"] end)
  end)

  it("nests, raises the function's error, and may yield", function()
    requires { perf_open = "user" }
    local ev = faults()
    util.exactly(507, function()
      local inner
      local outer = ev:measure(function()
        kit.touch_pages(2)
        inner = ev:measure(kit.touch_pages, 5)
      end)
      return 100 * inner.value + outer.value
    end)
    local fault = {}
    local ok, err = pcall(ev.measure, ev, function() error(fault) end)
    assert.same({ false, true }, { ok, err == fault })
    local co = coroutine.wrap(function() return ev:measure(function() return coroutine.yield "out" end) end)
    assert.equal("out", co())
    assert.equal(1, select("#", (co "in")))
  end)

  it("measures with other read formats", function()
    requires { perf_open = "user" }
    for _, format in ipairs { {}, { "id" }, { "total_time_enabled", "total_time_running", "id", "lost" } } do
      local ev = keep(assert(perf.open { event = "page-faults:u", read_format = format }))
      util.exactly(6, function()
        local e, r = ev:measure(function()
          kit.touch_pages(6)
          return "r"
        end)
        assert.equal("r", r)
        return e.raw
      end)
    end
  end)

  it("returns the error of a call that failed", function()
    requires { perf_open = "user" }
    local ev = faults()
    ev:measure(function() end)
    core.fault("read", "EIO")
    local ok = pcall(ev.measure, ev, function() end)
    core.fault()
    assert.is_true(ok) -- the start is read again by the slow way
    ok = pcall(ev.measure, ev, function() core.fault("read", "EIO") end)
    core.fault()
    assert.is_false(ok)
    ev:close()
    rings.raises("Event is closed", ev.measure, ev, function() end)
    rings.raises("Event is closed", function()
      local closed = faults()
      closed:measure(function() closed:close() end)
    end)
  end)
end)

describe("LuaJIT", function()
  after_each(rings.close_all)

  it("compiles a loop around Event:measure", function()
    requires { perf_open = true }
    rings.needs_compiler()
    local ev = keep(assert(perf.open "page-faults"))
    local function fn(x) return x end
    ev:measure(fn, 1)
    local sum = 0
    rings.compiled("event", function()
      for i = 1, 500 do
        local e, r = ev:measure(fn, i)
        sum = sum + e.value + r
      end
    end)
  end)
end)
