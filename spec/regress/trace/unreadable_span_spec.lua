-- The story: a span whose events could not be read any more, since perf.release had closed them or read(2) failed, raised errors
-- in the program that it observed: tracer:start and span:finish raised "read: Input/output error" or "Group is closed", and so
-- did the spans of other libraries' tracers. Now it has no counts, and an attribute with the reason.
local core = require "perf.core"
local perf = require "perf"

describe("a span whose events cannot be read", function()
  local tracer, list
  before_each(function()
    requires { perf_open = true }
    list = {}
    tracer = assert(perf.tracer { service = "spec", events = "page-faults:u", exporter = function(batch)
      for _, s in ipairs(batch) do list[s.name] = s end
      return true
    end })
  end)
  after_each(function()
    core.fault()
    if tracer then tracer:close() end
  end)

  it("has no counts, and its parent has no self counts", function()
    tracer:span("outer", function()
      local span = tracer:start "inner"
      perf.release()
      span:finish()
    end)
    assert.is_true(tracer:flush())
    for _, name in ipairs { "inner", "outer" } do
      assert.same({}, list[name].counts, name)
      assert.equal("the events could not be read", list[name].attributes["perf.error"])
      assert.is_true(list[name].duration_ns > 0)
    end
  end)

  it("has no counts when one of its readings failed", function()
    local span = tracer:start "work"
    span:pause()
    core.fault("read", "EIO", 1)
    span:resume():pause()
    core.fault()
    span:resume():finish()
    assert.is_true(tracer:flush())
    assert.same({}, list.work.counts)
  end)

  it("starts nevertheless", function()
    tracer:start("first"):finish() -- new events begin at 0, without a read
    core.fault("read", "EIO", 0)
    local span = tracer:start "work"
    core.fault()
    span:finish()
    assert.is_true(tracer:flush())
    assert.same({}, list.work.counts)
    assert.is_true(list.work.duration_ns > 0)
  end)
end)
