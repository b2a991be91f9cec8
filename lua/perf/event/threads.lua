-- Opens something on each thread of processes that run.
--
-- An event is inherited by the threads and children that its thread starts from then on. If one of them starts between the
-- listing of the threads and the opening of the event, nobody can tell whether it inherits that event: it would be missed, or
-- counted twice. So everything is opened anew until no thread has started meanwhile.
local host = require "perf.kernel.host"

local M = {}

local ATTEMPTS = 30 -- a program may start commands all the time; after these attempts, new ones inherit the events

-- The threads of processes, and of the children that they have now. A process that has ended has none.
local function list_of(pids, children)
  local list, seen = {}, {}
  for _, pid in ipairs(children and host.with_descendants(pids) or pids) do
    local threads, message, code = host.threads(pid)
    if not threads and code ~= "ESRCH" then return nil, message, code end
    for _, tid in ipairs(threads or {}) do
      if not seen[tid] then seen[tid], list[#list + 1] = true, tid end
    end
  end
  return list
end

local function has_new(list, before)
  local known = {}
  for _, tid in ipairs(before) do known[tid] = true end
  for _, tid in ipairs(list) do
    if not known[tid] then return true end
  end
  return false
end

local function close_all(opened)
  for _, one in ipairs(opened) do one:close() end
end

-- Open something on each thread. A thread that ends meanwhile has none.
-- @tab pids processes, all of which must run
-- @bool children whether to include their children
-- @func open called with a thread's number, the array of what is open already, and `state`; returns an object with the method
-- `close`; or nil, message, code
-- @param[opt] state passed to open
-- @return an array of what was opened; or nil, message, code
function M.open(pids, children, open, state)
  for _, pid in ipairs(pids) do
    local running, message, code = host.is_running(pid)
    if not running then return nil, message or ("no process %d"):format(pid), code or "ESRCH" end
  end
  for attempt = 1, ATTEMPTS do
    local list, message, code = list_of(pids, children)
    if not list then return nil, message, code end
    local opened = {}
    for _, tid in ipairs(list) do
      local one
      one, message, code = open(tid, opened, state)
      if one then
        opened[#opened + 1] = one
      elseif code ~= "ESRCH" then
        close_all(opened)
        return nil, message, code
      end
    end
    if #opened == 0 then return nil, ("no process %d"):format(pids[1]), "ESRCH" end
    if attempt == ATTEMPTS or not has_new(list_of(pids, children) or {}, list) then return opened end
    close_all(opened)
  end
end

return M
