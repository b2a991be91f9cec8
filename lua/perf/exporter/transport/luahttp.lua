-- Posting over lua-http, if LuaSocket is not installed. A request runs in a coroutine of a separate cqueues controller; where it
-- would wait, the sender's coroutine yields.
local pairs_of = require "perf.base.pairs"
local clock = require "perf.base.clock"
local cqueues = require "cqueues"
local request_of = require "http.request"

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
  local loop = cqueues.new()
  local transport = { rest = coroutine.yield, connected = function() end }

  function transport.post(request, deadline)
    local answer
    loop:wrap(function()
      local url = request.url
      local req = request_of.new_from_uri(("%s://%s%s"):format(url.scheme, url.authority, url.path))
      req.headers:upsert(":method", "POST")
      for name, value in pairs_of(request.headers) do req.headers:upsert(name:lower(), value) end
      req:set_body(request.body)
      req.ctx = ctx
      local seconds = math.max((deadline - clock.now()) / 1e9, 0.001)
      local headers, stream = req:go(seconds)
      if not headers then
        answer = { nil, tostring(stream) }
        return
      end
      local fields = {}
      for name, value in headers:each() do fields[name] = value end
      answer = { tonumber(fields[":status"]), fields, stream:get_body_as_string(seconds) or "" }
      stream:shutdown()
    end)
    local begun
    repeat
      local fine, message = loop:step(0)
      if not fine then return nil, tostring(message) end
      if not begun then transport.connected() end -- or tries to
      begun = true
      if not answer then coroutine.yield() end
    until answer
    return answer[1], answer[2], answer[3]
  end

  function transport.wait(seconds)
    if loop:empty() then cqueues.sleep(seconds) else cqueues.poll(loop, seconds) end
  end

  function transport.close() end

  return transport
end

return M
