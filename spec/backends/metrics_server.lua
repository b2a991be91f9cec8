--- A program that Prometheus scrapes: makes spans of known cost and answers every request with its histograms.
--
--     LUA spec/backends/metrics_server.lua PORT SECONDS RUN
local kit = require "testkit"
local perf = require "perf"
local socket = require "socket"

local tracer = assert(perf.tracer { events = "page-faults", exporter = false, metrics = { buckets = { 1, 100, 10000 } } })
for _ = 1, 5 do tracer:span(('work "a" %s'):format(arg[3]), kit.touch_pages, 64) end
local text = tracer:prometheus()
io.stdout:write(text)
io.stdout:flush()

local server = assert(socket.bind("127.0.0.1", tonumber(arg[1])))
server:settimeout(0.5)
local till = socket.gettime() + tonumber(arg[2])
while socket.gettime() < till do
  local client = server:accept()
  if client then
    client:settimeout(2)
    repeat local line = client:receive "*l" until not line or line == ""
    client:send(("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n"
      .. "Connection: close\r\n\r\n%s"):format(#text, text))
    client:close()
  end
end
