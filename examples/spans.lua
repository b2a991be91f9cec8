--- Spans with their cost. If a collector, Jaeger or Zipkin runs, they are sent there; otherwise they are printed.
--
--     luajit examples/spans.lua
--     OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 luajit examples/spans.lua
--     OTEL_TRACES_EXPORTER=zipkin luajit examples/spans.lua
local perf = require "perf"

local function print_spans(spans)
  for _, s in ipairs(spans) do
    local words = {}
    for label, total in pairs(s.counts) do
      local own = s.self_counts[label]
      local inner = own and own ~= total and (" (self %s)"):format(tostring(own)) or ""
      words[#words + 1] = ("%s %s%s"):format(label, tostring(total), inner)
    end
    table.sort(words)
    print(("%-10s %8.1f us  %s%s"):format(s.name, s.duration_ns / 1e3, table.concat(words, ", "),
      s.message and "  failed: " .. s.message or ""))
  end
end

local elsewhere = os.getenv "OTEL_EXPORTER_OTLP_ENDPOINT" or os.getenv "OTEL_TRACES_EXPORTER"
local tracer, message = perf.tracer { service = "shop", events = "task-clock,page-faults:u",
  exporter = not elsewhere and print_spans or nil }
if not tracer then
  io.stderr:write("spans: ", message, "\n")
  os.exit(1)
end

local function price(items)
  local sum = 0
  for i = 1, items do sum = sum + #("x"):rep(1000 * i) end
  return sum
end

local function handle(headers, items)
  local parent = tracer:extract(headers)
  return tracer:span("checkout", { parent = parent, kind = "server", attributes = { items = items } }, function()
    local sum = tracer:span("price", price, items)
    pcall(tracer.span, tracer, "pay", function()
      if items > 300 then error("over the limit", 0) end
    end)
    local waiting = tracer:start "delivery"
    waiting:pause() -- the work of others meanwhile does not belong to this span
    price(100)
    waiting:resume()
    waiting:finish()
    return sum
  end)
end

-- The headers that a caller's tracer adds to its requests.
local headers = { traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" }
for _, items in ipairs { 10, 400 } do handle(headers, items) end

local ok, why = tracer:flush(5)
if not ok then print("not all was sent: " .. why) end
if elsewhere then print(tracer) end
