-- The configuration of perf.tracer: its options, and the environment variables of OpenTelemetry's specification.
local argument = require "perf.base.argument"
local lines = require "perf.base.lines"
local pairs_of = require "perf.base.pairs"
local exporters = require "perf.exporter"
local checks = require "perf.api.check"
local copy = require "perf.base.copy"
local declared = require "perf.api.options"["perf.tracer"]
local keys_of = require "perf.base.keys"
local sampler = require "perf.trace.sampler"
local settings = require "perf.exporter.settings"
local unsupported = require "perf.trace.unsupported"

local M = {}

local env = settings.text

local function wrong_exporter(e)
  if e == true or type(e) == "table" and type(e.writer) ~= "function" then
    return "an exporter of perf.exporter, a function, or false"
  end
end

local function wrong_resource(attributes)
  for key, v in pairs_of(attributes) do
    local kind = type(v)
    if type(key) ~= "string" or kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      return ("'%s' is not a string, number or boolean by name"):format(tostring(key))
    end
  end
end

local rows = checks.rows "perf.tracer"
local check = checks.options("perf.tracer", { exporter = wrong_exporter, resource = wrong_resource,
  events = function(events) return events == true and "a list of events, or false" or nil end,
  sampler = function(s) return (select(2, sampler.of(s))) end })

local function mistake(name, why) argument.raise(("option '%s': %s"):format(name, why), 1) end

local function warn(config, text) config.warnings[#config.warnings + 1] = text end

-- The exporter that the environment names; false if there is none.
local function exporter_of(config)
  local name = env "OTEL_TRACES_EXPORTER" or "otlp"
  if name == "none" then return false end
  if not exporters[name] then
    warn(config, ("OTEL_TRACES_EXPORTER=%s: unknown exporter; there are %s, none; nothing is exported"):format(name,
      table.concat(keys_of(exporters), ", ")))
    return false
  end
  local ok, e = pcall(exporters[name])
  if ok then return e end
  warn(config, ("the environment's exporter: %s; nothing is exported"):format(argument.why(e)))
  return false
end

-- The sampler that the environment names; nil for the usual one.
local function sampler_of(config)
  local name = env "OTEL_TRACES_SAMPLER"
  local s, message = sampler.of(name, env "OTEL_TRACES_SAMPLER_ARG")
  if message and sampler.of(name) ~= false then -- the argument is wrong, not the name
    warn(config, ("OTEL_TRACES_SAMPLER_ARG: %s; it is ignored"):format(message))
    s, message = sampler.of(name)
  end
  if not message then return s end
  warn(config, "OTEL_TRACES_SAMPLER: " .. message)
end

local function propagators_of(config)
  local list = {}
  for name in (env "OTEL_PROPAGATORS" or "tracecontext"):gmatch "[^,%s]+" do
    local wrong = checks.wrong(rows.propagators, { name })
    if not wrong then
      list[#list + 1] = name
    elseif name == "baggage" then
      warn(config, "OTEL_PROPAGATORS: 'baggage' is not supported; it is not passed on")
    elseif name ~= "none" then
      warn(config, "OTEL_PROPAGATORS: " .. wrong)
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
  for key, v in pairs_of(options.resource or {}) do resource[key] = v end
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
  if metrics.buckets and not last then mistake("metrics", "buckets must be increasing numbers, at least one") end
  return settings.fill(config.warnings, rows.metrics.options, metrics)
end

-- The configuration of a tracer.
-- @tab[opt] options perf.tracer's
-- @return config; raises at the caller for a mistake in the options
function M.read(options)
  options = check(options, 1)
  local config = { warnings = setmetatable({}, lines), events = options.events, batch_bytes = options.batch_bytes }
  local disabled = (env "OTEL_SDK_DISABLED" or "false"):lower()
  config.disabled = disabled == "true"
  if not config.disabled and disabled ~= "false" then
    settings.warn(config.warnings, "OTEL_SDK_DISABLED", disabled, "true or false expected; it is ignored")
  end
  config.exporter = not config.disabled and options.exporter
  if config.exporter == nil then config.exporter = exporter_of(config) end
  if type(config.exporter) == "table" then
    for _, text in ipairs(config.exporter.warnings or {}) do warn(config, text) end
  end
  if options.sampler ~= nil then config.sampler = sampler.of(options.sampler) else config.sampler = sampler_of(config) end
  config.propagators = options.propagators and copy(options.propagators) or propagators_of(config)
  config.resource = resource_of(options, config)
  if options.metrics then config.metrics = metrics_of(options.metrics, config) end
  local wanted = options.batch
  settings.fill(config.warnings, declared, options)
  if options.batch > options.queue and wanted then mistake("batch", "more than 'queue'") end
  config.queue, config.batch = options.queue, math.min(options.batch, options.queue)
  config.delay, config.retry = options.delay, options.retry
  config.limits = settings.fill(config.warnings, rows.limits.options, options.limits or {}) -- as OpenTelemetry specifies them
  unsupported(config.warnings, config.metrics)
  if not config.disabled then settings.print_warnings(config.warnings) end
  return config
end

return M
