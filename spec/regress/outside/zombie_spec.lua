-- The story: a profiler that was started for a process which had ended said that the process runs no Lua (ENOTSUP), as long as
-- its parent had not waited for it. Twice: the state of a process is that of the kernel.
local outside = require "spec.support.outside"
local host = require "perf.kernel.host"
local kit = require "testkit"
local perf = require "perf"

it("a process that has ended is no process any more", function()
  outside.requires()
  local child = assert(kit.start(function() end))
  local pid = child:pid()
  local p = assert(perf.profiler { pid = pid })
  finally(function() p:close() end)
  assert(p:start())
  assert(p:stop())
  child:go()
  repeat until host.status(pid).State:find "^Z"
  local refusal = { nil, ("no process %d"):format(pid), "ESRCH" }
  assert.same(refusal, { p:start() })
  assert.same(refusal, { perf.profiler { pid = pid } })
  child:wait()
  assert.same(refusal, { p:start() })
end)
