--- Sets a sysctl of this machine during one call, or keeps its value.
--
-- Another process of a suite may run at the same time, so a process that sets the value or depends on it holds a lock on the
-- file. A separate process restores the value, even if this one crashes.
local set = [[
trap '' TERM INT HUP PIPE
exec 9<%s && flock 9
before=$(cat <&9)
echo %d >%s
while echo ready 2>/dev/null; do sleep 0.02; done
echo "$before" >%s
]]
local keep = [[
exec 2>/dev/null
exec 9<%s && flock -s 9
while echo ready; do sleep 0.02; done
]]

local unpack = table.unpack or unpack -- luacheck: ignore

--- Calls fn(...) while /proc/sys/kernel/NAME is value, which needs root and flock. If value is nil, no other
-- process of a suite changes the file during the call. Returns the results of fn, or raises its error.
return function(name, value, fn, ...)
  local path = "/proc/sys/kernel/" .. name
  local pipe = io.popen(value and set:format(path, value, path, path) or keep:format(path))
  assert(pipe:read "*l" == "ready" or not value, "kernel." .. name .. " could not be set")
  local results = { pcall(fn, ...) }
  pipe:close()
  if not results[1] then error(results[2], 0) end
  return unpack(results, 2, 9)
end
