-- Prometheus text exposition of the totals of all workers.
--
-- Each event has a separate metric, since units differ: page-faults is lua_perf_request_page_faults; task-clock, which counts
-- nanoseconds, is lua_perf_request_task_clock_seconds. The accounting's histograms have a bucket for every number of bits; every
-- second one is shown, cumulated up to 4^k - 1. The bounds are the same for every route and at all times.
local argument = require "perf.base.argument"
local keys_of = require "perf.base.keys"
local pairs_of = require "perf.base.pairs"
local utf8 = require "perf.base.utf8"
local prometheus = require "perf.exporter.prometheus"
local wait_metrics = require "resty.perf.wait_metrics"

local number = wait_metrics.number

local M = {}

-- Exponents of the bounds that are shown: 2^e - 1.
local COUNTS = { 0, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31 }
local TIMES = { 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34 }

-- The sums for whole workers, with the text for an event and that for wall time. At any time, worker = unattributed + running +
-- the sums of all routes.
local WORKER = {
  { "unattributed", "counter", " that belongs to no request.",
    "Wall time in which no request's Lua ran: of nginx itself, and the time for which the workers slept." },
  { "running", "gauge", " of requests that have not ended.", "Wall time in which Lua ran, of requests that have not ended." },
  { "worker", "counter", " of the workers in total.", "Wall time of the workers in total, with the time for which they slept." },
}

-- The part of a metric's name that stands for an event.
function M.metric(label, unit)
  local name = label:gsub("[^%w]+", "_"):gsub("^_+", ""):gsub("_+$", "")
  return name:lower() .. (unit == "ns" and "_seconds" or "")
end

local USED = { route = true, phase = true, le = true, status = true, method = true, kind = true, peer = true, line = true }
local OPTIONAL = { phase = true, status = true, method = true, kind = true, peer = true, line = true }

-- The histograms' bounds are powers of two in nanoseconds. Returns the exponents of the next greater ones for bounds in seconds.
local function exponents(bounds)
  local list, last = {}, -1
  for i = 1, #bounds do
    local s = bounds[i]
    if type(s) ~= "number" or not (s > 0 and s < 1e9) then argument.raisef("buckets: %s is not a time", tostring(s)) end
    local e = math.ceil(math.log(s * 1e9 + 1) / math.log(2))
    if e < last then argument.raise "buckets: the bounds must ascend" end
    if e > last then list[#list + 1], last = e, e end
  end
  return list
end

-- Check the options of perf.metrics for the text.
-- @param opts {prefix=, labels=, without=, buckets=}
-- @return {prefix=, constant=, without=, times=}, the parameter of `text`
function M.shape(opts)
  local shape = { prefix = (opts.prefix or "lua_perf") .. "_", constant = {}, without = {} }
  if not shape.prefix:find "^[%a_:][%w_:]*$" then argument.raisef("prefix: '%s' is not a metric's name", shape.prefix) end
  for _, name in ipairs(keys_of(opts.labels or {})) do
    local text = opts.labels[name]
    if type(name) ~= "string" or not name:find "^[%a_][%w_]*$" or USED[name] or type(text) ~= "string" then
      argument.raisef("labels: '%s' is not a label's name, or is in use, or its value is not a string", tostring(name))
    end
    table.insert(shape.constant, name)
    table.insert(shape.constant, (utf8.valid(text)))
  end
  for _, name in ipairs(opts.without or {}) do
    if not OPTIONAL[name] then argument.raisef("without: '%s' is unknown; phase, status, method, kind, peer and line are known",
      tostring(name)) end
    shape.without[name] = true
  end
  shape.times = opts.buckets and exponents(opts.buckets)
  return shape
end

local DEFAULT = M.shape {}

-- The text.
-- @param totals the result of resty.perf.totals: {events={{label=, unit=, why=}}, phases=, routes={{name=, requests=,
-- phases={[phase]={[row]=}}, histograms={[row]={[bucket]=}}}}, unattributed={[row]=}, running=, worker=, abandoned=, refused=,
-- seen=, dictionary={capacity=, free=}}; row 0 is wall time. waits, blocked: of
-- resty.perf.shared_waits and resty.perf.blocked, if they are counted
-- @param[opt] emit function(text), called for each part of the text; the last one is returned
-- @param[opt] shape a result of M.shape
-- @param[opt] pause called now and then
function M.text(totals, emit, shape, pause)
  shape = shape or DEFAULT
  local head, sample, finish, labels, line = prometheus.new(emit, shape.prefix, shape.constant, pause)

  head("requests_total", "counter", "Requests and timers that were counted.")
  for _, route in ipairs(totals.routes) do
    sample("requests_total", number(route.requests), "route", route.name)
  end
  head("seen_requests_total", "counter", "Requests that hooks have seen, also those that sampling left out; without timers.")
  sample("seen_requests_total", number(totals.seen))
  head("abandoned_turns_total", "counter", "Turns that were found open by the next one, mostly because of an error.")
  sample("abandoned_turns_total", number(totals.abandoned))
  head("dict_refused_total", "counter", "Writes that the lua_shared_dict refused, mostly because it is full.")
  sample("dict_refused_total", number(totals.refused))
  for name, bytes in pairs_of(totals.dictionary or {}) do
    head(("dict_%s_bytes"):format(name), "gauge", "Bytes of the lua_shared_dict.")
    sample(("dict_%s_bytes"):format(name), number(bytes))
  end

  for row = 0, #totals.events do
    local event = row == 0 and { label = "lua", unit = "ns" } or totals.events[row]
    local name, unit = M.metric(event.label, event.unit), event.unit
    local what = row == 0 and "Wall time in which Lua ran" or event.label
    if not event.why then
      local request, phase = "request_" .. name, "phase_" .. name .. "_total"
      local bounds = unit == "ns" and (shape.times or TIMES) or COUNTS
      head(request, "histogram", what .. " by request.")
      for _, route in ipairs(totals.routes) do
        local sum = 0
        for _, counts in pairs_of(route.phases) do sum = sum + (counts[row] or 0) end
        wait_metrics.histogram(line, request, unit, labels("route", route.name), route.histograms[row], bounds, route.requests,
          sum)
      end
      if not shape.without.phase then head(phase, "counter", what .. " by phase.") end
      for _, route in ipairs(shape.without.phase and {} or totals.routes) do
        for _, p in ipairs(totals.phases) do
          local counts = route.phases[p]
          if counts then sample(phase, number(counts[row] or 0, unit), "route", route.name, "phase", p) end
        end
      end
      for _, rest in ipairs(WORKER) do
        local metric = ("%s_%s%s"):format(rest[1], name, rest[2] == "counter" and "_total" or "")
        head(metric, rest[2], row == 0 and rest[4] or what .. rest[3])
        sample(metric, number(totals[rest[1]][row] or 0, unit))
      end
    end
  end
  if totals.waits then wait_metrics.write(head, sample, labels, line, totals.waits, shape, pause) end
  if totals.blocked then wait_metrics.write_blocked(head, sample, totals.blocked) end
  return finish()
end

return M
