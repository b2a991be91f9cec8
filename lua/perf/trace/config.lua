--- What perf.tracer is told, by its options and by the environment variables that OpenTelemetry's specification names.
-- @module perf.trace.config
local every = require "perf.every"
local exporters = require "perf.exporter"
local extension = require "perf.extension"
local list_of = require "perf.exporter.base".list_of
local propagation = require "perf.trace.propagation"
local sampler = require "perf.trace.sampler"

local M = {}

local known = { service = "string", exporter = "table|function|boolean", events = "string|table|boolean", resource = "table",
  sampler = "string|number|function", propagators = "table", metrics = "boolean|table", queue = "number", batch = "number",
  delay = "number", retry = "number" }

local function env(name)
  local v = os.getenv(name)
  return v ~= "" and v or nil
end

local function whole(name, v, low)
  if v ~= math.floor(v) or v < low or v > 2 ^ 24 then
    error(("bad argument #1 (option '%s': a whole number from %d)"):format(name, low), 5)
  end
  return v
end

local function number_of(options, name, variable, default, scale)
  if options[name] then return options[name] end
  local v = tonumber(env(variable) or "")
  if not v or v < 0 then return default end
  return scale and v / scale or v
end

-- Says what a variable of the environment asks for that is not there: nobody's program stops for it.
local function warn(config, text) config.warnings[#config.warnings + 1] = text end

local function exporter_of(options, config)
  if options.exporter ~= nil then
    local e = options.exporter
    if e == false or type(e) == "function" then return e end
    if e == true or type(e) == "table" and type(e.writer) ~= "function" then
      error("bad argument #1 (option 'exporter': what perf.exporter gives, a function, or false)", 4)
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
    warn(config, ("OTEL_EXPORTER_OTLP_PROTOCOL=%s: http/json is what is spoken here"):format(protocol))
  end
  local ok, e = pcall(exporters[name])
  if ok then return e end
  warn(config, ("the environment's exporter: %s; nothing is exported"):format(tostring(e)))
  return false
end

local function sampler_of(options, config)
  local s, message
  if options.sampler ~= nil then
    s, message = sampler.of(options.sampler)
    if message then error("bad argument #1 (option 'sampler': " .. message .. ")", 4) end
    return s
  end
  s, message = sampler.of(env "OTEL_TRACES_SAMPLER", env "OTEL_TRACES_SAMPLER_ARG")
  if not message then return s end
  warn(config, "OTEL_TRACES_SAMPLER: " .. message)
end

local function propagators_of(options, config)
  local list = {}
  if options.propagators then
    for i, name in ipairs(options.propagators) do
      if not propagation.known(name) then
        error(("bad argument #1 (option 'propagators': unknown '%s'; there are %s)"):format(tostring(name), propagation.names), 4)
      end
      list[i] = name
    end
    return list
  end
  local text = env "OTEL_PROPAGATORS" or "tracecontext"
  for name in text:gmatch "[^,%s]+" do
    if propagation.known(name) then
      list[#list + 1] = name
    elseif name ~= "none" and name ~= "baggage" then
      warn(config, ("OTEL_PROPAGATORS: unknown '%s'; there are %s"):format(name, propagation.names))
    end
  end
  return list
end

local function resource_of(options)
  local resource = { ["telemetry.sdk.name"] = "lua-perf", ["telemetry.sdk.language"] = "lua",
    ["telemetry.sdk.version"] = require "perf.version",
    ["process.runtime.name"] = rawget(_G, "jit") and jit.version or _VERSION }
  for key, v in every(list_of(env "OTEL_RESOURCE_ATTRIBUTES")) do resource[key] = v end
  if env "OTEL_SERVICE_NAME" then resource["service.name"] = env "OTEL_SERVICE_NAME" end
  for key, v in every(options.resource or {}) do
    local kind = type(v)
    if type(key) ~= "string" or kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      error(("bad argument #1 (option 'resource': '%s' is not a string, number or boolean by name)"):format(tostring(key)), 4)
    end
    resource[key] = v
  end
  resource["service.name"] = options.service or resource["service.name"] or "unknown_service:lua"
  return resource
end

--- The configuration of a tracer.
-- @tab[opt] options perf.tracer's
-- @return config; raises at the caller's caller for what no program should say
function M.read(options)
  options = extension.options(known, options, 1, 4)
  if options.events == true then error("bad argument #1 (option 'events': a list of events, or false)", 3) end
  local config = { warnings = {} }
  config.disabled = (env "OTEL_SDK_DISABLED" or ""):lower() == "true"
  config.exporter = not config.disabled and exporter_of(options, config)
  config.sampler = sampler_of(options, config)
  config.propagators = propagators_of(options, config)
  config.resource = resource_of(options)
  config.events, config.metrics = options.events, options.metrics
  config.queue = whole("queue", number_of(options, "queue", "OTEL_BSP_MAX_QUEUE_SIZE", 2048), 1)
  config.batch = whole("batch", number_of(options, "batch", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512), 1)
  if config.batch > config.queue then
    if options.batch then error("bad argument #1 (option 'batch': more than 'queue')", 3) end
    config.batch = config.queue
  end
  config.delay = number_of(options, "delay", "OTEL_BSP_SCHEDULE_DELAY", 5, 1e3)
  config.retry = options.retry or 300
  config.limits = { attributes = number_of({}, "", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", 128),
    events = number_of({}, "", "OTEL_SPAN_EVENT_COUNT_LIMIT", 128) }
  return config
end

return M
