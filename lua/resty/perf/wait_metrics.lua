-- Prometheus metrics of waits, of the wall time of requests, and of turns that blocked a worker.
local memo = require "perf.base.memo"
local pairs_of = require "perf.base.pairs"
local unpack = table.unpack or unpack

local M = {}

-- Exponents of the bounds, in ns: from 16 us to 68 s.
local BOUNDS = { 14, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 34, 36 }

local function seconds(ns) return (("%.9f"):format(ns / 1e9):gsub("%.?0+$", "")) end

-- A value as text; nanoseconds become seconds.
function M.number(v, unit)
  if unit == "ns" then return seconds(v) end
  return v == math.floor(v) and ("%.0f"):format(v) or ("%.17g"):format(v)
end
local number = M.number

-- The label of the bound 2^e - 1, by its exponent e; for nanoseconds, and for other units.
local LE = {}
for _, unit in ipairs { "ns", "" } do
  LE[unit] = memo(function(e) return ('le="%s"'):format(number(2 ^ e - 1, unit)) end)
end

-- Write one histogram. It has a bucket for each number of bits; the output is cumulative, up to 2^e - 1 for each exponent e.
-- @param line of perf.exporter.prometheus
-- @param labels a text, of the same
-- @param buckets nil: only their count and sum are known
function M.histogram(line, name, unit, labels, buckets, bounds, count, sum)
  local below, b, le, metric = 0, 0, LE[unit == "ns" and unit or ""], name .. "_bucket"
  for _, e in ipairs(buckets and bounds or {}) do
    while b <= e do
      below, b = below + (buckets[b] or 0), b + 1
    end
    line(metric, number(below), labels, le[e])
  end
  line(metric, number(count), labels, 'le="+Inf"')
  line(name .. "_sum", number(sum, unit), labels)
  line(name .. "_count", number(count), labels)
end

-- Adds up the rows with the same labels.
-- @param without the set of labels that are left out
-- @param[opt] pause called between two rows
local function sum_by(rows, all, without, pause)
  local sums, by_text, labels = {}, {}, {}
  for _, label in ipairs(all) do
    if not without[label] then labels[#labels + 1] = label end
  end
  for _, row in ipairs(rows) do
    local parts = {}
    for i, label in ipairs(labels) do parts[i] = row[label] end
    local text = table.concat(parts, "\0")
    local sum = by_text[text]
    if not sum then
      sum = { labels = {}, count = 0, lasted_ns = 0, waiting_ns = 0, late_ns = 0, histogram = {} }
      for i, label in ipairs(labels) do sum.labels[2 * i - 1], sum.labels[2 * i] = label, parts[i] end
      by_text[text], sums[#sums + 1] = sum, sum
    end
    for _, field in ipairs { "count", "lasted_ns", "waiting_ns", "late_ns" } do sum[field] = sum[field] + row[field] end
    for b, n in pairs_of(row.histogram) do sum.histogram[b] = (sum.histogram[b] or 0) + n end
    if pause then pause() end
  end
  return sums
end

local function histograms(head, labels, line, name, help, sums, bounds)
  head(name, "histogram", help)
  for _, sum in ipairs(sums) do
    M.histogram(line, name, "ns", labels(unpack(sum.labels)), sum.histogram, bounds, sum.count, sum.lasted_ns)
  end
end

-- Write the metrics of waits.
-- @param head, sample, labels, line of perf.exporter.prometheus
-- @param found of resty.perf.shared_waits.read
-- @param shape of resty.perf.metrics
-- @param[opt] pause called now and then
function M.write(head, sample, labels, line, found, shape, pause)
  local bounds = shape.times or BOUNDS
  local function sums(rows, ...) return sum_by(rows, { ... }, shape.without, pause) end
  histograms(head, labels, line, "request_duration_seconds", "Wall time of requests, from their first Lua to their end.",
    sums(found.requests, "route", "status", "method"), bounds)
  histograms(head, labels, line, "wait_duration_seconds", "How long calls that yield lasted.",
    sums(found.waits, "route", "kind", "peer"), bounds)
  head("waiting_seconds_total", "counter", "Time for which requests waited there and did nothing else.")
  for _, sum in ipairs(sums(found.waits, "route", "phase", "kind", "peer", "line")) do
    sample("waiting_seconds_total", seconds(sum.waiting_ns), unpack(sum.labels))
  end
  head("late_seconds_total", "counter", "Time for which requests could have gone on, but the worker was busy.")
  for _, sum in ipairs(sums(found.waits, "route", "phase")) do
    sample("late_seconds_total", seconds(sum.late_ns), unpack(sum.labels))
  end
end

-- The same for the result of resty.perf.blocked.read.
function M.write_blocked(head, sample, found)
  head("blocked_turns_total", "counter", "Turns of Lua that were longer than the limit and blocked the worker's loop.")
  for _, r in ipairs(found.routes) do
    sample("blocked_turns_total", number(r.count), "route", r.route)
  end
  head("blocked_seconds_total", "counter", "The time for which these turns lasted.")
  for _, r in ipairs(found.routes) do sample("blocked_seconds_total", seconds(r.lasted_ns), "route", r.route) end
end

return M
