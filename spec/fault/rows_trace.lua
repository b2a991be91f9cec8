--- Rows of tracing: tracers, exporters, threads. See inject.lua.
local perf = require "perf"

local rows, row = require "spec.fault.list"()
local function nothing() end

-- Spans go nowhere: what is sent over a network, the specs of the exporters look after.
local function tracer()
  return perf.tracer { service = "shop", exporter = function() return true end, events = "page-faults:u,task-clock" }
end

row("perf.tracer", { run = tracer, survives = "perf_event_open read ioctl" }) -- spans without counts
row("perf.tracer and a span", { survives = "perf_event_open", raises = true, slow = true, run = function()
  local t, message, code = tracer()
  if not t then return nil, message, code end
  t:span("checkout", nothing)
  return t
end })
-- It wants another library's tracer: spec/live/observe_spec.lua.
row("perf.observe", { run = function() return select(2, pcall(perf.observe, {})) end })
row("perf.exporter.otlp", { run = function() return perf.exporter.otlp { endpoint = "http://127.0.0.1:1" } end })
row("perf.exporter.zipkin", { run = function() return perf.exporter.zipkin { endpoint = "http://127.0.0.1:1" } end })

row("perf.keep", { run = function() return perf.keep "page-faults:u" end })
row("perf.release", { run = function() return perf.release() end })

local function event() return assert(perf.open "page-faults:u") end
-- The quick halves of Event:measure, which goes another way when they give nothing.
row("Event:begin", { setup = event, run = function(ev) return ev:begin() or true end, survives = "read ioctl" })
row("Event:since", { setup = event, survives = "read ioctl", run = function(ev)
  local value, enabled, running = ev:begin()
  return value and ev:since(value, enabled, running) or true
end })

return rows
