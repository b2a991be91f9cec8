-- The common part of exporters: their options and URLs, headers and compression, and which answers are final.
--
-- An exporter is a file of this folder with the name of its function in perf.api, whose options perf.api.options declares. It
-- returns a table made by client.class, with these functions (zipkin.lua is a short one):
--
--     urls(url, variable)       the parsed URLs of the signals, {traces=, metrics=}, from the endpoint's; `variable` is the name
--                               of the environment's variable that gave the endpoint, or nil
--     writer(self, resource)    a new encoder of spans for a process with these attributes: writer:add(span) returns the size
--                               of the encoded span in bytes; writer:finish([first, last]) returns the text of these spans, or
--                               of all
--     rejected(self, answer)    the number of spans that the backend rejected, from its answer to a request that it accepted;
--                               and perhaps its message
--
-- and, if needed, these:
--
--     metrics(self, resource, list)   the text of metrics, which are given as JSON with commas between. Without this function
--                                     no metrics are sent
--     check_environment(warnings)     adds warnings about variables that are no options; called if no endpoint was given
local copy = require "perf.base.copy"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local clock = require "perf.base.clock"
local checks = require "perf.api.check"
local declared = require "perf.api.options"
local http = require "perf.exporter.http"
local retry_after = require "perf.exporter.retry_after"
local settings = require "perf.exporter.settings"
local transport = require "perf.exporter.transport"

local M = {}

local Exporter = {}

local LONGEST = (2 ^ 31 - 1) / 1e3 -- seconds; nginx stores milliseconds in 32 bits

local unpack = table.unpack or unpack

local function is_header(name, value)
  return name ~= "" and not name:find "[^%w!#$%%&'*+.^_`|~-]" and not value:find "%c"
end

local function wrong_headers(headers)
  for name, value in pairs_of(headers) do
    if not is_header(tostring(name), tostring(value)) then return ("'%s' is not a header"):format(tostring(name)) end
  end
end

local function wrong_endpoint(text) return select(2, http.parse_url(text)) end

local function wrong_compression(name)
  if name == "gzip" and not pcall(require, "zlib") then
    return "compression 'gzip' needs lua-zlib (apt-get install lua-zlib)"
  end
end

local own_checks = { endpoint = wrong_endpoint, headers = wrong_headers, compression = wrong_compression }

-- A new class of exporters.
-- @string name its function's in perf.api.options
function M.class(name)
  local class = { name = name, check = checks.options(name, own_checks), __tostring = Exporter.tostring }
  class.__index = class
  return setmetatable(class, { __index = Exporter })
end

-- The headers in the environment.
local function headers_of(row, warnings)
  local headers = {}
  local given, variable = settings.list(warnings, unpack(row.variables or {}))
  for name, value in pairs_of(given) do
    if is_header(name, value) then
      headers[name] = value
    else
      settings.warn(warnings, variable, name, "not a header; it is ignored")
    end
  end
  return headers
end

-- The same server's URL with another path; the query after a "?" stays at the end.
function M.with_path(url, path)
  return copy(url, { path = path .. (url.path:match "%?.*" or "") })
end

local digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function base64(text)
  return (text:gsub("..?.?", function(three)
    local a, b, c = three:byte(1, 3)
    local n, out = a * 65536 + (b or 0) * 256 + (c or 0), ""
    for shift = 18, 0, -6 do
      local d = math.floor(n / 2 ^ shift) % 64 + 1
      out = out .. digits:sub(d, d)
    end
    return out:sub(1, #three + 1) .. ("="):rep(3 - #three)
  end))
end

-- The headers of each request. Their names are case-insensitive, so a header of the user replaces the exporter's; but the length
-- and the encoding of the body are always the exporter's.
local function all_headers(options, url)
  local own = { Host = url.authority, ["Content-Type"] = "application/json",
    ["User-Agent"] = "lua-perf/" .. require "perf.version",
    Authorization = url.user and "Basic " .. base64(settings.decode(url.user)) }
  local fixed = { ["Content-Length"] = false, ["Transfer-Encoding"] = false,
    ["Content-Encoding"] = options.compression == "gzip" and "gzip" or nil }
  local headers, spelling = {}, {} -- spelling: the name of a header by its name in lower case
  for _, list in ipairs { own, options.headers, fixed } do
    for name, value in pairs_of(list) do
      name = tostring(name)
      local key = name:lower()
      headers[spelling[key] or name] = nil
      headers[name], spelling[key] = value and tostring(value) or nil, name
    end
  end
  return headers
end

-- A new exporter.
-- @string name its function's in perf.exporter
-- @tab[opt] options the function's; the environment provides the missing ones
-- @return exporter; raises for a wrong option. A wrong endpoint in the environment does not raise: nothing is exported then, and
-- exporter.warnings says so
function M.new(name, options)
  local class, warnings, variable, useless = late("perf.exporter." .. name), {}, nil, nil
  local o, rows = class.check(options, 1), checks.rows(class.name)
  if not o.endpoint then
    if class.check_environment then class.check_environment(warnings) end
    variable = select(2, settings.text(unpack(rows.endpoint.variables)))
  end
  o.headers = o.headers or headers_of(rows.headers, warnings)
  settings.fill(warnings, declared[class.name], o, { compression = wrong_compression })
  o.tls = o.tls or settings.fill(warnings, rows.tls.options, {})
  local url, message = http.parse_url(o.endpoint)
  if not url then -- it came from the environment: the program must not fail for it
    useless = ("the environment's exporter: %s: %s; nothing is exported"):format(variable, message)
    warnings[#warnings + 1] = useless
    url = http.parse_url(rows.endpoint.otherwise)
  end
  return setmetatable({ urls = class.urls(url, variable), headers = all_headers(o, url),
    timeout = o.timeout == 0 and LONGEST or math.min(o.timeout, LONGEST),
    gzip = o.compression == "gzip", tls = o.tls, which = o.transport, warnings = warnings, useless = useless }, class)
end

-- A transport for one sender.
-- @return transport; or nil, message if there is none, or if the endpoint in the environment is invalid
function Exporter:transport()
  if self.useless then return nil, self.useless end
  return transport.new(self.which, self.tls)
end

local try_again = { [429] = true, [502] = true, [503] = true, [504] = true }

-- Post one body.
-- @param carrier a transport
-- @string body JSON
-- @string signal "traces" or "metrics"
-- @return the number of its spans that the backend rejected (0), and perhaps its message; or nil, message, whether to retry
-- ("smaller": with fewer spans), and the seconds that the backend wants us to wait
function Exporter:post(carrier, body, signal)
  local url = self.urls[signal]
  if not url then return 0 end
  if self.gzip then body = require "zlib".deflate(1, 15 + 16)(body, "finish") end
  local deadline = clock.now() + self.timeout * 1e9
  local status, headers, answer = carrier.post({ url = url, headers = self.headers, body = body }, deadline)
  if not status then return nil, headers, true end
  if status >= 200 and status < 300 then return self:rejected(answer) end
  -- The OpenTelemetry collector answers 400 with this text if the body exceeds its limit.
  local too_large = status == 413 or status == 400 and answer:find("request body too large", 1, true)
  return nil, ("%s:%d%s answered %d %s"):format(url.host, url.port, url.path, status, answer:sub(1, 200)),
    too_large and "smaller" or try_again[status] or false, retry_after.seconds(headers)
end

function Exporter:tostring()
  if self.useless then return self.name .. " to nowhere" end
  local url = self.urls.traces
  return ("%s to %s://%s%s"):format(self.name, url.scheme, url.authority, url.path)
end

return M
