--- For the specs of forks.
local kit = require "testkit"

local forks = {}

--- The message that refuses the use of an inherited object, after the name of its class.
forks.REFUSED = " belongs to the parent process: it was opened before a fork; open another one here"

-- Ends a child; it prints only its error, if any.
local function leave(ok, err)
  if not ok then
    io.stderr:write("in the child: ", tostring(err), "\n")
    io.stderr:flush()
  end
  kit.exit(ok and 0 or 1)
end

--- Runs fn in a child, which ends when fn returns. Returns its status: 0 if fn raised no error. raw: see kit.split.
function forks.split(fn, raw)
  local pid = kit.split(raw)
  if pid == 0 then leave(pcall(fn)) end
  return kit.reap(pid)
end

--- After kit.split: in the child, where pid is 0, calls check(...) and ends the child; in the parent does nothing.
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
