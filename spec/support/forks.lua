--- What the specs of forks share.
local kit = require "testkit"

local forks = {}

--- What refuses the use of an inherited object, after the name of its class.
forks.REFUSED = " belongs to the parent process: it was opened before a fork; open another one here"

-- Ends a child: it has no reason to say anything but what went wrong.
local function leave(ok, err)
  if not ok then
    io.stderr:write("in the child: ", tostring(err), "\n")
    io.stderr:flush()
  end
  kit.exit(ok and 0 or 1)
end

--- Runs fn in a child that ends as soon as fn does. Returns its status, 0 when fn raised nothing. raw: see kit.split.
function forks.split(fn, raw)
  local pid = kit.split(raw)
  if pid == 0 then leave(pcall(fn)) end
  return kit.reap(pid)
end

--- Where a child goes on beside its parent (pid, of kit.split, is 0 there): it calls check(...) and ends.
function forks.in_child_only(pid, check, ...)
  if pid == 0 then leave(pcall(check, ...)) end
end

--- Raises unless fn(...) refuses an object of that class.
function forks.refused(what, fn, ...)
  local ok, err = pcall(fn, ...)
  err = tostring(err)
  if ok or not err:find(what .. forks.REFUSED, 1, true) then error((ok and "no error" or err) .. " instead of " .. what, 0) end
end

return forks
