-- Histograms of counts by span name: the distribution of the cost of each kind of work, without keeping the spans.
--
-- They include every finished and recorded span, even one that the queue then drops. Buckets are 1, 2, 5, 10, 20 ... 5e9 by
-- default. If a program generates span names, 200 histograms for each label are kept, and the rest is in "other".
--
-- Prometheus uses base units, so nanoseconds become seconds there: `perf_task_clock_seconds`. OTLP keeps "ns".
local pairs_of = require "perf.base.pairs"
local clock = require "perf.base.clock"
local prometheus = require "perf.exporter.prometheus"
local quote = require "perf.base.json".quote
local span_counts = require "perf.exporter.span_counts"
local utf8 = require "perf.base.utf8"
local values = require "perf.exporter.values"

local M = {}

local Metrics = {}
Metrics.__index = Metrics

local MOST_NAMES = 200
local format = string.format

local function default_bounds()
  local bounds = {}
  for decade = 0, 9 do
    for _, step in ipairs { 1, 2, 5 } do bounds[#bounds + 1] = step * 10 ^ decade end
  end
  return bounds
end

-- New histograms.
-- @tab options buckets (rising numbers), interval (seconds between two exports, 60)
function M.new(options)
  local now, period = clock.now(), (options.interval or 60) * 1e9
  return setmetatable({ bounds = options.buckets or default_bounds(), names = {}, n = 0, since = now, anchor = clock.anchor(),
    every = period, next_export = now + period }, Metrics)
end

-- The first bucket whose bound is not below v.
local function bucket_of(bounds, v)
  local low, high = 1, #bounds + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if v <= bounds[middle] then high = middle else low = middle + 1 end
  end
  return low
end

local current, all -- rows of the span that is being added

local function put(label, unit, total)
  local h = current[label]
  if not h then
    h = { label = label, unit = unit, buckets = {}, sum = 0, n = 0 }
    for i = 1, #all.bounds + 1 do h.buckets[i] = 0 end
    current[label] = h
  end
  local v = tonumber(total) or 0
  local i = bucket_of(all.bounds, v)
  h.buckets[i], h.sum, h.n = h.buckets[i] + 1, h.sum + v, h.n + 1
end

local valid = values.keep(utf8.valid) -- names that differ only in invalid bytes are one, since their texts are the same

-- Start with empty histograms: in the child of a fork, since the parent sends those so far.
function Metrics:clear()
  self.names, self.n, self.since, self.anchor = {}, 0, clock.now(), clock.anchor()
end

-- Add a finished span.
function Metrics:add(s)
  local name = valid(s.name)
  local t = self.names[name]
  if not t then
    if self.n >= MOST_NAMES then name = "other" end
    t = self.names[name] or {}
    if not self.names[name] then self.names[name], self.n = t, self.n + 1 end
  end
  current, all = t, self
  put("duration", "ns", s.duration)
  span_counts.each(s, put)
end

-- Histograms by label, names sorted: {{label=, unit=, {name=, h=}, ...}, ...}.
local function by_label(self)
  local labels, list = {}, {}
  for name, t in pairs_of(self.names) do
    for label, h in pairs_of(t) do
      local of = labels[label]
      if not of then
        of = { label = label, unit = h.unit }
        labels[label], list[#list + 1] = of, of
      end
      of[#of + 1] = { name = name, h = h }
    end
  end
  table.sort(list, function(a, b) return a.label < b.label end)
  for _, of in ipairs(list) do table.sort(of, function(a, b) return a.name < b.name end) end
  return list
end

local function number(v)
  if v == math.floor(v) and v < 1e15 then return format("%.0f", v) end
  return format("%.15g", v)
end

-- The text for Prometheus.
function Metrics:prometheus()
  local head, sample, finish = prometheus.new()
  for _, of in ipairs(by_label(self)) do
    local ns = of.unit == "ns"
    local scale = ns and 1e-9 or 1
    local metric = (of.label == "duration" and "perf_span_duration" or "perf_" .. of.label:gsub("[^%w_]+", "_"):gsub("_$", ""))
      .. (ns and "_seconds" or "")
    head(metric, "histogram", utf8.valid(of.label) .. " of a span, by its name")
    for _, one in ipairs(of) do
      local n = 0
      for i, bound in ipairs(self.bounds) do
        n = n + one.h.buckets[i]
        sample(metric .. "_bucket", n, "span", one.name, "le", number(bound * scale))
      end
      sample(metric .. "_bucket", one.h.n, "span", one.name, "le", "+Inf")
      sample(metric .. "_sum", number(one.h.sum * scale), "span", one.name)
      sample(metric .. "_count", one.h.n, "span", one.name)
    end
  end
  return finish()
end

-- Whether it is time to send them.
function Metrics:due(now) return now >= self.next_export and self.n > 0 end

-- The text to send, by an exporter that has metrics.
function Metrics:encode(exporter, resource)
  self.next_export = clock.now() + self.every
  local from, till = clock.text(self.anchor, self.since), clock.text(self.anchor, clock.now())
  local bounds = values.join(self.bounds, number)
  local function point(one)
    local buckets = values.join(one.h.buckets, function(n) return format('"%d"', n) end)
    return format('{"attributes":[{"key":"span.name","value":{"stringValue":%s}}],"startTimeUnixNano":"%s","timeUnixNano":"%s",'
      .. '"count":"%d","sum":%s,"bucketCounts":[%s],"explicitBounds":[%s]}', quote(one.name), from, till, one.h.n,
      number(one.h.sum), buckets, bounds)
  end
  return exporter:metrics(resource, values.join(by_label(self), function(of)
    return format('{"name":%s,"unit":%s,"histogram":{"aggregationTemporality":2,"dataPoints":[%s]}}',
      quote(of.label == "duration" and "perf.span.duration" or "perf." .. of.label),
      of.unit == "ns" and '"ns"' or '"1"', values.join(of, point))
  end))
end

return M
