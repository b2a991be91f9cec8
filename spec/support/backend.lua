--- Starts the program backend_server.lua for specs, reads its log, and stops it.
local core = require "perf.core"
local kit = require "testkit"
local util = require "spec.support.util"

local backend = {}

local Backend = {}
Backend.__index = Backend

local function wait_for(what, fn)
  local till = os.time() + 20
  repeat
    local v = fn()
    if v then return v end
    core.watch({}, 0.02)
  until os.time() > till
  error("waited in vain for " .. what, 3)
end
backend.wait_for = wait_for

--- Start a backend. options: port (any free one), statuses ("200"), log (a path, to which it appends).
function backend.start(options)
  options = options or {}
  local log = options.log or os.tmpname()
  local before = util.read_file(log)
  local pid = util.shell(("%s spec/support/backend_server.lua %d %s '%s' >/dev/null 2>%s.err & echo $!")
    :format(util.lua(), options.port or 0, log, options.statuses or "200", log)):match "%d+"
  local self = setmetatable({ pid = tonumber(pid), log = log }, Backend)
  self.port = wait_for("a backend's port", function()
    return util.read_file(log):sub(#before + 1):match "^port (%d+)\n" or util.read_file(log .. ".err"):match "%S"
      and error(util.read_file(log .. ".err"))
  end)
  self.url = "http://127.0.0.1:" .. self.port
  return self
end

function Backend:kill()
  if self.pid then
    kit.kill(self.pid, 9)
    self.pid = nil
  end
end

--- Kills it, and keeps its port until `stop`: connections are refused, and nobody but another backend gets the port.
function Backend:crash()
  local socket = require "socket"
  self:kill()
  self.place = assert((socket.tcp4 or socket.tcp)())
  assert(self.place:setoption("reuseaddr", true))
  wait_for("the port", function() return self.place:bind("127.0.0.1", self.port) end)
end

function Backend:stop()
  self:kill()
  if self.place then self.place:close() end
  os.remove(self.log)
  os.remove(self.log .. ".err")
end

--- The requests so far: array of {path=, headers=, body=}; without one that the backend is writing to its log now.
function Backend:requests()
  local text, list, at = util.read_file(self.log), {}, 1
  while at <= #text do
    local line, after = text:match("^([^\n]*)\n()", at)
    if not line then break end
    if line:find "^port " then
      at = after
    else
      local head, length, from = text:match("^(.-)\n\n(%d+)\n()", after)
      if not from or #text < from + length then break end
      local request = { path = line:match "^POST (%S+)", headers = {}, body = text:sub(from, from + length - 1) }
      for name, value in head:gmatch "([^\n:]+): ([^\n]*)" do request.headers[name:lower()] = value end
      list[#list + 1] = request
      at = from + length + 1
    end
  end
  return list
end

--- The spans of all OTLP requests, in order.
function Backend:spans()
  local json, list = require "dkjson", {}
  for _, request in ipairs(self:requests()) do
    local body = assert(json.decode(request.body))
    for _, s in ipairs(body.resourceSpans[1].scopeSpans[1].spans) do list[#list + 1] = s end
  end
  return list
end

return backend
