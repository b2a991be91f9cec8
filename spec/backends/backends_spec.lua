-- Spans of a real program, sent to real servers and read back through their own query interfaces: every id, time, attribute,
-- count. tools/backends.sh starts the servers and sets variables with their addresses.
local backend = require "spec.support.backend"
local util = require "spec.support.util"

local function server(name) return os.getenv("PERF_BACKEND_" .. name:upper()) end

local function get(url)
  local body, status = require "socket.http".request(url)
  return status == 200 and require "dkjson".decode(body) or nil
end

local serial = 0

-- The spans that the program sent, by span id and as a list.
local function run_program(kind, url)
  serial = serial + 1
  local service = ("spec-%d-%d-%d"):format(os.time(), require "testkit".getpid(), serial)
  local output, status = util.shell(("%s spec/backends/program.lua %s %s %s"):format(util.lua(), kind, url, service))
  assert.equal(0, status, output)
  local list, by_id = {}, {}
  for line in output:gmatch "[^\n]+" do
    local span = assert(require "dkjson".decode(line), line)
    list[#list + 1] = span
    by_id[span.span_id] = span
  end
  assert.equal(6, #list)
  return list, by_id, service
end

-- Counts and attributes in the form in which they are sent.
local function expected_attributes(span)
  local t = {}
  for key, v in pairs(span.attributes) do t[key] = v end
  for label, v in pairs(span.counts) do t["perf." .. label] = v end
  for label, v in pairs(span.self_counts) do t["perf.self." .. label] = v end
  return t
end

local kinds = { internal = 1, server = 2, client = 3, producer = 4, consumer = 5 }

local function micros(ns) return tonumber(ns:sub(1, -4)) end

describe("backends", function()
  before_each(function() requires { perf_open = true, module = { "socket", "dkjson" } } end)

  it("the OpenTelemetry collector has every span unchanged", function()
    requires { backend = "collector" }
    local list, by_id, service = run_program("otlp", server "collector")
    local seen, n = {}, 0
    backend.wait_for("the collector's file", function()
      for line in util.read_file(server "collector_file"):gmatch "[^\n]+" do
        local body = require "dkjson".decode(line)
        for _, resource in ipairs(body and body.resourceSpans or {}) do
          local name
          for _, a in ipairs(resource.resource.attributes) do name = a.key == "service.name" and a.value.stringValue or name end
          for _, s in ipairs(name == service and resource.scopeSpans[1].spans or {}) do
            n = n + (seen[s.spanId] and 0 or 1)
            seen[s.spanId] = s
          end
        end
      end
      return n == #list
    end)
    for id, sent in pairs(by_id) do
      local got = seen[id]
      assert.same({ sent.name, sent.trace_id, sent.parent_id or "", kinds[sent.kind], sent.start_ns, sent.end_ns },
        { got.name, got.traceId, got.parentSpanId or "", got.kind, got.startTimeUnixNano, got.endTimeUnixNano })
      local attributes = {}
      for _, a in ipairs(got.attributes) do
        local v = a.value
        if v.intValue then attributes[a.key] = tonumber(v.intValue)
        elseif v.boolValue ~= nil then attributes[a.key] = v.boolValue
        else attributes[a.key] = v.stringValue or v.doubleValue end
      end
      assert.same(expected_attributes(sent), attributes)
      for i, e in ipairs(sent.events) do
        assert.same({ e.name, e.time_ns }, { got.events[i].name, got.events[i].timeUnixNano })
      end
      assert.equal(sent.status == "error" and 2 or nil, got.status.code)
      assert.equal(sent.message, got.status.message)
      assert.equal(sent.linked, got.links and got.links[1].spanId)
    end
  end)

  it("Jaeger shows every span unchanged", function()
    requires { backend = "jaeger" }
    local list, by_id = run_program("otlp", server "jaeger")
    local checked = 0
    for _, trace_id in ipairs { list[1].trace_id, list[2].trace_id } do
      local wanted = 0
      for _, s in ipairs(list) do wanted = wanted + (s.trace_id == trace_id and 1 or 0) end
      local trace = backend.wait_for("Jaeger's trace", function()
        local answer = get(server "jaeger_query" .. "/api/traces/" .. trace_id)
        local t = answer and answer.data and answer.data[1]
        return t and #t.spans == wanted and t
      end)
      for _, got in ipairs(trace.spans) do
        local sent = by_id[got.spanID]
        local parent
        for _, r in ipairs(got.references) do parent = r.refType == "CHILD_OF" and r.spanID or parent end
        assert.same({ sent.name, sent.parent_id or "", micros(sent.start_ns) },
          { got.operationName, parent or "", got.startTime })
        assert.equal(math.floor((tonumber(sent.end_ns:sub(-15)) - tonumber(sent.start_ns:sub(-15))) / 1e3), got.duration)
        local attributes = {}
        for _, tag in ipairs(got.tags) do
          if not tag.key:find "^otel%." and not tag.key:find "^span%.kind$" and not tag.key:find "^internal%."
            and tag.key ~= "error" then
            attributes[tag.key] = tag.type == "int64" and tonumber(tag.value) or tag.value
          end
          if tag.key == "span.kind" then assert.equal(sent.kind, tag.value) end
          if tag.key == "otel.status_description" then assert.equal(sent.message, tag.value) end
        end
        assert.same(expected_attributes(sent), attributes)
        for i, e in ipairs(sent.events) do assert.equal(micros(e.time_ns), got.logs[i].timestamp) end
        checked = checked + 1
      end
    end
    assert.equal(#list, checked)
  end)

  it("Zipkin shows every span unchanged", function()
    requires { backend = "zipkin" }
    local list, by_id, service = run_program("zipkin", server "zipkin")
    local checked = 0
    for _, trace_id in ipairs { list[1].trace_id, list[2].trace_id } do
      local wanted = 0
      for _, s in ipairs(list) do wanted = wanted + (s.trace_id == trace_id and 1 or 0) end
      local trace = backend.wait_for("Zipkin's trace", function()
        local t = get(server "zipkin" .. "/api/v2/trace/" .. trace_id)
        return t and #t == wanted and t
      end)
      for _, got in ipairs(trace) do
        local sent = by_id[got.id]
        assert.same({ sent.name, sent.trace_id, sent.parent_id or "", micros(sent.start_ns), service },
          { got.name, got.traceId, got.parentId or "", got.timestamp, got.localEndpoint.serviceName })
        assert.equal(math.max(micros(sent.end_ns) - micros(sent.start_ns), 1), got.duration)
        assert.equal(sent.kind ~= "internal" and sent.kind:upper() or nil, got.kind)
        local tags = {}
        for key, v in pairs(expected_attributes(sent)) do
          tags[key] = type(v) == "number" and (v == math.floor(v) and "%.0f" or "%.17g"):format(v) or tostring(v)
        end
        tags.error = sent.message
        assert.same(tags, got.tags)
        for i, e in ipairs(sent.events) do
          assert.equal(micros(e.time_ns), got.annotations[i].timestamp)
          assert.equal(e.name, got.annotations[i].value:sub(1, #e.name))
        end
        checked = checked + 1
      end
    end
    assert.equal(#list, checked)
  end)

  it("Prometheus scrapes the histograms", function()
    requires { backend = "prometheus" }
    local port = server "prometheus_target"
    local log = os.tmpname()
    -- A separate name: Prometheus still has the series of the previous interpreter.
    local run = require("testkit").getpid()
    local pid = util.shell(("%s spec/backends/metrics_server.lua %s 40 %d >%s 2>&1 & echo $!")
      :format(util.lua(), port, run, log)):match "%d+"
    local labels = ('span="work \\"a\\" %d"'):format(run)
    local ok, err = pcall(function()
      local function value(query)
        return backend.wait_for(query, function()
          local answer = get(server "prometheus" .. "/api/v1/query?query=" .. query:gsub("[^%w_]", function(c)
            return ("%%%02X"):format(c:byte())
          end))
          local result = answer and answer.status == "success" and answer.data.result[1]
          return result and tonumber(result.value[2])
        end)
      end
      local sum = value("perf_page_faults_sum{" .. labels .. "}")
      local text = util.read_file(log)
      assert.equal(tonumber(text:match("perf_page_faults_sum{" .. labels .. "} (%d+)")), sum)
      assert.is_true(sum >= 5 * 64)
      assert.equal(5, value("perf_page_faults_count{" .. labels .. "}"))
      assert.equal(5, value("perf_page_faults_bucket{" .. labels .. ',le="+Inf"}'))
      assert.equal(tonumber(text:match("perf_page_faults_bucket{" .. labels .. ',le="100"} (%d+)')),
        value("perf_page_faults_bucket{" .. labels .. ',le="100"}'))
      assert.is_true(value("perf_span_duration_seconds_sum{" .. labels .. "}") > 0)
    end)
    require "testkit".kill(tonumber(pid), 9)
    os.remove(log)
    if not ok then error(err, 0) end
  end)

  it("the collector accepts 100,000 spans a second, or those that it does not accept are counted as dropped", function()
    requires { backend = "collector", nostress = true }
    local output, status = util.shell(("%s spec/backends/load.lua %s 3 100000"):format(util.lua(), server "collector"))
    assert.equal(0, status, output)
    local sent = tonumber(output:match "(%d+) sent")
    assert.is_true(sent > 0, output)
  end)

  it("a collector that is killed and restarted gets the spans of the queue, and the rest are counted as dropped", function()
    requires { backend = "killed" }
    local perf, kit = require "perf", require "testkit"
    os.remove(server "killed_file")
    local function start()
      local pid = util.shell(server "killed_command" .. " >/dev/null 2>&1 & echo $!"):match "%d+"
      backend.wait_for("the collector", function() return require "socket.http".request(server "killed" .. "/v1/traces") end)
      return tonumber(pid)
    end
    -- The number of spans with this name in the file.
    local function arrived(name)
      local f = io.open(server "killed_file")
      local text = f and f:read "*a" or ""
      if f then f:close() end
      return (select(2, text:gsub('"name":"' .. name .. '"', "")))
    end
    local pid = start()
    local tracer = assert(perf.tracer { events = "page-faults", queue = 100, batch = 50, delay = 0,
      exporter = perf.exporter.otlp { endpoint = server "killed" } })
    local ok, err = pcall(function()
      for _ = 1, 20 do tracer:start "before":finish() end
      assert.is_true(tracer:flush(10))
      backend.wait_for("the first spans", function() return arrived "before" == 20 end)
      kit.kill(pid, 9)
      for _ = 1, 300 do tracer:start "during":finish() end
      backend.wait_for("a failure", function()
        tracer:poll()
        return tracer:stats().failures > 0
      end)
      local s = tracer:stats()
      assert.is_true(s.queued >= 100 and s.dropped > 0)
      local kept = s.queued
      pid = start()
      tracer:flush(30)
      s = tracer:stats()
      assert.same({ 320, 0, 320 }, { s.made, s.queued, s.sent + s.dropped })
      assert.equal(20 + kept, s.sent)
      backend.wait_for("the rest", function() return arrived "during" == kept end)
    end)
    tracer:close(0)
    kit.kill(pid, 9)
    if not ok then error(err, 0) end
  end)
end)
