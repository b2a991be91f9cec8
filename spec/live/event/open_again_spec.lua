-- A software event that was opened by its name is opened again without resolving it, and these Events share what describes them.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

before_each(function() requires { perf_open = true } end)

local exactly = util.exactly

describe("perf.open of a name that was opened before", function()
  it("gives an event with the same attr and label, which counts by itself", function()
    local first = assert(perf.open "page-faults")
    local second = assert(perf.open "page-faults")
    assert.same(first:attr(), second:attr())
    assert.equal("page-faults", second:label())
    assert.not_equal(first:id(), second:id())
    first:enable()
    assert.matches("not enabled", second:read().why, 1, true)
    exactly(16, function() return second:measure(kit.touch_pages, 16).value end)
    first:close()
    second:close()
  end)

  it("gives an attr that can be changed without changing those of the next ones", function()
    local first = assert(perf.open "dummy")
    first:attr().config = 7
    local second = assert(perf.open "dummy")
    second:attr().config = 7
    local third = assert(perf.open "dummy")
    assert.equal(first:attr().config, third:attr().config)
    for _, ev in ipairs { first, second, third } do ev:close() end
  end)

  it("gives a leader of its own labels", function()
    assert(perf.open "dummy"):close()
    local one, two = assert(perf.open "dummy"), assert(perf.open "dummy")
    local a = assert(perf.open({ event = "page-faults", sample_type = { "read" } }, { group = one }))
    local b = assert(perf.open({ event = "task-clock", sample_type = { "read" } }, { group = two }))
    assert.same({ "dummy", "page-faults" }, one:info().labels)
    assert.same({ "dummy", "task-clock" }, two:info().labels)
    local three = assert(perf.open "dummy")
    assert.is_nil(three:info().labels)
    for _, ev in ipairs { b, a, two, one, three } do ev:close() end
  end)

  it("gives the kernel's reason if it is refused now", function()
    assert(perf.open "page-faults"):close()
    perf.release() -- no idle list is left that could be closed
    core.fault("perf_event_open", "EBUSY")
    local ev, message, code = perf.open "page-faults"
    core.fault()
    assert.is_nil(ev)
    assert.equal("EBUSY", code)
    assert.matches("page-faults: ", message, 1, true)
  end)
end)

describe("a Group of one event", function()
  it("measures and reads it", function()
    local g = assert(perf.group { "page-faults" })
    exactly(16, function() return g:measure(kit.touch_pages, 16)["page-faults"] end)
    local before = g:read()
    assert.equal(g[1]:id(), before[1].id)
    assert.equal(before[1].raw, g[1]:read().raw)
    exactly(8, function()
      local a = g:read()
      kit.touch_pages(8)
      return (g:read() - a)["page-faults"]
    end)
    g:close()
  end)

  it("is read alone if another event joins it", function()
    local g = assert(perf.group { "page-faults" })
    local member = assert(perf.open("dummy", { group = g[1] }))
    exactly(16, function() return g:measure(kit.touch_pages, 16)["page-faults"] end)
    member:close()
    g:close()
  end)
end)
