--- A tracing backend for specs, run as a program: accepts POSTs, answers with the given statuses, and logs the requests.
--
--     LUA spec/support/backend_server.lua PORT LOG [STATUS,STATUS,...] [SECONDS]
--
-- PORT 0 is any free port; the first line of LOG is the port. A request is logged as a line "POST PATH", its headers, an empty
-- line and the body with its length before it. Each request gets the next status, later ones the last; "drop" closes the
-- connection without an answer, "200slow" answers after half a second, "200bare" with an invalid length. The program ends by
-- itself after 180 seconds.
local socket = require "socket"

local port, log, statuses = arg[1], arg[2], arg[3] or "200"
local list, served = {}, 0
for status in statuses:gmatch "[^,]+" do list[#list + 1] = status end

local out = assert(io.open(log, "a"))
local server = assert(socket.bind("127.0.0.1", tonumber(port)))
local _, bound = server:getsockname()
out:write("port ", bound, "\n")
out:flush()
server:settimeout(1)

local function serve(client)
  client:settimeout(30)
  while true do
    local line = client:receive "*l"
    if not line then return end
    local headers, length = {}, 0
    repeat
      local header = client:receive "*l"
      if not header then return end
      headers[#headers + 1] = header
      length = tonumber(header:match "^[Cc]ontent%-[Ll]ength: (%d+)") or length
    until header == ""
    local body = length > 0 and client:receive(length) or ""
    served = served + 1
    local status = list[math.min(served, #list)]
    out:write(line:match "^POST %S+" or line, "\n", table.concat(headers, "\n"), "\n", #body, "\n", body, "\n")
    out:flush()
    if status == "drop" then return end
    local code, more = status:match "^(%d+)(.*)$"
    local answer = more == "partial" and '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"one too many"}}' or "{}"
    if more == "slow" then socket.sleep(0.5) end
    client:send(("HTTP/1.1 %s Status\r\nContent-Length: %s\r\n%s\r\n%s"):format(code, more == "bare" and "what" or #answer,
      more == "later" and "Retry-After: 1\r\n" or "", answer))
  end
end

local till = socket.gettime() + 180
while socket.gettime() < till do
  local client = server:accept()
  if client then
    serve(client)
    client:close()
  end
end
