-- Spans as plain tables: the result of span:totable(), and the argument of an exporter that is a function.
local clock = require "perf.base.clock"
local span_counts = require "perf.exporter.span_counts"

local M = {}

local kinds = { "internal", "server", "client", "producer", "consumer" }
local codes = { [0] = "unset", "ok", "error" }

local function links_of(s)
  local list = {}
  for i, l in ipairs(s.links or {}) do
    list[i] = { trace_id = l.trace_id, span_id = l.span_id, tracestate = l.tracestate, attributes = l.attributes or {},
      dropped_attributes = l.dropped or 0 }
  end
  return list
end

local function events_of(s)
  local list = {}
  for i, e in ipairs(s.events or {}) do
    list[i] = { name = e.name, attributes = e.attributes or {}, time_ns = clock.ns(s.anchor, e.at, e.moment),
      dropped_attributes = e.dropped or 0 }
  end
  return list
end

-- A span that is not sampled: it has no times, and nothing that the program set.
function M.unsampled(s)
  return { name = s.name, kind = "internal", trace_id = s.trace_id, span_id = s.span_id, parent_id = s.parent_id,
    tracestate = s.tracestate, attributes = {}, counts = {}, self_counts = {}, events = {}, links = {}, status = "unset",
    dropped_attributes = 0, dropped_events = 0, dropped_links = 0 }
end

-- Any other span.
function M.span(s)
  local t = M.unsampled(s)
  t.kind, t.status, t.message = kinds[s.kind], codes[s.status or 0], s.message
  t.start_ns = clock.ns(s.anchor, s.start, s.began)
  t.duration_ns = s.ended and clock.between(s.began, s.ended) or s.duration
  t.attributes, t.events, t.links = s.attributes or {}, events_of(s), links_of(s)
  t.dropped_attributes, t.dropped_events, t.dropped_links = s.dropped or 0, s.dropped_events or 0, s.dropped_links or 0
  span_counts.each(s, function(label, _, total, own) t.counts[label], t.self_counts[label] = total, own end)
  return t
end

return M
