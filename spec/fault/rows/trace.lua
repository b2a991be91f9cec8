--- Rows of tracing: tracers, spans, exporters, lists that stay open. See inject.lua.
local perf = require "perf"

local rows, row, method = require "spec.fault.list"()
local function nothing() end

-- Spans are sent nowhere: the specs of the exporters test the network.
local options = { service = "shop", exporter = function() return true end, events = "page-faults:u,task-clock", metrics = true }
local function tracer() return perf.tracer(options) end

row("perf.tracer", { run = tracer, survives = "perf_event_open read ioctl" }) -- spans have no counts then
row("perf.tracer and a span", { survives = "perf_event_open read ioctl", raises = true, slow = true, run = function()
  local t, message, code = tracer()
  if not t then return nil, message, code end
  t:span("checkout", nothing)
  return t
end })
row("a root span without options", { survives = "perf_event_open read ioctl", run = function()
  local t, message, code = tracer()
  if not t then return nil, message, code end
  local span = t:start "checkout"
  span:set_attribute("paid", true)
  span:finish()
  return t:start("shipping"):finish() or t
end })
-- It needs another library's tracer: spec/live/trace/observe_spec.lua.
row("perf.observe", { run = function() return select(2, pcall(perf.observe, {})) end })
row("perf.exporter.otlp", { run = function() return perf.exporter.otlp { endpoint = "http://127.0.0.1:1" } end })
row("perf.exporter.zipkin", { run = function() return perf.exporter.zipkin { endpoint = "http://127.0.0.1:1" } end })

row("perf.keep", { run = function() return perf.keep "page-faults:u" end })
row("perf.help", { run = function() return require("perf.api.help").text "measure" end })
row("perf.release", { run = function() return perf.release() end })

-- A span that cannot count has no counts: the program never fails because of that.
local counting = "perf_event_open read ioctl"

local headers = { traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" }
local function rested(rested_tracer)
  for i = 1, 3 do rested_tracer:start("span " .. i):finish() end
  return rested_tracer
end
method("Tracer", function() return assert(tracer()) end, {
  start = { survives = counting, run = function(t)
    local span = t:start("checkout", { kind = "server", attributes = { a = 1, b = "two", c = { 1, 2 } }, parent = false })
    span:finish()
    return span
  end },
  span = { survives = counting, raises = true, run = function(t) return t:span("checkout", function() return true end) end },
  current = { survives = counting, run = function(t) return t:span("checkout", function() return t:current() end) end },
  extract = function(t) return t:extract(headers) end,
  inject = { survives = counting, run = function(t) return t:span("checkout", function() return t:inject {} end) end },
  poll = { survives = counting, run = function(t) return rested(t):poll() or true end },
  flush = { survives = counting, run = function(t) return rested(t):flush(1) end },
  stats = { survives = counting, run = function(t) return rested(t):stats() end },
  prometheus = { survives = counting, run = function(t) return rested(t):prometheus() end },
  close = { survives = counting, run = function(t) return rested(t):close() end, again = false },
})

local function span()
  local t = assert(tracer())
  local s = t:start "checkout"
  s.close = function()
    s:finish()
    t:close()
  end
  return s
end
local function silent()
  local t = assert(perf.tracer { service = "shop", exporter = false, sampler = 0, events = false })
  return t:start "checkout"
end
local some = require "perf.counts".plain({ { label = "dummy", value = 0 } }, 0, "software")
-- A new table for each class: a row belongs to one class.
local function on_a_span()
  return {
    add_event = function(s) return s:add_event("happened", { a = 1 }) end,
    add_link = function(s) return s:add_link({ trace_id = ("ab"):rep(16), span_id = ("cd"):rep(8) }, { a = 1 }) end,
    context = function(s) return s:context() end,
    finish = { run = function(s) return s:finish() end, survives = counting, again = false },
    inject = function(s) return s:inject {} end,
    is_recording = function(s) return s:is_recording() ~= nil end,
    pause = { run = function(s) return s:pause() end, survives = counting },
    record_error = function(s) return s:record_error("text", "traceback") end,
    resume = { run = function(s) return s:pause():resume() end, survives = counting },
    set_attribute = function(s) return s:set_attribute("key", { 1, "two" }) end,
    set_attributes = function(s) return s:set_attributes { a = 1, b = true } end,
    set_counts = function(s) return s:set_counts(some) end,
    set_name = function(s) return s:set_name "another" end,
    set_status = function(s) return s:set_status("error", "text") end,
    totable = { run = function(s) return s:totable() end, survives = counting },
  }
end
method("Silent", silent, on_a_span())
method("Span", span, on_a_span())
method("Span", span, {
  ["set_attribute perfevents"] = { survives = counting,
    run = function(s) return s:set_attribute("perfevents", "minor-faults:u") end },
})

local function event() return assert(perf.open "page-faults:u") end
-- The quick halves of Event:measure, which takes the slow way if they return nothing.
row("Event:begin", { setup = event, run = function(ev) return ev:begin() or true end, survives = "read ioctl" })
row("Event:since", { setup = event, survives = "read ioctl", run = function(ev)
  local value, enabled, running = ev:begin()
  return value and ev:since(value, enabled, running) or true
end })

return rows
