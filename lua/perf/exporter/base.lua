--- What exporters share: where they post to and with what, and which answers are final.
-- @module perf.exporter.base
local every = require "perf.every"
local clock = require "perf.trace.clock"
local extension = require "perf.extension"
local http = require "perf.exporter.http"
local transport = require "perf.exporter.transport"

local M = {}

local Exporter = {}
M.Exporter = Exporter

local known = { endpoint = "string", headers = "table", timeout = "number", compression = "string", tls = "table",
  transport = "string" }
local known_tls = { cafile = "string", capath = "string", key = "string", certificate = "string", verify = "boolean" }
local transports = { luasocket = true, luahttp = true, ngx = true }

local defaults = { otlp = "http://localhost:4318", zipkin = "http://localhost:9411/api/v2/spans" }

-- "key1=value1,key2=value2", percent-encoded, as in OTEL_EXPORTER_OTLP_HEADERS.
local function list_of(text)
  local t = {}
  local function char(h) return string.char(tonumber(h, 16)) end
  local function decode(s) return (s:match "^%s*(.-)%s*$":gsub("%%(%x%x)", char)) end
  for key, value in (text or ""):gmatch "%s*([^=,]+)=([^,]*)" do t[decode(key)] = decode(value) end
  return t
end
M.list_of = list_of

local function env(...)
  for _, name in ipairs { ... } do
    local v = os.getenv(name)
    if v and v ~= "" then return v end
  end
end

-- What the environment says where the options say nothing.
local function from_environment(kind, o)
  if kind == "zipkin" then
    o.endpoint = o.endpoint or env "OTEL_EXPORTER_ZIPKIN_ENDPOINT"
    o.timeout = o.timeout or (tonumber(env "OTEL_EXPORTER_ZIPKIN_TIMEOUT" or "") or 10000) / 1e3
    return
  end
  if not o.endpoint then
    local exact = env "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
    o.endpoint = exact or env "OTEL_EXPORTER_OTLP_ENDPOINT"
    o.exact = exact ~= nil
  end
  o.headers = o.headers or list_of(env("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"))
  local ms = env("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
  o.timeout = o.timeout or (tonumber(ms or "") or 10000) / 1e3
  o.compression = o.compression or env("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION")
  o.tls = o.tls or { cafile = env("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"),
    key = env("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"),
    certificate = env("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE") }
end

-- An endpoint of OTLP is a server's: each signal has its path there. One that names traces is exact.
local function urls_of(kind, o)
  local endpoint = o.endpoint or defaults[kind]
  if kind == "zipkin" then
    local url, message = http.parse_url(endpoint)
    if url and url.path == "/" then url.path = "/api/v2/spans" end
    return url and { traces = url }, message
  end
  local given, wrong = http.parse_url(endpoint)
  if not given then return nil, wrong end
  local root = endpoint:gsub("/+$", "")
  if root:find "/v1/traces$" then root = root:sub(1, -11) elseif o.exact then root = nil end
  if not root then return { traces = given } end
  return { traces = http.parse_url(root .. "/v1/traces"), metrics = http.parse_url(root .. "/v1/metrics") }
end

local function gzip_of(compression)
  if not compression or compression == "none" then return nil end
  if compression ~= "gzip" then return nil, ("unknown compression '%s'; there are gzip, none"):format(compression) end
  local ok, zlib = pcall(require, "zlib")
  if not ok then return nil, "compression 'gzip' needs lua-zlib (apt-get install lua-zlib)" end
  return function(body) return (zlib.deflate(1, 15 + 16)(body, "finish")) end
end

--- A new exporter of a class.
-- @tab class with writer and rejected
-- @string kind "otlp" or "zipkin"
-- @tab[opt] options as perf.exporter's; the environment fills in what is missing
-- @return exporter; raises for an unknown option or a wrong URL
function M.new(class, kind, options)
  options = extension.options(known, options, 1, 4)
  extension.options(known_tls, options.tls, 1, 4)
  local o = {}
  for k, v in every(options) do o[k] = v end
  from_environment(kind, o)
  local urls, message = urls_of(kind, o)
  if not urls then error("bad argument #1 (option 'endpoint': " .. message .. ")", 3) end
  if o.transport and not transports[o.transport] then
    error(("bad argument #1 (option 'transport': unknown '%s'; there are luahttp, luasocket, ngx)"):format(o.transport), 3)
  end
  local gzip
  gzip, message = gzip_of(o.compression)
  if message then error("bad argument #1 (" .. message .. ")", 3) end
  local headers = { ["Content-Type"] = "application/json", ["User-Agent"] = "lua-perf/" .. require "perf.version" }
  for name, value in every(o.headers or {}) do
    if tostring(name):find "[^%w!#$%%&'*+.^_`|~-]" or tostring(value):find "%c" then
      error(("bad argument #1 (option 'headers': '%s' is no header)"):format(tostring(name)), 3)
    end
    headers[name] = tostring(value)
  end
  if gzip then headers["Content-Encoding"] = "gzip" end
  return setmetatable({ kind = kind, urls = urls, headers = headers, timeout = o.timeout, gzip = gzip, tls = o.tls or {},
    which = o.transport }, class)
end

--- A transport for one sender.
function Exporter:transport() return transport.new(self.which, self.tls) end

local try_again = { [408] = true, [429] = true, [502] = true, [503] = true, [504] = true }

--- Post one body.
-- @param carrier a transport
-- @string body JSON
-- @string signal "traces" or "metrics"
-- @return how many of its spans the backend did not keep (0), and perhaps its words; or nil, message, whether it is worth trying
-- again, and the seconds that the backend asked for
function Exporter:post(carrier, body, signal)
  local url = self.urls[signal]
  if not url then return 0 end
  if self.gzip then body = self.gzip(body) end
  local deadline = clock.now() + self.timeout * 1e9
  local status, headers, answer = carrier.post({ url = url, headers = self.headers, body = body }, deadline)
  if not status then return nil, headers, true end
  if status >= 200 and status < 300 then return self:rejected(answer) end
  return nil, ("%s:%d%s answered %d %s"):format(url.host, url.port, url.path, status, answer:sub(1, 200)),
    try_again[status] or false, tonumber(headers["retry-after"])
end

function Exporter:tostring()
  local url = self.urls.traces
  return ("perf.exporter.%s to %s://%s%s"):format(self.kind, url.scheme, url.authority, url.path)
end

return M
