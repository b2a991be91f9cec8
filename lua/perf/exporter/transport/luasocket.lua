-- Posting over LuaSocket, and LuaSec for TLS. When a socket would block, the coroutine yields, and its caller waits or does
-- something else before it resumes it. Only the look-up of a host's name blocks, once for each connection.
local clock = require "perf.base.clock"
local http = require "perf.exporter.http"
local socket = require "socket"

local M = {}

-- Whether a name of a certificate matches the host. "*.example.org" matches one label.
local function matches(pattern, host)
  pattern, host = pattern:lower(), host:lower()
  if pattern == host then return true end
  local tail = pattern:match "^%*(%..+)$"
  return tail ~= nil and host:match "^[^.]+(%..+)$" == tail
end

local function has_name(certificate, host)
  local names = (certificate:extensions() or {})["2.5.29.17"] or {}
  for _, kind in ipairs { "dNSName", "iPAddress" } do
    for _, name in ipairs(names[kind] or {}) do
      if matches(name, host) then return true end
    end
  end
  return false
end

-- A transport; one for each sender, which may replace transport.connected: it is called for each new connection, before
-- anything is sent there.
-- @param tls {cafile=, capath=, key=, certificate=, verify=false}
-- @return transport; or nil, message
function M.new(tls)
  local self, transport = {}, { rest = coroutine.yield, connected = function() end }
  local waiting -- {socket, "r" or "w"} while the coroutine waits for one

  -- Yield until the socket may be ready; nil, "timeout" after the deadline.
  local function await(sock, what, deadline)
    if clock.now() > deadline then return nil, "timeout" end
    waiting = { sock, what }
    coroutine.yield()
    waiting = nil
    return true
  end

  local function secure(sock, host, deadline)
    local ok, ssl = pcall(require, "ssl")
    if not ok then return nil, "https needs LuaSec (apt-get install lua-sec)" end
    local verify = tls.verify ~= false
    local cafile = tls.cafile
    if not cafile and not tls.capath and verify then cafile = "/etc/ssl/certs/ca-certificates.crt" end
    local conn, message = ssl.wrap(sock, { mode = "client", protocol = "any", options = { "all", "no_sslv2", "no_sslv3",
      "no_tlsv1", "no_tlsv1_1" }, verify = verify and { "peer", "fail_if_no_peer_cert" } or "none", cafile = cafile,
      capath = tls.capath, key = tls.key, certificate = tls.certificate })
    if not conn then return nil, "TLS: " .. tostring(message) end
    conn:sni(host)
    conn:settimeout(0)
    while true do
      local done, why = conn:dohandshake()
      if done then break end
      if why ~= "wantread" and why ~= "wantwrite" then return nil, "TLS: " .. tostring(why) end
      local there, late = await(conn, why == "wantread" and "r" or "w", deadline)
      if not there then return nil, late end
    end
    if verify and not has_name(conn:getpeercertificate(), host) then
      conn:close()
      return nil, ("TLS: the certificate is not valid for '%s'"):format(host)
    end
    return conn
  end

  -- Connect a new socket to an address: returns it; or nil, message.
  local function connected(address, port, deadline)
    local sock, refused = socket.tcp()
    if not sock then return nil, refused end
    sock:settimeout(0)
    local ok, message = sock:connect(address, port)
    while not ok and message ~= "already connected" do
      if message ~= "timeout" and message ~= "Operation already in progress" then
        sock:close()
        return nil, message
      end
      local there, late = await(sock, "w", deadline)
      if not there then
        sock:close()
        return nil, late
      end
      ok, message = sock:connect(address, port)
    end
    sock:setoption("tcp-nodelay", true)
    return sock
  end

  -- Connect to the first address of a host that accepts: "localhost" is often ::1 first, where no IPv4 server answers.
  local function connected_to(host, port, deadline)
    local addresses, message = socket.dns.getaddrinfo(host)
    if not addresses then return nil, message end
    for _, address in ipairs(addresses) do
      local sock
      sock, message = connected(address.addr, port, deadline)
      if sock then return sock end
    end
    return nil, message
  end

  local function connect(url, deadline)
    local tcp, message = connected_to(url.host, url.port, deadline)
    if not tcp then return nil, message end
    local sock = tcp
    if url.scheme == "https" then sock, message = secure(tcp, url.host, deadline) end
    if not sock then
      tcp:close()
      return nil, message
    end
    local stream = {}
    function stream.send(text, till)
      local from = 1
      while true do
        local last, why, part = sock:send(text, from)
        if last then return true end
        if why ~= "timeout" and why ~= "wantread" and why ~= "wantwrite" then return nil, why end
        from = part + 1
        local there, late = await(sock, why == "wantread" and "r" or "w", till)
        if not there then return nil, late end
      end
    end
    function stream.receive(till)
      while true do
        local text, why, part = sock:receive(8192)
        text = text or part
        if text and text ~= "" then return text end
        if why ~= "timeout" and why ~= "wantread" and why ~= "wantwrite" then return nil, why end
        local there, late = await(sock, why == "wantwrite" and "w" or "r", till)
        if not there then return nil, late end
      end
    end
    function stream.close() sock:close() end
    transport.connected()
    return stream
  end

  function transport.post(request, deadline) return http.post(self, request, deadline, connect) end

  function transport.wait(seconds)
    if not waiting then return socket.sleep(seconds) end
    local list = { waiting[1] }
    socket.select(waiting[2] == "r" and list or nil, waiting[2] == "w" and list or nil, seconds)
  end

  -- Also in the middle of a request.
  function transport.close()
    if self.stream then self.stream.close() end
    if waiting then waiting[1]:close() end
    self.stream, waiting = nil, nil
  end

  return transport
end

return M
