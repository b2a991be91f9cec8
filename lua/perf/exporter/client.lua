-- The common part of exporters: their URLs, headers and compression, and which answers are final.
local argument = require "perf.base.argument"
local copy = require "perf.base.copy"
local pairs_of = require "perf.base.pairs"
local clock = require "perf.base.clock"
local checks = require "perf.api.check"
local http = require "perf.exporter.http"
local retry_after = require "perf.exporter.retry_after"
local settings = require "perf.exporter.settings"
local transport = require "perf.exporter.transport"

local M = {}

local Exporter = {}
M.Exporter = Exporter

local check, timeout = checks.options "perf.exporter.otlp", checks.rows "perf.exporter.otlp".timeout

local defaults = { otlp = "http://localhost:4318", zipkin = "http://localhost:9411/api/v2/spans" }

local function is_header(name, value)
  return name ~= "" and not name:find "[^%w!#$%%&'*+.^_`|~-]" and not value:find "%c"
end

local function gzip_of(compression)
  if not compression or compression == "none" then return nil end
  if compression ~= "gzip" then return nil, ("unknown compression '%s'; there are gzip, none"):format(compression) end
  local ok, zlib = pcall(require, "zlib")
  if not ok then return nil, "compression 'gzip' needs lua-zlib (apt-get install lua-zlib)" end
  return function(body) return (zlib.deflate(1, 15 + 16)(body, "finish")) end
end

-- Take options that were not given from the environment.
local function from_environment(kind, o, warnings)
  local text = settings.text
  if kind == "zipkin" then
    if not o.endpoint then o.endpoint, o.variable = text "OTEL_EXPORTER_ZIPKIN_ENDPOINT" end
    o.timeout = o.timeout or settings.number(warnings, timeout, 1e3, "OTEL_EXPORTER_ZIPKIN_TIMEOUT")
    return
  end
  local function of(name) return "OTEL_EXPORTER_OTLP_TRACES_" .. name, "OTEL_EXPORTER_OTLP_" .. name end
  if not o.endpoint then
    o.endpoint, o.variable = text(of "ENDPOINT")
    o.exact = o.variable == (of "ENDPOINT") -- the variable for traces only
  end
  if not o.headers then
    local given, name = settings.list(warnings, of "HEADERS")
    o.headers = {}
    for key, value in pairs_of(given) do
      if is_header(key, value) then
        o.headers[key] = value
      else
        settings.warn(warnings, name, key, "not a header; it is ignored")
      end
    end
  end
  o.timeout = o.timeout or settings.number(warnings, timeout, 1e3, of "TIMEOUT")
  if not o.compression then
    local wanted, name = text(of "COMPRESSION")
    local _, message = gzip_of(wanted)
    if message then settings.warn(warnings, name, wanted, message .. "; nothing is compressed") else o.compression = wanted end
  end
  o.tls = o.tls or { cafile = text(of "CERTIFICATE"), key = text(of "CLIENT_KEY"), certificate = text(of "CLIENT_CERTIFICATE") }
end

-- The same server's URL with another path; the query after a "?" stays at the end.
local function with_path(url, path)
  return copy(url, { path = path .. (url.path:match "%?.*" or "") })
end

-- An endpoint of OTLP is a server, on which each signal has its own path. An endpoint for traces only is used unchanged.
local function urls_of(kind, o)
  local url, message = http.parse_url(o.endpoint or defaults[kind])
  if not url then return nil, message end
  local path = url.path:match "^[^?]*"
  if kind == "zipkin" then return { traces = path == "/" and with_path(url, "/api/v2/spans") or url } end
  local root = path:gsub("/+$", "")
  if root:find "/v1/traces$" then root = root:sub(1, -11) elseif o.exact then return { traces = url } end
  return { traces = with_path(url, root .. "/v1/traces"), metrics = with_path(url, root .. "/v1/metrics") }
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

local function headers_of(o, url)
  local headers, authorized = {}, false
  for name, value in pairs_of(o.headers or {}) do
    name, value = tostring(name), tostring(value)
    if not is_header(name, value) then argument.raise(("option 'headers': '%s' is not a header"):format(name), 1) end
    headers[name] = value
    authorized = authorized or name:lower() == "authorization"
  end
  if url.user and not authorized then headers.Authorization = "Basic " .. base64(settings.decode(url.user)) end
  headers["Content-Type"] = headers["Content-Type"] or "application/json"
  headers["User-Agent"] = headers["User-Agent"] or "lua-perf/" .. require "perf.version"
  return headers
end

-- A new exporter of a class.
-- @tab class with writer and rejected
-- @string kind "otlp" or "zipkin"
-- @tab[opt] options perf.exporter's; the environment provides the missing ones
-- @return exporter; raises for an unknown option or an invalid URL. An invalid URL in the environment does not raise: nothing is
-- exported then, and exporter.warnings says so
function M.new(class, kind, options)
  local o, warnings = check(options, 1), {}
  from_environment(kind, o, warnings)
  local urls, message = urls_of(kind, o)
  if not urls and not o.variable then argument.raise("option 'endpoint': " .. message, 1) end
  local useless
  if not urls then -- from the environment: the program must not fail for it
    useless = ("the environment's exporter: %s: %s; nothing is exported"):format(o.variable, message)
    warnings[#warnings + 1] = useless
    urls = urls_of(kind, {})
  end
  local gzip
  gzip, message = gzip_of(o.compression)
  if message then argument.raise(message, 1) end
  local headers = headers_of(o, urls.traces)
  if gzip then headers["Content-Encoding"] = "gzip" end
  return setmetatable({ kind = kind, urls = urls, headers = headers, timeout = o.timeout or 10, gzip = gzip, tls = o.tls,
    which = o.transport, warnings = warnings, useless = useless }, class)
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
  if self.gzip then body = self.gzip(body) end
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
  if self.useless then return ("perf.exporter.%s to nowhere"):format(self.kind) end
  local url = self.urls.traces
  return ("perf.exporter.%s to %s://%s%s"):format(self.kind, url.scheme, url.authority, url.path)
end

return M
