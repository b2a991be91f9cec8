-- HTTP/1.1 for exporters: one POST after another on a connection that is kept.
--
-- It uses a stream of the transport: send(text, deadline) and receive(deadline), which return true or some bytes, or nil,
-- message; close(). The transport decides how they wait, so this is plain sequential code, on LuaSocket (in the sender's
-- coroutine) and on nginx's cosockets.
local clock = require "perf.base.clock"
local pairs_of = require "perf.base.pairs"
local trim = require "perf.base.trim"

local M = {}

-- The largest sizes in bytes: of an answer, and of all of its lines, which are headers, lengths of chunks and answers before the
-- final one.
local MOST, MOST_LINES = 2 ^ 20, 2 ^ 16

-- A URL as messages show it: without its user and password.
-- @return string
local function shown(url)
  local scheme = url:match "^%a[%w+.-]*://" or ""
  return scheme .. url:sub(#scheme + 1):gsub("^.*@", "***@")
end
M.shown = shown

-- Take a URL apart.
-- @return {scheme=, host=, port=, path=, authority=}; or nil, message
function M.parse_url(url)
  local scheme, rest = tostring(url):match "^(%a[%w+.-]*)://(.+)$"
  scheme = scheme and scheme:lower()
  if scheme ~= "http" and scheme ~= "https" then
    return nil, ("'%s' is not an http or https URL"):format(shown(tostring(url)))
  end
  local authority, path = rest:match "^([^/?#]*)([^#]*)"
  local user = authority:match "^(.*)@"
  authority = authority:gsub("^.*@", "")
  local host, port = authority:match "^%[([%x:.]+)%]:?(%d*)$"
  if not host then host, port = authority:match "^([^:%s%c]+):?(%d*)$" end
  port = port ~= "" and tonumber(port) or scheme == "https" and 443 or 80
  if not host or path:find "[%s%c]" or port > 65535 then return nil, ("'%s' is not a URL"):format(shown(tostring(url))) end
  if path == "" or path:sub(1, 1) == "?" then path = "/" .. path end
  return { scheme = scheme, host = host, port = port, path = path, authority = authority, user = user }
end

-- Buffered reading. It ends whatever the other side sends, and even if no read ever waits: the size of an answer is bounded, and
-- after the deadline only bytes that may have come in time are read, in one piece.
local function reader(stream, deadline)
  local piece, at, lines = "", 1, 0 -- the last bytes received, the first that is not read, the bytes in lines
  local r, late = { got = 0 }, false
  local function more()
    if late then return nil, "timeout" end
    late = clock.now() > deadline
    local bytes, message = stream.receive(deadline)
    if not bytes then return nil, message end
    r.got = r.got + #bytes
    if r.got > MOST then return nil, "the answer is too long" end
    piece, at = bytes, 1
    return true
  end
  -- Read until last(size) returns where the text ends in the current piece; `size` is the length of the text before it.
  local function read(last)
    local parts, size = {}, 0
    while true do
      local stop = last(size)
      parts[#parts + 1] = piece:sub(at, stop or -1)
      size, at = size + #parts[#parts], stop and stop + 1 or #piece + 1
      local ok, message = stop, nil
      if not ok then ok, message = more() end
      if stop or not ok then return table.concat(parts), message end
    end
  end
  function r.line()
    local line, message = read(function() return piece:find("\n", at, true) end)
    lines = lines + #line
    if lines > MOST_LINES then message = "the answer is too long" end
    if message then return nil, message end
    return line:match "^(.-)\r?\n$"
  end
  function r.bytes(n)
    local text, message = read(function(size)
      local stop = at + n - size - 1
      return stop <= #piece and stop or nil
    end)
    if message then return nil, message end
    return text
  end
  function r.rest() return (read(function() end)) end
  return r
end

local function read_chunks(r)
  local parts = {}
  while true do
    local line, message = r.line()
    local digits = line and line:match "^0*(%x+)"
    if not digits then return nil, message or "a chunk without a length" end
    local size = tonumber(digits:sub(1, 9), 16) -- with more digits it is too long anyway, and might not be a number
    if size == 0 then
      repeat line, message = r.line() until not line or line == ""
      return line and table.concat(parts), message
    end
    parts[#parts + 1], message = r.bytes(size)
    if message then return nil, message end
    r.line()
  end
end

local function read_answer(r)
  local status, headers, version
  repeat -- 100 Continue comes before the answer
    local line, message = r.line()
    if not line then return nil, message end
    version, status = line:match "^HTTP/(1%.[01]) (%d%d%d)"
    if not status then return nil, "the answer is not HTTP/1" end
    status, headers = tonumber(status), {}
    while true do
      line, message = r.line()
      if not line then return nil, message end
      if line == "" then break end
      local name, value = line:match "^([^:]+):(.*)$"
      if name then headers[name:lower()] = trim(value) end
    end
  until status >= 200
  local keep = version == "1.1" and (headers.connection or ""):lower() ~= "close"
  local body, message
  if status == 204 or status == 304 then
    body = ""
  elseif (headers["transfer-encoding"] or ""):lower():find "chunked" then
    body, message = read_chunks(r)
  elseif headers["content-length"] then
    local length = headers["content-length"]:match "^%d+$"
    if not length then return nil, "the answer has a Content-Length that is not a number" end
    body, message = r.bytes(tonumber(length))
  else
    body, keep = r.rest(), false
  end
  if not body then return nil, message end
  return status, headers, body, keep
end

-- Post on a connection that `self` keeps between calls.
-- @param self a table; self.stream is the open connection
-- @param request {url=, headers=, body=}, url parsed
-- @param deadline by the monotonic clock, ns
-- @param connect function(url, deadline): stream, or nil, message
-- @return status, headers, body; or nil, message
function M.post(self, request, deadline, connect)
  local url = request.url
  local lines = { ("POST %s HTTP/1.1"):format(url.path), "Content-Length: " .. #request.body }
  for name, value in pairs_of(request.headers) do lines[#lines + 1] = name .. ": " .. value end
  local text = table.concat(lines, "\r\n") .. "\r\n\r\n" .. request.body
  while true do
    local stream, kept = self.stream, self.stream ~= nil
    local message
    self.stream = nil -- it is kept again at the end if it can be
    if not stream then
      stream, message = connect(url, deadline)
      if not stream then return nil, ("%s:%d: %s"):format(url.host, url.port, message) end
    end
    local r = reader(stream, deadline)
    local ok, status, headers, body, keep
    ok, message = stream.send(text, deadline)
    -- A backend that did not read the whole body may have answered before it closed the connection.
    if ok or message == "closed" then status, headers, body, keep = read_answer(r) end
    if status then
      keep = keep and ok
      if keep then self.stream = stream else stream.close() end
      return status, headers, body
    end
    stream.close()
    message = message or headers
    -- The other side may have closed a kept connection since; then this request has not failed.
    if not kept or r.got > 0 or message == "timeout" then return nil, ("%s:%d: %s"):format(url.host, url.port, message) end
  end
end

return M
