--- Sets a sysctl of this machine during one call.
--
-- Another suite may run at the same time, so a process that sets the value or depends on it holds a lock on the file. A separate
-- process restores the value, even if this one crashes.
local guard = [[
trap '' TERM INT HUP PIPE
exec 9<%s && flock 9
before=$(cat <&9)
echo %d >%s
while echo set 2>/dev/null; do sleep 0.02; done
echo "$before" >%s
]]

local unpack = table.unpack or unpack -- luacheck: ignore

--- Calls fn(...) while /proc/sys/kernel/NAME is value. Needs root and flock. Returns its results, or raises its error.
return function(name, value, fn, ...)
  local path = "/proc/sys/kernel/" .. name
  local pipe = io.popen(guard:format(path, value, path, path))
  assert(pipe:read "*l" == "set", "kernel." .. name .. " could not be set")
  local results = { pcall(fn, ...) }
  pipe:close()
  if not results[1] then error(results[2], 0) end
  return unpack(results, 2, 9)
end
