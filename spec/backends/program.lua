--- A real program whose spans the specs of backends look for. It writes each sent span to stdout, as a line of JSON.
--
--     LUA spec/backends/program.lua otlp|zipkin URL SERVICE
local clock = require "perf.base.clock"
local json = require "perf.base.json"
local kit = require "testkit"
local perf = require "perf"

local kind, url, service = arg[1], arg[2], arg[3]
local tracer = assert(perf.tracer { service = service, events = "page-faults,task-clock",
  exporter = perf.exporter[kind] { endpoint = url, compression = kind == "otlp" and pcall(require, "zlib") and "gzip" or nil } })

local made = {}
local function keep(span)
  made[#made + 1] = span
  return span
end

local other = keep(tracer:start("linked", { kind = "producer" }))
other:finish()
tracer:span("outer", { kind = "server", links = { other:context() },
  attributes = { ["http.method"] = "GET", ["http.status_code"] = 200, share = 0.25, ok = true, text = 'grün "x"\n' } }, function()
  local outer = keep(tracer:current())
  outer:add_event("cache miss", { key = "k1" })
  kit.touch_pages(10)
  for i = 1, 3 do
    tracer:span("inner " .. i, { kind = "client" }, function()
      keep(tracer:current())
      kit.touch_pages(64 * i)
    end)
  end
  pcall(tracer.span, tracer, "fails", function()
    keep(tracer:current())
    error("out of stock", 0)
  end)
end)
assert(tracer:flush(20))

for _, span in ipairs(made) do
  local t = span:totable()
  t.start_ns, t.end_ns = clock.text(span.anchor, span.start), clock.text(span.anchor, span.start + span.duration)
  for i, e in ipairs(span.events or {}) do t.events[i].time_ns = clock.text(span.anchor, e.at) end
  t.linked = span.links and span.links[1].span_id
  print(json.encode(t))
end
tracer:close()
