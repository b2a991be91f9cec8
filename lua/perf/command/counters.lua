-- The counters of luaperf stat: a list of events on one task or CPU. An event that the machine lacks does not stop the others,
-- and keeps its place in the list.
local copy = require "perf.base.copy"
local names = require "perf.names"
local profilers = require "perf.measure.counting_profiler"

local M = {}

local Counters = {}
Counters.__index = Counters

-- Resolve a list of events.
-- @string text the argument of luaperf stat -e
-- @return array of {event, label}; or nil, message, code. Raises for an unknown event.
function M.resolve(text)
  local list = {}
  for i, event in ipairs(require "perf.event.group".events_of(text)) do
    local spec, message, code = names.resolve(event)
    if not spec and not profilers.lacking[code] then return nil, message, code end
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
  local list = {}
  for i, row in ipairs(events) do
    list[i] = row.event
    if on_exec then
      list[i] = copy(type(row.event) == "table" and row.event or { event = row.event })
      list[i].label, list[i].enable_on_exec = row.label, true
    end
  end
  local profiler, message, code = profilers.allowed(list, target)
  if not profiler then return nil, message, code end
  return setmetatable({ events = events, profiler = profiler }, Counters)
end

local function call_opened(self, method)
  if self.profiler[1] then return self.profiler[method](self.profiler) end
end

function Counters:enable() call_opened(self, "enable") end
function Counters:disable() call_opened(self, "disable") end
function Counters:close() self.profiler:close() end

-- Whether no event could be opened, at least one for lack of permission.
-- @return the message and code of that event, preferably of one that was refused in user space too; or nil
function Counters:refused()
  local denied
  for _, lack in ipairs(self.profiler.missing) do
    if (lack.code == "EACCES" or lack.code == "EPERM")
      and (not denied or denied.message:find("count user space only", 1, true)) then denied = lack end
  end
  if denied and not self.profiler[1] then return denied.message, denied.code end
end

-- The counts so far, of the events that could be opened; nil if there are none.
function Counters:values() return call_opened(self, "read") end

-- The entries in the requested order.
-- @bool all_of_them also return the events that could not be opened, with `why`
-- @param c the result of `values`
-- @param[opt] before values to subtract
function Counters:entries(all_of_them, c, before)
  local list, opened = {}, 0
  if c and before then c = c - before end
  for i, row in ipairs(self.events) do
    local lack = self.profiler.lacks[i]
    if not lack then opened = opened + 1 end
    if c and not lack then
      list[#list + 1] = c[opened]
    elseif all_of_them then
      list[#list + 1] = { label = row.label, why = lack and lack.message:gsub("^.-: ", "", 1) or nil, unsupported = true }
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
