-- OTLP over HTTP, in JSON, for the OpenTelemetry collector, Jaeger, Tempo and others at port 4318.
--
--     exporter = perf.exporter.otlp {endpoint = "http://127.0.0.1:4318"}
--
-- In this format 64-bit numbers are strings, and ids are hexadecimal. Counts are integer attributes: perf.page-faults and, if it
-- is known, perf.self.page-faults; a clock's are nanoseconds.
local pairs_of = require "perf.base.pairs"
local client = require "perf.exporter.client"
local clock = require "perf.base.clock"
local json = require "perf.base.json"
local settings = require "perf.exporter.settings"
local span_counts = require "perf.exporter.span_counts"
local values = require "perf.exporter.values"

local quote, number, count, join = json.quote, values.number, values.count, values.join
local concat, format = table.concat, string.format

local key_text = values.keep(function(key) return '{"key":' .. quote(key) .. ',"value":{' end)

local function value_text(v)
  local kind = type(v)
  if kind == "string" then return '"stringValue":' .. quote(v) end
  if kind == "boolean" then return '"boolValue":' .. tostring(v) end
  if kind == "table" then
    return '"arrayValue":{"values":[' .. join(v, function(item) return "{" .. value_text(item) .. "}" end) .. "]}"
  end
  local what, digits = number(v)
  if what == "double" then return '"doubleValue":' .. digits end
  return '"' .. what .. 'Value":"' .. digits .. '"'
end

local function attributes_text(t)
  local parts = {}
  for key, v in pairs_of(t) do parts[#parts + 1] = key_text(key) .. value_text(v) .. "}}" end
  return concat(parts, ",")
end

local total_key = values.keep(function(label) return key_text("perf." .. label) .. '"intValue":"' end)
local self_key = values.keep(function(label) return key_text("perf.self." .. label) .. '"intValue":"' end)

local out -- the attributes of the span that is being written
local function put_count(label, _, total, own)
  local digits = count(total)
  if digits then out[#out + 1] = total_key(label) .. digits .. '"}}' end
  digits = own and count(own)
  if digits then out[#out + 1] = self_key(label) .. digits .. '"}}' end
end

-- The attributes of an event or a link, and the number of those that its limit dropped.
local function details_text(t)
  return (t.attributes and ',"attributes":[' .. attributes_text(t.attributes) .. "]" or "")
    .. (t.dropped and ',"droppedAttributesCount":' .. t.dropped or "")
end

local function link_text(l)
  return format('{"traceId":"%s","spanId":"%s"%s%s}', l.trace_id, l.span_id,
    l.tracestate and ',"traceState":' .. quote(l.tracestate) or "", details_text(l))
end

local names = values.keep(quote)

-- One span as JSON text.
local function span_text(s)
  out = {}
  local attributes = s.attributes
  if attributes then
    for key, v in pairs_of(attributes) do
      if not span_counts.has(s, key) then out[#out + 1] = key_text(key) .. value_text(v) .. "}}" end
    end
  end
  span_counts.each(s, put_count)
  local rest = ""
  if s.events then
    rest = ',"events":[' .. join(s.events, function(e)
      return format('{"timeUnixNano":"%s","name":%s%s}', clock.text(s.anchor, e.at, e.moment), quote(e.name), details_text(e))
    end) .. "]"
  end
  if s.links then rest = rest .. ',"links":[' .. join(s.links, link_text) .. "]" end
  if s.status then
    rest = rest .. ',"status":{"code":' .. s.status .. (s.message and ',"message":' .. quote(s.message) or "") .. "}"
  end
  if s.dropped then rest = rest .. ',"droppedAttributesCount":' .. s.dropped end
  if s.dropped_events then rest = rest .. ',"droppedEventsCount":' .. s.dropped_events end
  if s.dropped_links then rest = rest .. ',"droppedLinksCount":' .. s.dropped_links end
  if s.tracestate then rest = rest .. ',"traceState":' .. quote(s.tracestate) end
  return concat { '{"traceId":"', s.trace_id, '","spanId":"', s.span_id,
    s.parent_id and '","parentSpanId":"' .. s.parent_id or "", '","name":', names(s.name), ',"kind":', s.kind,
    ',"startTimeUnixNano":"', clock.text(s.anchor, s.start, s.began), '","endTimeUnixNano":"',
    clock.text(s.anchor, s.start + s.duration, s.ended), '","attributes":[', concat(out, ","), "]", rest, "}" }
end

local function head(resource, list, scope)
  return format('{"%s":[{"resource":{"attributes":[%s]},"%s":[{"scope":{"name":"lua-perf","version":%s},', list,
    attributes_text(resource), scope, quote(require "perf.version"))
end

local Writer = {}
Writer.__index = Writer

function Writer:add(s)
  local part = span_text(s)
  self.parts[#self.parts + 1] = part
  return #part
end

function Writer:finish(first, last)
  return self.head .. '"spans":[' .. concat(self.parts, ",", first, last) .. "]}]}]}"
end

--- OTLP over HTTP in JSON, for the OpenTelemetry collector, Jaeger, Tempo and others at port 4318. Missing options are taken from
-- the environment: OTEL_EXPORTER_OTLP_ENDPOINT, ..._HEADERS, ..._TIMEOUT and the others.
-- @function perf.exporter.otlp
-- @tparam[opt] table options
-- @treturn table exporter
-- @raise for an unknown option or an invalid URL
local Otlp = client.class "perf.exporter.otlp"

function Otlp.check_environment(warnings)
  local protocol, name = settings.text("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
  if protocol and protocol ~= "http/json" then settings.warn(warnings, name, protocol, "only http/json is supported") end
end

-- An endpoint is a server, on which each signal has its own path. An endpoint for traces only is used unchanged.
function Otlp.urls(url, variable)
  local root = url.path:match "^[^?]*":gsub("/+$", "")
  if root:find "/v1/traces$" then
    root = root:sub(1, -11)
  elseif variable == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" then
    return { traces = url }
  end
  return { traces = client.with_path(url, root .. "/v1/traces"), metrics = client.with_path(url, root .. "/v1/metrics") }
end

function Otlp.writer(_, resource)
  return setmetatable({ head = head(resource, "resourceSpans", "scopeSpans"), parts = {} }, Writer)
end

function Otlp.metrics(_, resource, list)
  return head(resource, "resourceMetrics", "scopeMetrics") .. '"metrics":[' .. list .. "]}]}]}"
end

function Otlp.rejected(_, body)
  local answer = json.decode(body)
  local partial = type(answer) == "table" and answer.partialSuccess
  if type(partial) ~= "table" then return 0 end
  local message = partial.errorMessage
  local n = tonumber(partial.rejectedSpans or partial.rejectedDataPoints) or 0
  return n > 0 and math.floor(n) or 0,
    type(message) == "string" and message ~= "" and "the backend says: " .. message or nil
end

return Otlp
