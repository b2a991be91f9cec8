-- The story: a child of the profiled process ended while the collector was reading its mappings. The list of them was then cut
-- off, but it was taken for the whole one: the unwinder could not read the library whose functions were on the stack, and all
-- samples of the child were "broken frame". The kernel gives a long list in parts, so this process has thousands of mappings.
-- Twice: C reads the mappings.
local outside = require "spec.support.outside"
local kit = require "testkit"
local profiling = require "spec.support.profiling"

it("a profile of another process has the stacks of children that end while their mappings are read", function()
  local event = "syscalls:sys_enter_getppid"
  outside.requires { tracepoint = event }
  local prof = outside.profile({ event = event }, function()
    for _ = 1, 2000 do kit.region "guarded" end
    for _ = 1, 40 do kit.fork(function() kit.syscalls(5) end) end
  end)
  local text = profiling.text(prof)
  assert.equal(200, tonumber(prof.total), text)
  assert.equal(200, profiling.under(prof, "testkit.fork"), text)
  assert.equal(200, profiling.under(prof, "testkit.syscalls"), text)
  -- The lines of some stacks are read from the child, which may have ended.
  for reason in pairs(prof.failures or {}) do assert.equal("function gone", reason, text) end
end)
