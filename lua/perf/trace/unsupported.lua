-- Variables of OpenTelemetry's specification that concern a tracer but are not supported. A warning is given for each one that
-- is set.
local settings = require "perf.exporter.settings"

local always = {
  { "OTEL_CONFIG_FILE", "configuration files are not read" },
  { "OTEL_EXPERIMENTAL_CONFIG_FILE", "configuration files are not read" },
  { "OTEL_LOG_LEVEL", "the library writes no log" },
  { "OTEL_EXPORTER_OTLP_INSECURE", "the endpoint's scheme, http or https, decides" },
  { "OTEL_EXPORTER_OTLP_TRACES_INSECURE", "the endpoint's scheme, http or https, decides" },
  { "OTEL_EXPORTER_JAEGER_ENDPOINT", "Jaeger accepts OTLP: OTEL_EXPORTER_OTLP_ENDPOINT" },
  { "OTEL_EXPORTER_JAEGER_AGENT_HOST", "Jaeger accepts OTLP: OTEL_EXPORTER_OTLP_ENDPOINT" },
  { "OTEL_EXPORTER_JAEGER_AGENT_PORT", "Jaeger accepts OTLP: OTEL_EXPORTER_OTLP_ENDPOINT" },
}

-- For tracers that keep histograms.
local of_metrics = { { "OTEL_METRIC_EXPORT_TIMEOUT", "the exporter's timeout applies" },
  { "OTEL_METRICS_EXEMPLAR_FILTER", "histograms have no exemplars" } }
for _, name in ipairs { "ENDPOINT", "HEADERS", "TIMEOUT", "COMPRESSION", "PROTOCOL", "CERTIFICATE", "CLIENT_KEY",
  "CLIENT_CERTIFICATE" } do
  of_metrics[#of_metrics + 1] = { "OTEL_EXPORTER_OTLP_METRICS_" .. name, "metrics are sent as traces are" }
end
for _, name in ipairs { "TEMPORALITY_PREFERENCE", "DEFAULT_HISTOGRAM_AGGREGATION" } do
  of_metrics[#of_metrics + 1] = { "OTEL_EXPORTER_OTLP_METRICS_" .. name, "histograms are cumulative, with explicit buckets" }
end

local function look(list, warnings)
  for _, row in ipairs(list) do
    local value = settings.text(row[1])
    if value then settings.warn(warnings, row[1], value, "not supported: " .. row[2]) end
  end
end

-- Add a warning for each of them that is set.
-- @param metrics whether the tracer keeps histograms
return function(warnings, metrics)
  look(always, warnings)
  if not metrics then return end
  look(of_metrics, warnings)
  local exporter = settings.text "OTEL_METRICS_EXPORTER"
  if exporter and exporter ~= "otlp" then
    settings.warn(warnings, "OTEL_METRICS_EXPORTER", exporter, "not supported: metrics are sent by an exporter of OTLP")
  end
end
