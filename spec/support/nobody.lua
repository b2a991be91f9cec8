--- Being an ordinary user for the time of one child.
--
-- kernel.perf_event_paranoid is the whole machine's, so it is set for as long.
local kit = require "testkit"
local util = require "spec.support.util"

local NOBODY = 65534
local sysctl = "/proc/sys/kernel/perf_event_paranoid"

-- Sets the level until its pipe is closed, by us or by our end, whatever that is; one at a time on this machine.
local guard = [[
trap '' TERM INT HUP PIPE
exec 9<%s && flock 9
before=$(cat <&9)
echo %d >%s
while echo set 2>/dev/null; do sleep 0.02; done
echo "$before" >%s
]]

--- Runs fn(...) in a child of user nobody at a level of kernel.perf_event_paranoid; its first result, as a string. What fn needs
-- of the tree is to be loaded before, since the tree may stand below a directory that is root's alone.
return function(level, fn, ...)
  local pipe = io.popen(guard:format(sysctl, level, sysctl, sysctl))
  assert(pipe:read "*l" == "set", "kernel.perf_event_paranoid could not be set")
  local ok, result = pcall(util.in_child, function(...)
    assert(kit.drop(NOBODY))
    return fn(...)
  end, ...)
  pipe:close()
  if not ok then error(result, 0) end
  return result
end
