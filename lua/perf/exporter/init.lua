--- Exporters send finished spans to a backend.
--
--     perf.exporter.otlp {endpoint = "http://127.0.0.1:4318", headers = {authorization = "..."}, compression = "gzip"}
--     perf.exporter.zipkin {endpoint = "http://127.0.0.1:9411"}
--
-- A function is an exporter too: it gets arrays of plain tables, as from `Span:totable`.
-- @module perf.exporter
local M = {}

local function new(...) return require("perf.exporter.client").new(...) end

-- (No tail calls, so that an error names the function that was called.)

--- OTLP over HTTP in JSON, for the OpenTelemetry collector, Jaeger, Tempo and others at port 4318. Missing options are taken from
-- the environment: OTEL_EXPORTER_OTLP_ENDPOINT, ..._HEADERS, ..._TIMEOUT and the others.
-- @tparam[opt] table options
-- @treturn table exporter
-- @raise for an unknown option or an invalid URL
function M.otlp(options)
  local exporter = new(require "perf.exporter.otlp", "otlp", options)
  return exporter
end

--- Zipkin's v2 JSON, for Zipkin and Jaeger at port 9411.
-- @tparam[opt] table options
-- @treturn table exporter
-- @raise for an unknown option or an invalid URL
function M.zipkin(options)
  local exporter = new(require "perf.exporter.zipkin", "zipkin", options)
  return exporter
end

return M
