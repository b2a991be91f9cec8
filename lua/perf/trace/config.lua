-- The configuration of perf.tracer: its options, and the environment variables of OpenTelemetry's specification.
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"
local exporters = require "perf.exporter"
local checks = require "perf.api.check"
local propagation = require "perf.trace.propagation"
local sampler = require "perf.trace.sampler"
local settings = require "perf.exporter.settings"
local unsupported = require "perf.trace.unsupported"

local M = {}

local env = settings.text

local check, rows = checks.options "perf.tracer", checks.rows "perf.tracer"

local unpack = table.unpack or unpack

local function mistake(name, why) argument.raise(("option '%s': %s"):format(name, why), 1) end

-- The value of an option, or else of its variable in the environment.
local function number_of(row, given, config)
  if given ~= nil then return given end
  return settings.number(config.warnings, row, row.scale or 1, unpack(row.variables)) or row.otherwise
end

local function warn(config, text) config.warnings[#config.warnings + 1] = text end

local function exporter_of(options, config)
  if options.exporter ~= nil then
    local e = options.exporter
    if e == false or type(e) == "function" then return e end
    if e == true or type(e) == "table" and type(e.writer) ~= "function" then
      mistake("exporter", "what perf.exporter gives, a function, or false")
    end
    return e
  end
  local name = env "OTEL_TRACES_EXPORTER" or "otlp"
  if name == "none" then return false end
  if not exporters[name] then
    warn(config, ("OTEL_TRACES_EXPORTER=%s: there are otlp, zipkin, none; nothing is exported"):format(name))
    return false
  end
  local protocol = env "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL" or env "OTEL_EXPORTER_OTLP_PROTOCOL"
  if name == "otlp" and protocol and protocol ~= "http/json" then
    warn(config, ("OTEL_EXPORTER_OTLP_PROTOCOL=%s: only http/json is supported"):format(protocol))
  end
  local ok, e = pcall(exporters[name])
  if ok then return e end
  warn(config, ("the environment's exporter: %s; nothing is exported"):format(argument.why(e)))
  return false
end

local function sampler_of(options, config)
  local s, message
  if options.sampler ~= nil then
    s, message = sampler.of(options.sampler)
    if message then mistake("sampler", message) end
    return s
  end
  local name = env "OTEL_TRACES_SAMPLER"
  s, message = sampler.of(name, env "OTEL_TRACES_SAMPLER_ARG")
  if message and sampler.of(name) ~= false then -- the argument is wrong, not the name
    warn(config, ("OTEL_TRACES_SAMPLER_ARG: %s; it is ignored"):format(message))
    s, message = sampler.of(name)
  end
  if not message then return s end
  warn(config, "OTEL_TRACES_SAMPLER: " .. message)
end

local function propagators_of(options, config)
  local list = {}
  if options.propagators then
    for i, name in ipairs(options.propagators) do
      if not propagation.known(name) then
        mistake("propagators", ("unknown '%s'; there are %s"):format(tostring(name), propagation.names))
      end
      list[i] = name
    end
    return list
  end
  local text = env "OTEL_PROPAGATORS" or "tracecontext"
  for name in text:gmatch "[^,%s]+" do
    if propagation.known(name) then
      list[#list + 1] = name
    elseif name == "baggage" then
      warn(config, "OTEL_PROPAGATORS: 'baggage' is not supported; it is not passed on")
    elseif name ~= "none" then
      warn(config, ("OTEL_PROPAGATORS: unknown '%s'; there are %s"):format(name, propagation.names))
    end
  end
  return list
end

local function resource_of(options, config)
  local resource = { ["telemetry.sdk.name"] = "lua-perf", ["telemetry.sdk.language"] = "lua",
    ["telemetry.sdk.version"] = require "perf.version",
    ["process.runtime.name"] = rawget(_G, "jit") and jit.version or _VERSION }
  for key, v in pairs_of((settings.list(config.warnings, "OTEL_RESOURCE_ATTRIBUTES"))) do resource[key] = v end
  if env "OTEL_SERVICE_NAME" then resource["service.name"] = env "OTEL_SERVICE_NAME" end
  for key, v in pairs_of(options.resource or {}) do
    local kind = type(v)
    if type(key) ~= "string" or kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      mistake("resource", ("'%s' is not a string, number or boolean by name"):format(tostring(key)))
    end
    resource[key] = v
  end
  resource["service.name"] = options.service or resource["service.name"] or "unknown_service:lua"
  return resource
end

-- {buckets=, interval=}, both perhaps nil.
local function metrics_of(metrics, config)
  if metrics == true then metrics = {} end
  local last
  for i, bound in ipairs(metrics.buckets or {}) do
    if type(bound) ~= "number" or not (bound > (last or -math.huge) and bound < math.huge) then
      mistake("metrics", ("buckets must be increasing numbers, [%d] is not"):format(i))
    end
    last = bound
  end
  if metrics.buckets and not last then mistake("metrics", "buckets must be increasing numbers, there is none") end
  return { buckets = metrics.buckets, interval = number_of(rows.metrics.options[2], metrics.interval, config) }
end

-- The configuration of a tracer.
-- @tab[opt] options perf.tracer's
-- @return config; raises at the caller for a mistake in the options
function M.read(options)
  options = check(options, 1)
  if options.events == true then mistake("events", "a list of events, or false") end
  local config = { warnings = {} }
  local disabled = (env "OTEL_SDK_DISABLED" or "false"):lower()
  config.disabled = disabled == "true"
  if not config.disabled and disabled ~= "false" then
    settings.warn(config.warnings, "OTEL_SDK_DISABLED", disabled, "true or false expected; it is ignored")
  end
  config.exporter = not config.disabled and exporter_of(options, config)
  if type(config.exporter) == "table" then
    for _, text in ipairs(config.exporter.warnings or {}) do warn(config, text) end
  end
  config.sampler = sampler_of(options, config)
  config.propagators = propagators_of(options, config)
  config.resource = resource_of(options, config)
  config.events = options.events
  if options.metrics then config.metrics = metrics_of(options.metrics, config) end
  config.queue = number_of(rows.queue, options.queue, config)
  config.batch = number_of(rows.batch, options.batch, config)
  if config.batch > config.queue then
    if options.batch then mistake("batch", "more than 'queue'") end
    config.batch = config.queue
  end
  config.delay = number_of(rows.delay, options.delay, config)
  config.batch_bytes = options.batch_bytes
  config.retry = number_of(rows.retry, options.retry, config)
  config.limits = {} -- those of OpenTelemetry's specification
  for _, row in ipairs(rows.limits.options) do
    config.limits[row[1]] = number_of(row, (options.limits or {})[row[1]], config)
  end
  unsupported(config.warnings, config.metrics)
  if not config.disabled then settings.print_warnings(config.warnings) end
  return config
end

return M
