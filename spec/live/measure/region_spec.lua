-- perf.start: a measurement that begins and ends by two calls.
local kit = require "testkit"
local perf = require "perf"
local measure = require "perf.measure"
local util = require "spec.support.util"

before_each(function() requires { perf_open = true } end)

local settled = util.settled

describe("perf.start", function()
  it("counts until stop, exactly", function()
    requires { nosan = true } -- its memory is always new: pages that fault
    settled(function()
      local m = perf.start "page-faults,minor-faults"
      kit.touch_pages(64)
      local c = m:stop()
      assert.equal(64, c["page-faults"])
      assert.equal(64, c["minor-faults"])
      assert.equal(2, #c)
      assert.is_true(c.wall_ns > 0)
      kit.touch_pages(5)
      assert.equal(c, m:stop()) -- again: the same
      assert.equal(c, m:read())
      assert.equal(64, m:stop()["page-faults"])
    end)
  end)

  it("counts the same as perf.measure, for every kind of list", function()
    settled(function()
      local attr = { event = "page-faults" }
      for _, events in ipairs { "page-faults", { "page-faults" }, attr, { attr } } do
        local m = perf.start(events)
        kit.touch_pages(7)
        local c, expected = m:stop(), perf.measure(events, kit.touch_pages, 7)
        assert.equal(7, c["page-faults"])
        assert.equal(7, expected["page-faults"])
        assert.equal(expected[1].id, c[1].id) -- the same open event
        assert.equal(expected.source, c.source)
      end
      local m = perf.start()
      kit.touch_pages(7)
      local c, expected = m:stop(), perf.measure(kit.touch_pages, 7)
      assert.equal(#expected, #c)
      for i, e in ipairs(expected) do assert.equal(e.label, c[i].label) end
      assert.equal(7, c["page-faults"])
    end)
  end)

  it("may overlap with other regions and with perf.measure", function()
    requires { nosan = true } -- its memory is always new: pages that fault
    settled(function()
      local a = perf.start "page-faults"
      kit.touch_pages(1)
      local b = perf.start "page-faults"
      kit.touch_pages(10)
      local c = perf.measure("page-faults", kit.touch_pages, 100)
      local first = a:stop()
      kit.touch_pages(1000)
      assert.equal(111, first["page-faults"])
      assert.equal(1110, b:stop()["page-faults"])
      assert.equal(100, c["page-faults"])
    end)
  end)

  it("is read while it runs", function()
    requires { nosan = true } -- its memory is always new: pages that fault
    settled(function()
      local m = perf.start "page-faults"
      kit.touch_pages(3)
      local first = m:read()
      assert.equal(3, first["page-faults"])
      kit.touch_pages(4)
      assert.equal(7, m:read()["page-faults"])
      kit.touch_pages(5)
      assert.equal(12, m:stop()["page-faults"])
      assert.equal(3, first["page-faults"])
    end)
  end)

  it("may end in another coroutine than it began in", function()
    requires { nosan = true } -- its memory is always new: pages that fault
    settled(function()
      local m
      coroutine.wrap(function() m = perf.start "page-faults" coroutine.yield() end)()
      kit.touch_pages(9)
      assert.equal(9, coroutine.wrap(function() return m:stop()["page-faults"] end)())
    end)
  end)

  it("may never be stopped", function()
    for _ = 1, 1000 do perf.start "page-faults,dummy" end
    collectgarbage()
    collectgarbage()
    assert.is_true(perf.measure("page-faults,dummy", kit.touch_pages, 3)["page-faults"] >= 3)
  end)

  it("is stopped by a to-be-closed variable", function()
    requires { lua = "5.4" }
    local kept
    assert(load([[
      local perf, kit, keep = ...
      do
        local m <close> = perf.start "page-faults"
        keep(m)
        kit.touch_pages(6)
      end
      kit.touch_pages(100)
    ]]))(perf, kit, function(m) kept = m end)
    local n = kept:stop()["page-faults"]
    assert.is_true(n >= 6 and n < 100, n)
  end)

  it("is refused in another thread", function()
    local m = perf.start "page-faults"
    kit.touch_pages(20)
    for _, method in ipairs { "stop", "read" } do
      local ok, why = kit.elsewhere(function() return m[method](m) end)
      assert.is_false(ok)
      assert.matches("the Region belongs to the thread that started it", why, 1, true)
    end
    assert.is_true(m:stop()["page-faults"] >= 20)
  end)

  it("belongs to the parent after a fork: in the child its counts are nil, with a reason", function()
    local m = perf.start "page-faults"
    kit.touch_pages(50)
    local text = util.in_child(function()
      kit.touch_pages(20000)
      local c = m:stop()
      assert(c[1].value == nil)
      assert(c[1].why:find("fork", 1, true), c[1].why)
      assert(perf.start("dummy"):stop().dummy == 0)
      return "done"
    end)
    assert.equal("done", text)
    local n = m:stop()["page-faults"]
    assert.is_true(n >= 50 and n < 20000, n) -- the fork made pages copy-on-write
  end)

  it("keeps its list open, and reports that perf.release has closed it", function()
    local m = perf.start "page-faults"
    measure._release()
    local c, message, code = m:stop()
    assert.is_nil(c)
    assert.matches("perf.release", message, 1, true)
    assert.equal("EBADF", code)
    assert.is_nil((m:stop()))
    assert.is_nil((m:read()))
    assert.equal("perf.Region(closed)", tostring(m))
  end)

  it("raises an error for a mistake, and returns a refusal of the machine", function()
    local function refuses(message, ...)
      local ok, why = pcall(...)
      assert.is_false(ok)
      assert.matches(message, why, 1, true)
    end
    refuses("'start'", perf.start, 42)
    refuses("page-fautls", perf.start, "page-fautls")
    refuses("the list has no event", perf.start, {})
    local m = perf.start "dummy"
    refuses("Region expected, got nil", m.stop)
    refuses("Region expected, got table", m.read, {})
    assert.matches("^perf.Region%(dummy%)$", tostring(m))
    m:stop()
    assert.matches("dummy", tostring(m))
    if not kit.can_open { type = 0, config = 0 } then
      local none, message, code = perf.start "cycles"
      assert.is_nil(none)
      assert.matches("^cycles: ", message)
      assert.is_string(code)
    end
  end)
end)
