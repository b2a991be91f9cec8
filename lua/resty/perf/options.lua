-- The options of perf.start, checked.
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"
local events = require "resty.perf.worker_events"
local json = require "perf.base.json"
local log = require "resty.perf.log"
local checks = require "perf.api.check"
local route_names = require "resty.perf.route_names"
local routes = require "resty.perf.routes"
local sampler = require "resty.perf.sampling"
local slow = require "resty.perf.slow"
local spans = require "resty.perf.spans"

local M = {}

local check = checks.options "resty.perf.start"

M.sampler = sampler.new
M.TIMERS = "(timer)" -- the route of timers
M.NGINX = "(nginx)" -- that of blocked code between turns
-- The route of a timer if each function has its own. Its name is the place where the function begins.
function M.timer_route(fn)
  local info = debug.getinfo(fn, "S")
  return routes.valid(("%s %s:%d"):format(M.TIMERS, info.short_src, info.linedefined))
end
-- The routes of phases that belong to no request. nginx makes a request of its own for each run of such a phase.
M.apart = {}
for _, phase in ipairs { "ssl_client_hello", "ssl_certificate", "ssl_session_fetch", "ssl_session_store", "exit_worker" } do
  M.apart[phase] = "(" .. phase .. ")"
end

local function text_of(v)
  local ok, text = pcall(json.encode, v)
  return ok and text or "-"
end

-- The option `waits`. Returns whether waits are counted, and the duration in ns from which a wait is an event of the span.
local function waiting(waits)
  if waits == nil or type(waits) == "boolean" then return waits or false end
  if type(waits) ~= "number" or waits ~= waits or waits < 0 then argument.raise "waits: boolean or seconds expected" end
  return true, waits * 1e9
end

-- The option `blocked`: within what the watcher takes.
local function blocked(seconds)
  if seconds ~= nil and not (seconds >= 0.001 and seconds <= 1000) then
    argument.raise "blocked: seconds expected, from 0.001 to 1000"
  end
  return seconds
end

-- The option `heap`: shorter periods would make a worker that allocates much several times slower.
function M.heap_period(bytes)
  if bytes ~= 0 and bytes < 4096 then argument.raise "heap: 0, or at least 4096 bytes expected" end
  return bytes
end

-- Check the options of perf.start.
-- @return {events=, find=, names=, sampler=, every=, redact=, is_slow=, slow=, spans=, waits=, span_waits=, blocked=, timers=,
-- heap=, reports=, dict=, dict_name=, mark=}: sampler is of resty.perf.sampling; slow: the seconds from which on a request is
-- slow, or nil; reports: whether the end of a request is reported; mark: identifies the configuration
function M.check(opts)
  opts = check(opts, 1)
  local dict = ngx.shared[opts.dict]
  if not dict then argument.raisef("dict: nginx.conf has no `lua_shared_dict %s 10m;`", tostring(opts.dict)) end
  local labels = events.check(opts.events)
  local c = { events = opts.events, dict = dict, dict_name = opts.dict }
  local configured
  c.find, configured = routes.new(opts.routes, function(message)
    log.write(ngx.ERR, "resty.perf: routes: ", message, "; such requests are counted as ", routes.OTHER)
  end)
  c.sampler = sampler.new(opts.sample, nil, log.once("trust", "the header then selects no request"))
  for name in pairs_of(type(opts.sample) == "table" and opts.sample.routes or {}) do configured[routes.valid(name)] = true end
  configured[M.TIMERS], configured[M.NGINX] = true, true
  for _, route in pairs_of(M.apart) do configured[route] = true end
  c.names = route_names.new(dict, configured)
  c.peers = route_names.new(dict, {}, "peer ")
  c.shown = { route = c.names.shown, peer = c.peers.shown }
  c.every = type(opts.sample) == "table" and (opts.sample.every or 1) or opts.sample
  if type(opts.sample) == "table" and opts.sample.header and not c.sampler.header then
    log.write(ngx.WARN, "resty.perf: sample: the header ", opts.sample.header, " selects no request without `secret` or `trust`")
  end
  c.redact = slow.redacting(opts.redact, log.once("redact", "such a URI is shown as (redacted)"))
  if opts.slow ~= nil then c.is_slow, c.slow = slow.new(opts.slow, labels) end
  if opts.spans ~= nil then c.spans = spans.check(opts.spans) end
  c.waits, c.span_waits = waiting(opts.waits)
  c.blocked = blocked(opts.blocked)
  c.timers, c.heap = opts.timers, M.heap_period(opts.heap)
  c.reports = c.is_slow ~= nil or c.spans ~= nil
  c.mark = ngx.crc32_short(text_of(opts.events) .. text_of(opts.sample) .. (opts.heap > 0 and opts.heap or ""))
  return c
end

local changeable = { events = "string", sample = "number", heap = "number" }

-- Check options that are changed while nginx runs.
-- @param opts {events=, sample=, heap=}
function M.change(opts)
  check(opts, 1)
  for k, v in pairs_of(opts) do
    local want = changeable[k]
    if not want then argument.raisef("'%s' cannot be changed while nginx runs", k) end
    if type(v) ~= want then argument.raisef("%s: %s expected, got %s", k, want, type(v)) end
  end
  events.check(opts.events)
  sampler.new(opts.sample)
  if opts.heap then M.heap_period(opts.heap) end
end

return M
