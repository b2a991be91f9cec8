--- Where finished spans go.
--
--     perf.exporter.otlp {endpoint = "http://127.0.0.1:4318", headers = {authorization = "..."}, compression = "gzip"}
--     perf.exporter.zipkin {endpoint = "http://127.0.0.1:9411"}
--
-- Options: endpoint (a URL of http or https), headers, timeout (seconds, 10), compression ("gzip" with lua-zlib, or "none"), tls
-- ({cafile=, capath=, certificate=, key=, verify=false}), transport ("luasocket", "luahttp", "ngx": found out unless given). What
-- is not given is taken from the environment: OTEL_EXPORTER_OTLP_ENDPOINT, ..._HEADERS, ..._TIMEOUT and the others.
--
-- A function is an exporter too: it gets arrays of plain tables, as span:totable() gives.
-- @module perf.exporter
local M = {}

-- (No tail calls: a mistake names the function that was called.)

--- OTLP over HTTP in JSON.
-- @tab[opt] options see above
-- @return exporter; raises for an unknown option
function M.otlp(options)
  local exporter = require("perf.exporter.otlp").new(options)
  return exporter
end

--- Zipkin's v2 JSON.
-- @tab[opt] options see above
-- @return exporter; raises for an unknown option
function M.zipkin(options)
  local exporter = require("perf.exporter.zipkin").new(options)
  return exporter
end

return M
