-- Posting within nginx: cosockets in a timer, which wait without blocking the worker.
local clock = require "perf.base.clock"
local http = require "perf.exporter.http"

local M = {}

-- A transport; one for each sender.
-- @param tls {verify=false}: nginx's own directives (lua_ssl_trusted_certificate) select the trusted certificates
-- @return transport
function M.new(tls)
  local ngx = rawget(_G, "ngx")

  local function left(deadline) return math.max(math.ceil((deadline - clock.now()) / 1e6), 1) end

  local function connect(url, deadline)
    local sock, message = ngx.socket.tcp()
    if not sock then return nil, message end
    sock:settimeout(left(deadline))
    local ok
    ok, message = sock:connect(url.host, url.port)
    if not ok then return nil, message end
    if url.scheme == "https" and (sock:getreusedtimes() or 0) == 0 then
      ok, message = sock:sslhandshake(nil, url.host, tls.verify ~= false)
      if not ok then return nil, "TLS: " .. tostring(message) end
    end
    local stream = {}
    function stream.send(text, till)
      sock:settimeout(left(till))
      return sock:send(text)
    end
    function stream.receive(till)
      sock:settimeout(left(till))
      if sock.receiveany then return sock:receiveany(8192) end
      local text, why, part = sock:receive(1)
      return text or part ~= "" and part or nil, why
    end
    function stream.close() sock:close() end
    function stream.keep() sock:setkeepalive(30000, 2) end
    return stream
  end

  local transport = {}

  function transport.rest(seconds) ngx.sleep(math.max(seconds, 0.001)) end -- nginx logs a warning for each 0

  -- A cosocket lives no longer than the timer that made it: nginx's connection pool keeps the connection.
  function transport.post(request, deadline)
    local self = {}
    local status, headers, body = http.post(self, request, deadline, connect)
    if self.stream then self.stream.keep() end
    return status, headers, body
  end

  function transport.exiting() return ngx.worker.exiting() end

  function transport.spawn(delay, fn) return ngx.timer.at(delay, fn) end

  return transport
end

return M
