-- Exporters against a small server of this tree; spec/backends uses real ones. Twice: the bytes of a protocol are the same in Lua
-- 5.1 to LuaJIT, and numbers have a subtype in Lua 5.3 and 5.4.
local kit = require "testkit"
local perf = require "perf"
local backend = require "spec.support.backend"
local util = require "spec.support.util"

local servers = {}

local function start(options)
  local b = backend.start(options)
  servers[#servers + 1] = b
  return b
end

local function tracer(b, options, exporter)
  options = options or {}
  options.service, options.events = options.service or "spec", options.events or "page-faults"
  options.exporter = perf.exporter[options.kind or "otlp"](exporter or { endpoint = b.url, timeout = 5 })
  options.kind = nil
  return assert(perf.tracer(options))
end

local function balanced(t)
  local s = t:stats()
  assert.equal(s.made, s.sent + s.dropped + s.queued)
  return s
end

local function names(b)
  local list = {}
  for i, s in ipairs(b:spans()) do list[i] = s.name end
  return table.concat(list, " ")
end

describe("exporters", function()
  before_each(function() requires { perf_open = true, module = { "socket", "dkjson" } } end)

  after_each(function()
    for i = #servers, 1, -1 do
      servers[i]:stop()
      servers[i] = nil
    end
  end)

  it("post OTLP in JSON, with every field", function()
    local b = start()
    local t = tracer(b, { resource = { ["host.name"] = "h" }, service = 'sh"op' },
      { endpoint = b.url, headers = { ["X-Key"] = "k" } })
    local seen
    t:span("outer", { kind = "server", attributes = { s = "ü", i = 5, f = 2.5, b = true, l = { "x", 1 } } }, function()
      seen = t:current()
      seen:add_event("event", { n = 1 })
      t:span("inner", kit.touch_pages, 64)
      pcall(t.span, t, "fails", function() error("boo", 0) end)
    end)
    assert.is_true(t:flush(10))
    assert.equal(3, balanced(t).sent)
    t:close()
    local requests = b:requests()
    assert.equal(1, #requests)
    assert.equal("/v1/traces", requests[1].path)
    assert.equal("application/json", requests[1].headers["content-type"])
    assert.equal("k", requests[1].headers["x-key"])
    local json = require "dkjson"
    local body = assert(json.decode(requests[1].body))
    local resource, spans = {}, {}
    for _, a in ipairs(body.resourceSpans[1].resource.attributes) do
      resource[a.key] = a.value.stringValue or a.value.intValue
    end
    assert.equal('sh"op', resource["service.name"])
    assert.equal("h", resource["host.name"])
    assert.equal(tostring(kit.getpid()), resource["process.pid"])
    for _, s in ipairs(b:spans()) do spans[s.name] = s end
    local outer, inner = spans.outer, spans.inner
    assert.equal(seen.trace_id, outer.traceId)
    assert.equal(seen.span_id, outer.spanId)
    assert.is_nil(outer.parentSpanId)
    assert.equal(outer.spanId, inner.parentSpanId)
    assert.equal(2, outer.kind)
    local attributes = {}
    for _, a in ipairs(outer.attributes) do attributes[a.key] = a.value end
    assert.same({ stringValue = "ü" }, attributes.s)
    assert.same({ intValue = "5" }, attributes.i)
    assert.same({ doubleValue = 2.5 }, attributes.f)
    assert.same({ boolValue = true }, attributes.b)
    assert.same({ { stringValue = "x" }, { intValue = "1" } }, attributes.l.arrayValue.values)
    assert.matches("^%d+$", attributes["perf.page-faults"].intValue)
    assert.is_true(tonumber(attributes["perf.page-faults"].intValue) >= 64)
    assert.is_true(outer.startTimeUnixNano <= inner.startTimeUnixNano and inner.endTimeUnixNano <= outer.endTimeUnixNano)
    assert.equal("event", outer.events[1].name)
    assert.same({ code = 2, message = "boo" }, spans.fails.status)
  end)

  it("post Zipkin's JSON", function()
    local b = start { statuses = "202" }
    local t = tracer(b, { kind = "zipkin" }, { endpoint = b.url })
    t:span("outer", { kind = "client", attributes = { n = 5 } }, function()
      pcall(t.span, t, "fails", function() error("boo", 0) end)
    end)
    assert.is_true(t:flush(10))
    local request = b:requests()[1]
    assert.equal("/api/v2/spans", request.path)
    local list = assert(require "dkjson".decode(request.body))
    assert.equal("boo", list[1].tags.error)
    assert.equal(list[2].id, list[1].parentId)
    assert.equal("CLIENT", list[2].kind)
    assert.equal("spec", list[2].localEndpoint.serviceName)
    assert.equal("5", list[2].tags.n)
    assert.matches("^%d+$", list[2].tags["perf.page-faults"])
    assert.is_true(list[2].duration >= 1)
    t:close()
  end)

  it("compress requests", function()
    requires { module = "zlib" }
    local b = start()
    local t = tracer(b, {}, { endpoint = b.url, compression = "gzip" })
    for i = 1, 20 do t:start("span " .. i):finish() end
    assert.is_true(t:flush(10))
    local request = b:requests()[1]
    assert.equal("gzip", request.headers["content-encoding"])
    local text = require "zlib".inflate()(request.body)
    assert.matches('"name":"span 20"', text)
    assert.is_true(#request.body * 4 < #text)
    t:close()
  end)

  it("keep the connection, and open another after it was closed", function()
    local b = start { statuses = "200,200,drop,200" }
    local t = tracer(b, { batch = 1 })
    for i = 1, 4 do
      t:start("s" .. i):finish()
      t:flush(10)
    end
    assert.equal(0, balanced(t).dropped)
    assert.matches("s1 s2 s3 .*s4", names(b))
    t:close()
  end)

  it("retry errors that may pass, and no others", function()
    local b = start { statuses = "503,429,200,400,200" }
    local t = tracer(b, { batch = 1, delay = 0 })
    t:start "first":finish()
    assert.is_true(t:flush(15))
    assert.equal("first first first", names(b))
    t:start "refused":finish()
    local ok, message, code = t:flush(5)
    assert.is_nil(ok)
    assert.equal("EIO", code)
    assert.matches("/v1/traces answered 400", message)
    t:start "last":finish()
    assert.is_true(t:flush(5))
    local s = balanced(t)
    assert.same({ 3, 2, 1, 3 }, { s.made, s.sent, s.dropped, s.failures })
    t:close()
  end)

  it("count the spans that a backend says it rejected", function()
    local b = start { statuses = "200partial" }
    local t = tracer(b)
    for _ = 1, 3 do t:start "x":finish() end
    t:flush(5)
    local s = balanced(t)
    assert.same({ 2, 1 }, { s.sent, s.dropped })
    assert.equal("the backend says: one too many", s.last_error)
    t:close()
  end)

  it("send the spans in the queue when a backend is back, and count the rest", function()
    local b = start()
    local t = tracer(b, { queue = 10, batch = 5, delay = 0 })
    t:start "before":finish()
    assert.is_true(t:flush(5))
    b:crash()
    for i = 1, 40 do t:start("during" .. i):finish() end
    local s = balanced(t)
    assert.is_true(s.dropped > 0 and s.queued > 0, s.dropped)
    local kept = s.queued
    backend.wait_for("a refused connection", function() -- first the connection from before may be found closed
      t:poll()
      return (t:stats().last_error or ""):find "refused"
    end)
    local again = start { port = b.port, log = b.log }
    t:start "after":finish()
    assert.equal("EIO", select(3, t:flush(30))) -- some were dropped
    s = balanced(t)
    assert.equal(0, s.queued)
    local seen = {}
    for _, span in ipairs(again:spans()) do seen[span.name] = true end
    local arrived = 0
    for i = 1, 40 do arrived = arrived + (seen["during" .. i] and 1 or 0) end
    assert.equal(kept, arrived)
    assert.equal(s.sent, arrived + 1 + (seen.after and 1 or 0))
    t:close()
  end)

  it("never block the program if no server answers", function()
    local socket = require "socket"
    local silent = assert(socket.bind("127.0.0.1", 0)) -- it accepts connections and sends nothing
    local _, port = silent:getsockname()
    local t = tracer(nil, { batch = 1, delay = 0, retry = 0 }, { endpoint = "http://127.0.0.1:" .. port, timeout = 0.2 })
    for _ = 1, 100 do t:start "x":finish() end
    backend.wait_for("the time-out", function()
      t:poll()
      return t:stats().dropped > 0
    end)
    assert.matches("timeout", balanced(t).last_error)
    local ok, _, code = t:flush(0)
    assert.is_nil(ok)
    assert.equal("ETIMEDOUT", code)
    t:close(0)
    local s = balanced(t)
    assert.same({ 100, 0, 100, 0 }, { s.made, s.sent, s.dropped, s.queued })
    silent:close()
  end)

  it("leave the cost of sending out of the spans around it", function()
    local b = start()
    local t = tracer(b, { batch = 64, delay = 0, events = "task-clock" })
    perf.measure("task-clock", function() end) -- opens the list, which is no work of the span
    local outer = t:start "outer"
    local c = perf.measure("task-clock", function()
      for _ = 1, 64 do t:start("inner", { parent = outer, attributes = { text = ("x"):rep(20000) } }):finish() end
    end)
    outer:finish()
    assert.is_true(t:flush(10))
    local own = outer.counted["task-clock"]
    assert.is_true(own < c["task-clock"], ("%s of %s"):format(own, c["task-clock"]))
    assert.is_truthy(outer.excluded)
    t:close()
  end)

  it("send the remaining spans when the program ends", function()
    local b = start()
    local code = [[local t = require "perf".tracer {events = "dummy"} t:start "last words":finish()]]
    local output, status = util.shell(("OTEL_EXPORTER_OTLP_ENDPOINT=%s %s -e '%s'"):format(b.url, util.lua(), code))
    assert.same({ "", 0 }, { output, status })
    assert.equal("last words", names(b))
    output, status = util.shell(("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 %s -e '%s'"):format(util.lua(), code))
    assert.same({ "", 0 }, { output, status }) -- no server answers: it ends nevertheless
  end)

  it("push histograms", function()
    local b = start()
    local t = tracer(b, { metrics = { buckets = { 1, 10 }, interval = 1000 } })
    t:start "x":finish()
    t:close()
    local request = b:requests()[2]
    assert.equal("/v1/metrics", request.path)
    local body = assert(require "dkjson".decode(request.body))
    local metrics = {}
    for _, m in ipairs(body.resourceMetrics[1].scopeMetrics[1].metrics) do metrics[m.name] = m end
    local point = metrics["perf.page-faults"].histogram.dataPoints[1]
    assert.equal("1", point.count)
    assert.same({ 1, 10 }, point.explicitBounds)
    assert.equal(3, #point.bucketCounts)
    assert.equal("ns", metrics["perf.span.duration"].unit)
  end)

  it("use lua-http if that is asked for", function()
    requires { module = "http.request" }
    local b = start()
    local code = ([[
      local perf = require "perf"
      local t = perf.tracer {events = "dummy", exporter = perf.exporter.otlp {endpoint = "%s", transport = "luahttp"}}
      t:start "by lua-http":finish()
      assert(t:flush(10))
      t:start "and at the end":finish()]]):format(b.url)
    local output, status = util.shell(("%s -e '%s'"):format(util.lua(), code))
    assert.same({ "", 0 }, { output, status })
    assert.equal("by lua-http and at the end", names(b))
  end)

  it("name a missing library", function()
    local output = util.shell(([[%s -e 'package.preload.socket = function() error "away" end
      package.preload.cqueues = package.preload.socket
      local t = require "perf".tracer {events = "dummy"} t:start "x":finish() t:flush()
      print(t:stats().dropped, t:stats().last_error)']])
      :format(util.lua()))
    assert.matches("^1\tno transport is installed: install LuaSocket", output)
  end)
end)

describe("exporters over TLS", function()
  local dir
  before_each(function()
    requires { perf_open = "user", module = { "socket", "ssl" }, cmd = "openssl" }
    dir = util.new_directory()
    assert.equal(0, select(2, util.shell(("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
      .. "-keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost "
      .. "2>/dev/null"):format(dir))))
  end)
  after_each(function() util.remove_directory(dir) end)

  -- One connection, one answer.
  local server = [[
    local socket, ssl = require "socket", require "ssl"
    local s = assert(socket.bind("127.0.0.1", 0))
    local out = io.open(arg[1] .. "/port", "w") out:write((select(2, s:getsockname())), "\n") out:close()
    s:settimeout(20)
    local c = s:accept()
    if not c then return end
    c = ssl.wrap(c, {mode = "server", protocol = "any", key = arg[1] .. "/key.pem", certificate = arg[1] .. "/cert.pem"})
    if not c:dohandshake() then return end
    local length = 0
    repeat
      local line = c:receive "*l"
      length = tonumber((line or ""):match "Length: (%d+)") or length
    until not line or line == ""
    c:receive(length)
    c:send "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]]

  local function send(host, tls, kind)
    util.write_file(dir .. "/server.lua", server)
    os.remove(dir .. "/port")
    os.execute(("%s %s/server.lua %s >/dev/null 2>&1 &"):format(util.lua(), dir, dir))
    local port = backend.wait_for("the server", function()
      local f = io.open(dir .. "/port")
      local line = f and f:read "*l"
      if f then f:close() end
      return line
    end)
    local t = perf.tracer { events = "dummy", retry = 0,
      exporter = perf.exporter[kind or "otlp"] { endpoint = ("https://%s:%s"):format(host, port), tls = tls } }
    t:start "secret":finish()
    local ok, message = t:flush(10)
    t:close(0)
    return ok, message
  end

  it("send if the certificate is trusted and has the host's name", function()
    assert.is_true(send("localhost", { cafile = dir .. "/cert.pem" }))
  end)

  it("refuse a certificate that is not trusted, or has another name", function()
    local ok, message = send("localhost", {})
    assert.is_nil(ok)
    assert.matches("TLS: .*certificate verify failed", message)
    ok, message = send("localhost", nil, "zipkin")
    assert.is_nil(ok)
    assert.matches("TLS: .*certificate verify failed", message)
    ok, message = send("127.0.0.1", { cafile = dir .. "/cert.pem" })
    assert.is_nil(ok)
    assert.matches("TLS: the certificate is not valid for '127.0.0.1'", message)
  end)

  it("do not check the certificate if told so", function()
    assert.is_true(send("127.0.0.1", { verify = false }))
  end)
end)
