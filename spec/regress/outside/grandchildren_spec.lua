-- The story: a program started a script by os.execute, and none of the script's system calls was sampled. The BPF program of a
-- tracepoint runs for all tasks, and knew a new process only by its parent. The parent, a shell, had made no such call, so it was
-- not known.
-- Twice: a BPF program finds the ancestors, whatever they run.
local kit = require "testkit"
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"

it("a profile of another process has the events of a grandchild whose parent has none", function()
  local event = "syscalls:sys_enter_getppid"
  outside.requires { tracepoint = event }
  local function grandchild() kit.syscalls(50) end
  local function great_grandchild() kit.syscalls(10) end
  local prof = outside.profile({ event = event }, function()
    kit.fork(function() kit.fork(grandchild) end)
    kit.fork(function()
      kit.fork(function() kit.fork(great_grandchild) end)
    end)
  end)
  local text = profiling.text(prof)
  assert.equal(60, tonumber(prof.total), text)
  assert.equal(50, profiling.under(prof, "testkit.syscalls", "grandchild"), text)
  assert.equal(10, profiling.under(prof, "testkit.syscalls", "great_grandchild"), text)
end)
