-- The story: a program without standard input profiled another process. Descriptor 0 was free, so the pipe that wakes the reading
-- thread got it. This descriptor was never closed, since 0 stood for no descriptor.
local outside = require "spec.support.outside"
local util = require "spec.support.util"

describe("a profiler of another process, in a program without standard input", function()
  it("closes its descriptors", function()
    outside.requires()
    local code = [[
local perf, core = require "perf", require "perf.core"
local p, _, code = perf.profiler { pid = tonumber(arg[1]) } -- refused after the pipe is made, since the shell runs no Lua
local status = os.execute("test -e /proc/" .. core.pid() .. "/fd/0")
print(p, code, status == true or status == 0)
]]
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    util.write_file(path, code)
    assert.equal("nil\tENOTSUP\tfalse\n", (util.shell(("%s %s $$ <&-"):format(util.lua(), path))))
  end)
end)
