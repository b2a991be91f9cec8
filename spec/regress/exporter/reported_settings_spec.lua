-- The story: a wrong setting in the environment was only reported in tracer.warnings, which few programs read: with a malformed
-- endpoint a program exported nothing and printed nothing. An exporter that the program made itself raised an error.
-- Twice: settings are only text.
local util = require "spec.support.util"

-- The stderr and the status of a program with this environment.
local function said(env, code)
  return util.shell(("env %s %s -e '%s' 2>&1 >/dev/null"):format(env, util.lua(), code or [[
    local perf = require "perf"
    for _ = 1, 3 do perf.tracer {events = false, metrics = true}:start "x":finish() end os.exit(0)]]))
end

local function once(env, ...)
  local output, status = said(env)
  local expected = ""
  for _, text in ipairs { ... } do expected = expected .. "perf.tracer: " .. text .. "\n" end
  assert.equal(expected, output, env)
  assert.equal(0, status)
end

describe("a wrong setting of the environment", function()
  it("is reported on stderr, once in a process", function()
    once "A=b"
    once "OTEL_SDK_DISABLED=false OTEL_TRACES_EXPORTER=none OTEL_PROPAGATORS=tracecontext,b3"
    once("OTEL_EXPORTER_OTLP_ENDPOINT=ftp://x", "the environment's exporter: OTEL_EXPORTER_OTLP_ENDPOINT: 'ftp://x' is not an "
      .. "http or https URL; nothing is exported")
    once("OTEL_TRACES_EXPORTER=none OTEL_BSP_MAX_QUEUE_SIZE=many OTEL_SPAN_LINK_COUNT_LIMIT=-1",
      "OTEL_BSP_MAX_QUEUE_SIZE=many: a whole number from 1 to 16777216 expected; it is ignored",
      "OTEL_SPAN_LINK_COUNT_LIMIT=-1: a whole number from 0 to 16777216 expected; it is ignored")
    once("OTEL_TRACES_EXPORTER=console",
      "OTEL_TRACES_EXPORTER=console: unknown exporter; there are otlp, zipkin, none; nothing is exported")
    once("OTEL_TRACES_EXPORTER=none OTEL_SDK_DISABLED=yes", "OTEL_SDK_DISABLED=yes: true or false expected; it is ignored")
    once "OTEL_SDK_DISABLED=true OTEL_BSP_MAX_QUEUE_SIZE=many" -- nothing is enabled
  end)

  it("is reported also if it names something that is not supported", function()
    once("OTEL_TRACES_EXPORTER=none OTEL_PROPAGATORS=tracecontext,baggage",
      "OTEL_PROPAGATORS: 'baggage' is not supported; it is not passed on")
    once("OTEL_TRACES_EXPORTER=none OTEL_LOG_LEVEL=debug OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://h:1",
      "OTEL_LOG_LEVEL=debug: not supported: the library writes no log",
      "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://h:1: not supported: metrics are sent as traces are")
    once("OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1",
      "OTEL_EXPORTER_OTLP_PROTOCOL=grpc: only http/json is supported")
  end)

  it("is reported once for several states and a forked child; a different one is reported anew", function()
    local output, status = said("OTEL_TRACES_EXPORTER=none OTEL_LOG_LEVEL=debug", [[
      local kit, perf = require "testkit", require "perf"
      perf.tracer {events = false}
      kit.fork(function() perf.tracer {events = false} end)
      package.loaded["perf.exporter.settings"], package.loaded["perf.trace.config"], package.loaded["perf.trace"] = nil
      require "perf.trace".tracer {events = false}
      for i = 1, 3 do require "perf.exporter.settings".print_warnings {"text " .. i % 2} end
      for i = 1, 200 do require "perf.exporter.settings".print_warnings {"many"} end]])
    assert.equal("perf.tracer: OTEL_LOG_LEVEL=debug: not supported: the library writes no log\nperf.tracer: text 1\n"
      .. "perf.tracer: text 0\nperf.tracer: many\n", output)
    assert.equal(0, status)
  end)

  it("does not stop a program that creates its exporter itself", function()
    for _, env in ipairs { "OTEL_EXPORTER_OTLP_ENDPOINT=ftp://x", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=nonsense" } do
      local output, status = said(env, [[
        local perf = require "perf"
        local t = perf.tracer {events = false, exporter = perf.exporter.otlp {}}
        t:start "x":finish()
        local ok, message, code = t:flush()
        io.stderr:write(tostring(ok), " ", code, " ", t:stats().dropped)]])
      assert.matches("is not an http or https URL; nothing is exported\nnil EIO 1$", output)
      assert.equal(0, status)
    end
  end)

  -- A key written as `api-key: SECRET`, and a password in an endpoint with a wrong scheme, appeared in the program's log.
  it("is reported without the keys and passwords in it", function()
    for env, name in pairs { ["OTEL_EXPORTER_OTLP_HEADERS=\"api-key: SECRET\""] = "OTEL_EXPORTER_OTLP_HEADERS=***",
      ["OTEL_EXPORTER_OTLP_HEADERS=\"Authorization: SECRET==\""] = "OTEL_EXPORTER_OTLP_HEADERS=***",
      ["OTEL_EXPORTER_OTLP_ENDPOINT=htp://me:SECRET@h:4318"] = "'htp://***@h:4318' is not an http or https URL",
      ["OTEL_EXPORTER_OTLP_ENDPOINT=me:SECRET@h"] = "'***@h' is not an http or https URL",
      ["OTEL_EXPORTER_OTLP_ENDPOINT=http://me:SEC/RET@h:99999/x"] = "is not a URL",
      ["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://me:SECRET@h"] = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://***@h",
      ["OTEL_EXPORTER_OTLP_METRICS_HEADERS=k=SECRET"] = "OTEL_EXPORTER_OTLP_METRICS_HEADERS=***" } do
      local output, status = said(env, [[
        require "perf".tracer {events = false, metrics = true} os.exit(0)]])
      assert.matches(name, output, 1, true)
      assert.is_nil(output:find("SEC", 1, true), output)
      assert.equal(0, status)
    end
  end)
end)
