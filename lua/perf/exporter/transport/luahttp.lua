-- Posting over lua-http, if LuaSocket is not installed: it connects, and verifies certificates. Its sockets are used in a
-- coroutine of a separate cqueues controller; where that coroutine would wait, the sender's yields.
local client = require "http.client"
local clock = require "perf.base.clock"
local cqueues = require "cqueues"
local errno = require "cqueues.errno"
local http = require "perf.exporter.http"

local M = {}

-- The TLS context of a table of options; nil for the library's own, which verifies.
local function context_of(tls)
  if not next(tls) then return nil end
  local http_tls, context = require "http.tls", require "openssl.ssl.context"
  local ctx = http_tls.new_client_context()
  if tls.verify == false then ctx:setVerify(context.VERIFY_NONE) end
  if tls.cafile or tls.capath then
    local store = require("openssl.x509.store").new()
    store:add(tls.cafile or tls.capath)
    ctx:setStore(store)
  end
  local function slurp(path)
    local f = assert(io.open(path, "rb"))
    local text = f:read "*a"
    f:close()
    return text
  end
  if tls.certificate then ctx:setCertificate(require("openssl.x509").new(slurp(tls.certificate))) end
  if tls.key then ctx:setPrivateKey(require("openssl.pkey").new(slurp(tls.key))) end
  return ctx
end

-- A transport; one for each sender.
-- @param tls {cafile=, capath=, key=, certificate=, verify=false}
-- @return transport; or nil, message
function M.new(tls)
  local ok, ctx = pcall(context_of, tls)
  if not ok then return nil, "TLS: " .. tostring(ctx) end
  -- The sender waits in its own controller: that of cqueues.poll is made at the first wait, so at the end of the program Lua
  -- would finalize it before the sender.
  local loop, waiting = cqueues.new(), cqueues.new()
  local transport = { rest = coroutine.yield, connected = function() end }

  local function left(deadline) return math.max((deadline - clock.now()) / 1e9, 0.001) end

  -- The results of a call on a socket: ok, or nil, message.
  local function result(done, message, number)
    if done then return done end
    return nil, number == errno.ETIMEDOUT and "timeout" or message and number ~= errno.EPIPE and tostring(message) or "closed"
  end

  local function connect(url, deadline)
    local connection, message = client.connect({ host = url.host, port = url.port, tls = url.scheme == "https", ctx = ctx,
      version = 1.1 }, left(deadline))
    if not connection then return nil, tostring(message) end
    local sock = connection.socket
    transport.connected()
    local stream = {}
    function stream.send(text, till) return result(sock:xwrite(text, "bn", left(till))) end
    function stream.receive(till) return result(sock:xread(-8192, "b", left(till))) end
    function stream.close() sock:close() end
    return stream
  end

  -- Within a coroutine of the program's cqueues, a step yields once, for that coroutine's controller; but the sender's coroutine
  -- yields to the sender, so the step continues at once.
  local function step()
    local co = coroutine.create(loop.step)
    local ran, fine, message = coroutine.resume(co, loop, 0)
    if coroutine.status(co) == "suspended" then ran, fine, message = coroutine.resume(co) end
    return ran and fine, ran and message or fine
  end

  function transport.post(request, deadline)
    local answer
    loop:wrap(function()
      local self = {}
      answer = { http.post(self, request, deadline, connect) }
      if self.stream then self.stream.close() end
    end)
    repeat
      local fine, message = step()
      if not fine then return nil, tostring(message) end
      if not answer then coroutine.yield() end
    until answer
    return answer[1], answer[2], answer[3]
  end

  local function wait(seconds)
    if loop:empty() then cqueues.sleep(seconds) else cqueues.poll(loop, seconds) end
  end

  function transport.wait(seconds)
    if cqueues.running() then return wait(seconds) end
    waiting:wrap(wait, seconds)
    assert(waiting:loop())
  end

  function transport.close() end

  return transport
end

return M
