-- The story: a finalizer may start a profiler while the state closes. An object that is older than all others, and so is
-- finalized last, stops the profiler. When perf.core began to open its parts at their first use, the first profiler made this
-- object. Lua 5.4 does not finalize objects that are made while the state closes. So the profiler went on after the state was
-- closed, and its signals read freed memory; make san shows that by spec/live/profile/ends_spec.lua.
local util = require "spec.support.util"

describe("the object that stops profilers when a state closes", function()
  it("is there before any profiler is used", function()
    local out, status = util.shell(util.lua() .. [[ -e 'require "perf" print(type(debug.getregistry()["perf.lifetime"]))']])
    assert.same({ "userdata\n", 0 }, { out, status })
  end)
end)
