--- Exporters send finished spans to a backend.
--
--     perf.exporter.otlp {endpoint = "http://127.0.0.1:4318", headers = {authorization = "..."}, compression = "gzip"}
--     perf.exporter.zipkin {endpoint = "http://127.0.0.1:9411"}
--
-- A function is an exporter too: it gets arrays of plain tables, as from `Span:totable`.
-- @module perf.exporter
local late = require "perf.base.late"

local M = {}

for _, row in ipairs(require "perf.api.names") do
  for name in (row[3] == "exporter" and row[2] or ""):gmatch "%S+" do
    M[name] = function(options)
      local exporter = late("perf.exporter.client").new(name, options) -- not a tail call: errors name this function
      return exporter
    end
  end
end

return M
