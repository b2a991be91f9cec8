-- The counters of luaperf stat: a list of events on one task or CPU. Each event is opened separately, so that an event that the
-- machine lacks does not stop the others; it keeps its place in the list.
local copy = require "perf.base.copy"
local names = require "perf.names"
local profilers = require "perf.measure.counting_profiler"

local M = {}

local Counters = {}
Counters.__index = Counters

-- Errors that concern one event; other events of the list may work.
local lacking = { ENOENT = true, EOPNOTSUPP = true, ENODEV = true, ENXIO = true, EINVAL = true, EACCES = true, EPERM = true }

-- Resolve a list of events.
-- @string text the argument of luaperf stat -e
-- @return array of {event, label}; or nil, message, code. Raises for an unknown event.
function M.resolve(text)
  local list = {}
  for i, event in ipairs(require "perf.event.group".events_of(text)) do
    local spec, message, code = names.resolve(event)
    if not spec and not lacking[code] then return nil, message, code end
    list[i] = { event = event, label = spec and spec.label or type(event) == "table" and event.label or event }
  end
  return list
end

-- Open the events; for user space only, if counting the kernel is not permitted.
-- @tab events the result of `resolve`
-- @tab target {pid =, cpu =, inherit =}
-- @bool on_exec start counting at the task's next exec
-- @return Counters; or nil, message, code
function M.open(events, target, on_exec)
  local all = setmetatable({}, Counters)
  for i, row in ipairs(events) do
    local event = row.event
    if on_exec then
      event = copy(type(event) == "table" and event or { event = event })
      event.label, event.enable_on_exec = row.label, true
    end
    local p, message, code = profilers.allowed({ event }, target)
    if not p and not lacking[code] then
      all:close()
      return nil, message, code
    end
    all[i] = { label = row.label, profiler = p, message = message, code = code,
      why = not p and message:gsub("^.-: ", "", 1) or nil }
  end
  return all
end

local function each_profiler(all, method)
  for _, row in ipairs(all) do
    if row.profiler then row.profiler[method](row.profiler) end
  end
end

function Counters:enable() each_profiler(self, "enable") end
function Counters:disable() each_profiler(self, "disable") end
function Counters:close() each_profiler(self, "close") end

-- Whether no event could be opened, at least one for lack of permission.
-- @return the message and code of that event, preferably of one that was refused in user space too; or nil
function Counters:refused()
  local denied
  for _, row in ipairs(self) do
    if row.profiler then return nil end
    if row.code == "EACCES" or row.code == "EPERM" then
      if not denied or denied.message:find("count user space only", 1, true) then denied = row end
    end
  end
  if denied then return denied.message, denied.code end
end

-- The counts so far: Counts by the event's place in the list, false for events that could not be opened.
function Counters:values()
  local values = {}
  for i, row in ipairs(self) do values[i] = row.profiler and row.profiler:read() or false end
  return values
end

-- The entries in the requested order.
-- @bool all_of_them also return the events that could not be opened, with `why`
-- @tab[opt] before values to subtract
function Counters:entries(all_of_them, before)
  local list = {}
  for i, now in ipairs(self:values()) do
    if now then
      local c = before and before[i] and now - before[i] or now
      list[#list + 1] = c[1]
    elseif all_of_them then
      list[#list + 1] = { label = self[i].label, why = self[i].why, unsupported = true }
    end
  end
  return list
end

-- Add up the entries of several Counters of the same events by their index, since an event may be requested twice.
-- @tab lists of entries, each with all of them
-- @bool all_of_them as for `entries`
function M.add_up(lists, all_of_them)
  local sums = {}
  for _, list in ipairs(lists) do
    for i, e in ipairs(list) do
      local sum = sums[i] or { label = e.label, unsupported = true, why = e.why, enabled_ns = 0, running_ns = 0, raw = 0 }
      sums[i] = sum
      if sum.unsupported and not e.unsupported then
        sum.label, sum.unit, sum.why, sum.unsupported = e.label, e.unit, e.why, nil
      end
      if e.value then
        if not sum.value then sum.why = e.why end
        sum.value = (sum.value or 0) + e.value
      end
      sum.raw = sum.raw + (e.raw or 0)
      sum.enabled_ns, sum.running_ns = sum.enabled_ns + (e.enabled_ns or 0), sum.running_ns + (e.running_ns or 0)
    end
  end
  local out = {}
  for _, sum in ipairs(sums) do
    if sum.unsupported then sum = { label = sum.label, why = sum.why, unsupported = true } end
    if all_of_them or not sum.unsupported then out[#out + 1] = sum end
  end
  return out
end

return M
