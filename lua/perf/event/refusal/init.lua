-- Explains a refusal in one line: what was tried, why it failed, and what to do about it.
--
--     cycles:k: perf_event_open: Permission denied (kernel.perf_event_paranoid is 2; count user space only with
--     cycles:u, or run: sysctl kernel.perf_event_paranoid=1, or give the program CAP_PERFMON)
--
-- This module explains EMFILE and ENFILE. No file can be read then, so the module is also built into perf.core. The causes of
-- other refusals are in the module `causes`, which is loaded from its file.
local core = require "perf.core"
local late = require "perf.base.late"

local M = {}

local SHORT = 100 -- bytes; shorter names, such as those of the default list, need no perf.base.brief

-- "WHAT: MESSAGE (REASON; REMEDY, or REMEDY)"
function M.compose(what, msg, reason, remedies)
  if #what > SHORT then what = late "perf.base.brief"(what) end
  if not reason then return ("%s: %s"):format(what, msg) end
  if remedies and remedies[1] then reason = reason .. "; " .. table.concat(remedies, ", or ") end
  return ("%s: %s (%s)"):format(what, msg, reason)
end

local by_code = {} -- functions that return reason, remedies

function by_code.EMFILE()
  local soft, hard = core.rlimit "nofile"
  local remedies = { "close events" }
  if soft and hard and hard > soft then
    remedies[2] = hard == math.huge and "run: ulimit -n unlimited" or ("run: ulimit -n %d"):format(hard)
  else
    remedies[2] = "raise the hard limit (limits.conf, LimitNOFILE= of a systemd unit)"
  end
  return ("every event takes a descriptor, and this process may have %s open (RLIMIT_NOFILE)"):format(
    soft and ("%.0f"):format(soft) or "no more"), remedies
end

function by_code.ENFILE()
  local max = late "perf.kernel.host".sysctl "fs.file-max"
  return "the whole system has as many files open as fs.file-max allows" .. (max and (" (%.0f)"):format(max) or ""),
    { "run: sysctl fs.file-max=" .. (max and ("%.0f"):format(max * 2) or "a larger number") }
end

-- Explain why core.open failed.
-- @param what the event's label, as the user wrote it
-- @param attr the table of attr fields that was tried
-- @param msg core.open's message
-- @param code its errno's symbol
-- @param[opt] ctx {pid=, cpu=, group=Event or nil, cgroup=} as they were tried
-- @return nil, the message with its cause and remedies, code
local function open(what, attr, msg, code, ctx)
  if by_code[code] then
    local ok, reason, remedies = pcall(by_code[code])
    return nil, M.compose(what, msg, ok and reason or nil, remedies), code
  end
  local ok, causes = pcall(late, "perf.event.refusal.causes")
  if not ok then return nil, M.compose(what, msg), code end
  return causes.open(what, attr, msg, code, ctx)
end

return setmetatable(M, {
  __call = function(_, ...) return open(...) end,
  __index = function(_, name) return late "perf.event.refusal.causes"[name] end,
})
