-- The story: after the profiler had attached to a process, the process executed another program, and only then had its first
-- sample. The profiler went on with what it had learned of the old program. On LuaJIT the samples of the new one were outside
-- Lua; on Lua 5.1 its native functions had no names.
local core = require "perf.core"
local host = require "perf.kernel.host"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local EVENT = "syscalls:sys_enter_getppid"

it("a profile of a process that executes another program before its first sample has the new program's mappings", function()
  outside.requires { tracepoint = EVENT }
  util.with_directory(function(dir)
    util.write_file(dir .. "/a.lua", ("require('testkit').syscalls(20)\nio.open('%s/done'):close()\n"):format(dir))
    util.execute(("mkfifo %s/done"):format(dir)) -- the program waits until its samples have been read
    local child = assert(kit.start(function() kit.exec(util.lua(), dir .. "/a.lua") end))
    local p = assert(perf.profiler { event = EVENT, pid = child:pid() })
    assert(p:start())
    child:go()
    local images
    repeat
      core.watch({}, 0.01)
      local found = p.sampler:snapshot()
      images = found.images
    until found.samples + found.dropped >= 20 or not host.is_running(child:pid())
    io.open(dir .. "/done", "w"):close()
    assert.equal(0, (child:wait()))
    local prof = assert(p:stop())
    assert.equal(20, profiling.under(prof, dir .. "/a.lua:1 main chunk"), profiling.text(prof))
    for _, image in ipairs(images) do assert.is_true(image.file, image.maps) end
  end)
end)
