-- The story: the environment's certificates for OTLP were ignored: without the option `tls`, its check returned an empty table,
-- which took precedence over the variables. So a backend with a private authority refused every span. And Zipkin's exporter had
-- no table at all without the option, so its transport raised an error at the first https URL.
local util = require "spec.support.util"

local function tls_of(env, options)
  return (util.shell(("env %s %s -e '%s'"):format(env, util.lua(), ([[
    local tls = require "perf".exporter.otlp(%s).tls
    print(tls.cafile, tls.key, tls.certificate)]]):format(options))))
end

describe("an exporter", function()
  it("has settings for https without the option", function()
    requires { module = "socket" }
    local exporter = require "perf".exporter.zipkin { endpoint = "https://localhost:9411" }
    assert.same({}, exporter.tls)
    assert.is_table((exporter:transport()))
  end)

  it("takes its certificates from the environment", function()
    local env = "OTEL_EXPORTER_OTLP_CERTIFICATE=/ca OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY=/key "
      .. "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/own"
    assert.equal("/ca\t/key\t/own\n", tls_of(env, "{}"))
    assert.equal("/option\tnil\tnil\n", tls_of(env, "{tls = {cafile = \"/option\"}}"))
  end)
end)
