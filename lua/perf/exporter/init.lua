--- Exporters send finished spans to a backend.
--
--     perf.exporter.otlp {endpoint = "http://127.0.0.1:4318", headers = {authorization = "..."}, compression = "gzip"}
--     perf.exporter.zipkin {endpoint = "http://127.0.0.1:9411"}
--
-- A function is an exporter too: it gets arrays of plain tables, as from `Span:totable`.
-- @module perf.exporter
local late = require "perf.base.late"

local M = {}

for _, group in ipairs(require "perf.api") do
  for _, row in ipairs(group.name == "exporter" and group or {}) do
    M[row[1]] = function(options)
      local exporter = late("perf.exporter.client").new(row[1], options) -- not a tail call: errors name this function
      return exporter
    end
  end
end

return M
