-- The end of a request: a line about it if it was slow, and the end of its span.
local accounting = require "resty.perf.accounting"
local clock = require "perf.base.clock"
local log = require "resty.perf.log"
local slow = require "resty.perf.slow"
local spans = require "resty.perf.spans"
local waits = require "resty.perf.waits"

local function nothing() end

-- This makes no closure, since LuaJIT does not compile that, and calls of C functions are slow in its interpreter.
-- @param config the checked options of perf.start
-- @param names of routes, by number
-- @param r the request's address
-- @param[opt] route its number, if it was counted
-- @param start the time at which it began, in seconds
return function(config, names, r, route, start)
  local seconds = clock.seconds() - start
  local is_slow = config.is_slow and config.is_slow(seconds, route and accounting.finished or nothing)
  local has_span = route and config.spans
  if not (is_slow or has_span) then return end
  local counts = route and accounting.finished() or nil
  if has_span then spans.finish(r, names[route], counts, config.span_waits) end
  if not is_slow then return end
  local var = ngx.var
  local request = { seconds = seconds, route = names[route] or config.find(var.uri), method = var.request_method,
    uri = config.redact(var.request_uri), status = ngx.status, counts = counts,
    wait = route and waits.longest(slow.show) or nil }
  log.later(ngx.WARN, slow.line(request))
  slow.keep(config.dict, request)
end
