--- Messages about tracing that is missing or not readable for all users, on simulated trees.
local tracefs = require "perf.kernel.tracefs"
local tracing = require "perf.kernel.tracing"

describe("perf.tracing over another root", function()
  local here = tracefs.here
  after_each(function() tracefs.here = here end)

  it("gives advice if tracefs is not mounted", function()
    tracefs.here = tracefs.new { "/no/such/tracefs" }
    for _, f in ipairs { "available_events", "subsystems", "tracers", "current_tracer" } do
      local list, message, code = tracing[f]()
      assert.is_nil(list, f)
      assert.matches("mount -t tracefs", message, 1, true)
      assert.equal("ENOENT", code)
    end
  end)

  it("reads the files of that root", function()
    tracefs.here = setmetatable({}, { __index = {
      names = function() return { "a:one", "a:two:three", "b:one" } end,
      root = function() return "/no/such/tracefs" end,
    } })
    assert.same({ a = { "one", "two:three" }, b = { "one" } }, tracing.available_events())
    assert.same({ "a", "b" }, tracing.subsystems())
    assert.equal("a\nb", tostring(tracing.subsystems()))
    assert.equal("a  2 events\nb  1 event", tostring(tracing.available_events()))
    local list, message, code = tracing.tracers()
    assert.is_nil(list)
    assert.equal("/no/such/tracefs/available_tracers: No such file or directory", message)
    assert.equal("ENOENT", code)
  end)
end)
