-- The story: names of headers are case-insensitive, and OTEL_EXPORTER_OTLP_HEADERS has them in lower case, but a user's
-- "user-agent", "content-type" or "content-length" was sent besides the exporter's own.
local http = require "perf.exporter.http"
local perf = require "perf"

-- The lines that an exporter sends, by their names in lower case: arrays of values.
local function sent(options)
  local exporter, text = perf.exporter.otlp(options), nil
  local stream = { close = function() end }
  function stream.send(request)
    text = request
    return true
  end
  function stream.receive() return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" end
  local carrier = { post = function(request, deadline) return http.post({}, request, deadline, function() return stream end) end }
  assert.equal(0, exporter:post(carrier, "a body", "traces"))
  local lines = {}
  for name, value in text:match "^[^\n]*\n(.-)\r\n\r\n":gmatch "([^:\n]+): ([^\r]*)" do
    name = name:lower()
    lines[name] = lines[name] or {}
    table.insert(lines[name], value)
  end
  return lines
end

describe("the headers of a request", function()
  it("are the exporter's by default", function()
    assert.same({ host = { "here:1" }, ["content-type"] = { "application/json" }, ["content-length"] = { "6" },
      ["user-agent"] = { "lua-perf/" .. perf._VERSION:match "%S+$" }, authorization = { "Basic dTpw" } },
      sent { endpoint = "http://u:p@here:1" })
  end)

  it("are replaced by those of the user in any case, and none comes twice", function()
    assert.same({ host = { "collector.example" }, ["content-type"] = { "text/x" }, ["content-length"] = { "6" },
      ["user-agent"] = { "mine" }, authorization = { "Bearer x" }, ["x-other"] = { "5" } },
      sent { endpoint = "http://u:p@here:1", headers = { host = "collector.example", ["content-type"] = "text/x",
        ["content-length"] = "5", ["TRANSFER-ENCODING"] = "chunked", ["user-Agent"] = "mine", AUTHORIZATION = "Bearer x",
        ["X-Other"] = 5 } })
  end)

  it("state the encoding of the body", function()
    requires { module = "zlib" }
    local lines = sent { endpoint = "http://here:1", compression = "gzip", headers = { ["content-encoding"] = "br" } }
    assert.same({ "gzip" }, lines["content-encoding"])
  end)
end)
