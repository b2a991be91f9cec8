-- The story: luaperf record -p 2 said "no process 2", although ps showed it: a thread of the kernel has no memory in which a Lua
-- state could be, and the search failed with the code that a process which has ended gives.
local perf = require "perf"
local outside = require "spec.support.outside"

it("a thread of the kernel is a process that runs no Lua", function()
  outside.requires { root = true }
  local comm = io.open "/proc/2/comm"
  local name = comm and comm:read "*l"
  if comm then comm:close() end
  if name ~= "kthreadd" then return pending "needs: a thread of the kernel, which a container does not show" end
  assert.same({ nil, "process 2 runs no Lua: no Lua state was found in its memory", "ENOTSUP" }, { perf.profiler { pid = 2 } })
end)
