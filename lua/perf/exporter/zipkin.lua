-- Zipkin's v2 JSON, for Zipkin and Jaeger at port 9411.
--
--     exporter = perf.exporter.zipkin {endpoint = "http://127.0.0.1:9411/api/v2/spans"}
--
-- In this format times are whole microseconds and tags are strings, so a 64-bit count stays exact. Zipkin has no status: an error
-- is the tag "error". It has no counts of dropped items either: these are the tags otel.dropped_attributes_count,
-- ..._events_count and ..._links_count. The server converts names to lower case.
local pairs_of = require "perf.base.pairs"
local client = require "perf.exporter.client"
local clock = require "perf.base.clock"
local span_counts = require "perf.exporter.span_counts"
local values = require "perf.exporter.values"

local quote, number, count, join = require "perf.base.json".quote, values.number, values.count, values.join
local concat, format = table.concat, string.format
local keys, names = values.keep(quote), values.keep(quote)
local kinds = { [2] = "SERVER", [3] = "CLIENT", [4] = "PRODUCER", [5] = "CONSUMER" }

local function plain(v)
  local kind = type(v)
  if kind == "string" then return v end
  if kind == "boolean" then return tostring(v) end
  if kind == "table" then return join(v, plain) end
  local _, digits = number(v)
  return (digits:gsub('"', ""))
end

local out -- the tags of the span that is being written
local function put(key, v) out[#out + 1] = keys(key) .. ":" .. quote(v) end

local total_key = values.keep(function(label) return keys("perf." .. label) .. ':"' end)
local self_key = values.keep(function(label) return keys("perf.self." .. label) .. ':"' end)

local function put_count(label, _, total, own)
  local digits = count(total)
  if digits then out[#out + 1] = total_key(label) .. digits .. '"' end
  digits = own and count(own)
  if digits then out[#out + 1] = self_key(label) .. digits .. '"' end
end

local function annotation_text(anchor, e)
  local words = { e.name }
  for key, v in pairs_of(e.attributes or {}) do words[#words + 1] = key .. "=" .. plain(v) end
  table.sort(words, function(a, b) return a == e.name and b ~= e.name or b ~= e.name and a < b end)
  return format('{"timestamp":%s,"value":%s}', clock.micros_text(anchor, e.at, e.moment), quote(concat(words, " ")))
end

local Writer = {}
Writer.__index = Writer

function Writer:add(s)
  out = {}
  for key, v in pairs_of(s.attributes or {}) do
    if (key ~= "error" or s.status ~= 2) and not span_counts.has(s, key) then put(key, plain(v)) end
  end
  span_counts.each(s, put_count)
  if s.status == 2 then put("error", s.message or "true") end
  if s.dropped then put("otel.dropped_attributes_count", tostring(s.dropped)) end
  if s.dropped_events then put("otel.dropped_events_count", tostring(s.dropped_events)) end
  if s.dropped_links then put("otel.dropped_links_count", tostring(s.dropped_links)) end
  local annotations = s.events and join(s.events, function(e) return annotation_text(s.anchor, e) end)
  local from, till = s.began or clock.moment(s.anchor, s.start), s.ended or clock.moment(s.anchor, s.start + s.duration)
  local took = math.max(clock.micros_between(from, till), 1) -- 0 would mean unknown
  local part = concat { '{"traceId":"', s.trace_id, '","id":"', s.span_id,
    s.parent_id and '","parentId":"' .. s.parent_id or "", '","name":', names(s.name),
    kinds[s.kind] and ',"kind":"' .. kinds[s.kind] .. '"' or "",
    format(',"timestamp":%s,"duration":%.0f', clock.micros_text(nil, nil, from), took),
    ',"localEndpoint":', self.endpoint, s.debug and ',"debug":true' or "", ',"tags":{', concat(out, ","), "}",
    annotations and ',"annotations":[' .. annotations .. "]" or "", "}" }
  self.parts[#self.parts + 1] = part
  return #part
end

function Writer:finish(first, last) return "[" .. concat(self.parts, ",", first, last) .. "]" end

--- Zipkin's v2 JSON, for Zipkin and Jaeger at port 9411.
-- @function perf.exporter.zipkin
-- @tparam[opt] table options
-- @treturn table exporter
-- @raise for an unknown option or an invalid URL
local Zipkin = client.class "perf.exporter.zipkin"

function Zipkin.urls(url)
  return { traces = url.path:match "^[^?]*" == "/" and client.with_path(url, "/api/v2/spans") or url }
end

-- Zipkin has only one attribute of the resource, the service's name.
function Zipkin.writer(_, resource)
  return setmetatable({ endpoint = '{"serviceName":' .. quote(resource["service.name"]) .. "}", parts = {} }, Writer)
end

function Zipkin.rejected() return 0 end

return Zipkin
