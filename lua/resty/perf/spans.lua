-- Spans of requests, with their counts, for a tracer of perf.tracer.
--
-- A request's span begins when the request becomes known and ends in its log phase. Its parent comes from the client's header
-- `traceparent` (or B3). The tracer itself counts nothing (events = false), since it would count whole threads; the counts come
-- from resty.perf.accounting.
local argument = require "perf.base.argument"
local clock = require "perf.base.clock"
local ffi = require "ffi"
local waits = require "resty.perf.waits"

local M = {}

local open = {} -- spans by the address of their request

local function key(r) return tonumber(ffi.cast("uintptr_t", r)) end

local function header(name) return ngx.var["http_" .. name:gsub("-", "_")] end

-- Raise an error unless this is a tracer without events.
-- @return the tracer
function M.check(tracer)
  if type(tracer) ~= "table" or type(tracer.start) ~= "function" then
    argument.raise "spans: perf.tracer{events=false} expected"
  end
  if tracer.events ~= false then argument.raise "spans: the tracer counts whole threads: perf.tracer{events=false}" end
  return tracer
end

-- Begin the span of a request that is counted.
-- @param start the time at which it began, in seconds
function M.begin(tracer, r, route, start)
  open[key(r)] = tracer:start(route, { kind = "server", parent = tracer:extract(header) or false,
    start_ns = start * 1e9 })
end

-- The span of a main request, or nil.
function M.current(r) return open[key(r)] end

-- The waits of the request that was finished last, as events.
local function add_waits(span, least)
  local list, wall = waits.of_last()
  if not wall then return end
  local now = clock.seconds() * 1e9
  span:set_attribute("perf.wall_ns", wall)
  for _, wait in ipairs(list) do
    if wait.lasted_ns >= least and wait.site.kind ~= "nginx" then
      local site = wait.site
      span:add_event("wait " .. site.kind, { ["wait.duration_ns"] = wait.lasted_ns, ["wait.late_ns"] = wait.late_ns,
        ["wait.phase"] = site.phase, ["wait.peer"] = site.peer ~= "" and site.peer or nil,
        ["wait.line"] = wait.text ~= "" and wait.text or nil }, math.floor(now - wait.from_end_ns))
    end
  end
end

-- Finish the span of a request.
-- @param counts its Counts
-- @param[opt] least the duration in ns from which on a wait is an event of the span; nil: none
function M.finish(r, route, counts, least)
  local k = key(r)
  local span = open[k]
  if not span then return end
  open[k] = nil
  local var, status = ngx.var, ngx.status
  span:set_name(route)
  span:set_attributes { ["http.request.method"] = var.request_method, ["url.path"] = var.uri, ["http.route"] = route,
    ["http.response.status_code"] = status, ["client.address"] = var.remote_addr }
  span:set_counts(counts)
  if least then add_waits(span, least) end
  if status >= 500 then span:set_status "error" end
  span:finish()
end

-- Forget all open spans.
function M.forget() open = {} end

return M
