-- The story: where "localhost" is ::1 and 127.0.0.1, as Debian has it, spans were not sent to a collector that listens on
-- 127.0.0.1: only the first address of a host was tried. The default endpoint is on localhost.
local backend = require "spec.support.backend"
local perf = require "perf"

describe("an exporter's host with several addresses", function()
  local dns, original

  before_each(function()
    requires { module = "socket" }
    dns = require "socket".dns
    original = dns.getaddrinfo
  end)
  after_each(function()
    if dns then dns.getaddrinfo = original end
  end)

  -- Sends a span to the host, which has these addresses. Returns the results of flush.
  local function send(port, addresses)
    dns.getaddrinfo = function()
      local list = {}
      for i, address in ipairs(addresses) do list[i] = { family = address:find ":" and "inet6" or "inet", addr = address } end
      return list
    end
    local t = perf.tracer { events = false, retry = 0, exporter = perf.exporter.otlp { transport = "luasocket",
      endpoint = "http://localhost:" .. port } }
    t:start "one":finish()
    local ok, message = t:flush(30)
    t:close()
    return ok, message
  end

  it("is reached at the first one that accepts", function()
    local b = backend.start()
    finally(function() b:stop() end)
    local port = b.url:match ":(%d+)"
    assert.is_true(send(port, { "::1", "127.0.0.1" }))
    assert.is_true(send(port, { "127.0.0.1", "::1" }))
  end)

  it("is refused if none does", function()
    local s = require "socket".tcp() -- it has the port, but does not listen
    finally(function() s:close() end)
    assert(s:bind("127.0.0.1", 0))
    local _, port = s:getsockname()
    local ok, message = send(port, { "127.0.0.2", "127.0.0.1" })
    assert.is_nil(ok)
    assert.matches("localhost:%d+: connection refused", message)
  end)
end)
