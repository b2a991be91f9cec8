-- The worker's events: the list of perf.start opened as perf.measure opens its own.
local argument = require "perf.base.argument"
local exposition = require "resty.perf.metrics"
local kernel_group = require "perf.event.group"
local meter = require "perf.measure.open_list"
local names = require "perf.names"

local M = {}

local MOST = 32

local function list_of(events)
  if type(events) == "string" then return kernel_group.events_of(events) end
  return events
end

-- Raise for an invalid list of events, and for an unknown event. Events that this machine refuses are found by `open`.
-- @return set of the events' labels; nil for nil, the default events
function M.check(events)
  if events == nil then return end
  if type(events) ~= "string" and type(events) ~= "table" then
    argument.raise("events: list or text expected, got " .. type(events))
  end
  local list = list_of(events)
  local wrong = names.list_mistake(list)
  if wrong then argument.raise("events: " .. wrong) end
  if #list == 0 then argument.raise "events: the list has no event" end
  if #list > MOST then argument.raisef("events: %d events; at most %d", #list, MOST) end
  local labels, metrics = {}, {}
  for _, event in ipairs(list) do
    local spec = names.resolve_counted(event) or { label = tostring(event) }
    local label, metric = spec.label, exposition.metric(spec.label, spec.unit)
    -- Two spellings of an event have one name as a metric of Prometheus.
    if metrics[metric] then argument.raisef("events: '%s' and '%s' have the same metric, %s", metrics[metric], label, metric) end
    metrics[metric], labels[label] = label, true
    labels[label:gsub(":%a+$", "")] = true -- Counts know it without its modifiers too
  end
  return labels
end

-- Open them.
-- @param[opt] events nil for the best events of this machine
-- @return as perf.measure.open_list.open; or nil, message, code. Raises for an unknown event.
function M.open(events)
  if events == nil then return meter.open_default() end
  local specs, message, code = names.resolve_list(list_of(events), names.resolve_counted)
  if not specs then return nil, message, code end
  return meter.open(specs)
end

return M
