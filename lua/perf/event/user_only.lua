-- Events that count user space only, because counting the kernel is not permitted.
local copy = require "perf.base.copy"
local host = require "perf.kernel.host"
local late = require "perf.base.late"
local open = require "perf.event.opening"

local M = {}

-- The label of an event that excludes the kernel, and the reason.
function M.label(label)
  local level = host.paranoid()
  return late "perf.event.refusal.permission".user_only(label) or label, level and level > 1
    and ("user space only: kernel.perf_event_paranoid is %d; run: %s"):format(level, host.paranoid_command(1))
    or "user space only: counting the kernel is refused here"
end

-- The same event, for user space only.
-- @param spec {label=, unit=, scale=, ...}
-- @param attr one of its attrs
-- @return a spec whose label ends in u and whose note gives the reason; and the attr. Or nil if such an event would count
-- nothing, or the same
function M.of(spec, attr)
  if open.is_set(attr.exclude_kernel) or open.is_set(attr.exclude_user) or open.is_clock(attr) then return nil end
  local user = copy(spec)
  user.label, user.note = M.label(spec.label)
  local a = copy(attr)
  a.exclude_kernel = true
  return user, a
end

-- Open one attr; for user space only, if counting the kernel is not permitted.
-- @param spec, attr, opts as for perf.event.opening.attr
-- @return Event, or nil, message, code
function M.allowed(spec, attr, opts)
  local ev, message, code = open.attr(spec, attr, opts)
  if not ev and code == "EACCES" then
    local user, a = M.of(spec, attr)
    -- If that is refused too, return its reason, which is the one to act on: the CPU lacks the event, or the process belongs to
    -- another user.
    if user then return open.attr(user, a, opts) end
  end
  return ev, message, code
end

return M
