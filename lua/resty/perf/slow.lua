-- Slow requests: a line in the error log with their counts, and the newest of all workers for the status page.
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"
local format = require "perf.base.format"
local json = require "perf.base.json"
local names = require "perf.names"
local utf8 = require "perf.base.utf8"

local M = {}

M.KEPT = 50
local LONGEST = 256 -- bytes of a URI, as in resty.perf.blocked: nginx cuts a line after 2 KiB

local function bad(text, ...) argument.raisef("slow: " .. text, ...) end

-- A function that recognizes slow requests.
-- @param slow seconds from a request's first byte to its end; or a table of limits: of events by their labels, and `time` for
-- these seconds
-- @param[opt] counted the set of the labels that are counted; nil: any event
-- @return is_slow(seconds, counts), which never raises; the seconds, or nil. Raises if slow is neither.
function M.new(slow, counted)
  if type(slow) == "number" then slow = { time = slow } end
  if type(slow) ~= "table" then bad("seconds or table expected, got %s", type(slow)) end
  for k, v in pairs_of(slow) do
    if type(k) ~= "string" or type(v) ~= "number" then bad("%s: number expected, got %s", tostring(k), type(v)) end
  end
  local time = slow.time
  local labels = {}
  for label in pairs_of(slow) do
    if label ~= "time" then
      if not counted then
        names.resolve_counted(label) -- raises for an unknown one
      elseif not counted[label] then
        bad("'%s' is not one of the events", label)
      end
      labels[#labels + 1] = label
    end
  end
  return function(seconds, counts)
    if time and seconds >= time then return true end
    for _, label in ipairs(labels) do
      local found = counts()
      local v = found and found[label]
      if v and v > slow[label] then return true end
    end
    return false
  end, time
end

local function without_query(uri) return (uri:gsub("%?.*", "?...")) end

-- A function that returns the text to show for a request's URI; by default without the query string, which may contain secrets.
-- Its first 256 bytes are shown. It never raises.
-- @param[opt] redact option of perf.start
-- @param[opt] failed called with a message if redact fails
function M.redacting(redact, failed)
  if redact == nil then redact = without_query end
  if type(redact) ~= "function" then argument.raisef("redact: function expected, got %s", type(redact)) end
  return function(uri)
    local ok, text = pcall(redact, uri)
    if not ok or type(text) ~= "string" then
      if failed then failed(ok and "a string expected, got " .. type(text) or tostring(text)) end
      return "(redacted)"
    end
    return utf8.valid(#text > LONGEST and text:sub(1, LONGEST) .. "... (cut)" or text)
  end
end

-- A time in ns as text without spaces.
function M.show(ns) return (format.ns(ns):gsub(" ", "")) end

local function value(e)
  if not e.value then return "-" end
  return e.unit == "ns" and M.show(e.value) or format.commas(e.value):gsub(",", "")
end

-- The line: "slow request: 0.512 s, /cart, GET /cart?... 200: lua 1.204ms, task-clock 1.198ms, page-faults 64".
-- @param request {seconds=, route=, method=, uri=, status=, counts=, wait=}: counts is nil for a request that was not counted;
-- wait is a text that says where it waited
function M.line(request)
  local counts, parts = request.counts, { "not counted" }
  if counts then parts[1] = "lua " .. M.show(tonumber(counts.wall_ns)) end
  for _, e in ipairs(counts or {}) do
    if e.value then parts[#parts + 1] = e.label .. " " .. value(e) end
  end
  parts[#parts + 1] = request.wait
  return ("slow request: %.3f s, %s, %s %s %d: %s"):format(request.seconds, request.route, request.method, request.uri,
    request.status, table.concat(parts, ", "))
end

-- Keep a slow request for the status page.
function M.keep(dict, request)
  local events = {}
  for _, e in ipairs(request.counts or {}) do
    if e.value then events[e.label] = e.value end
  end
  dict:safe_add("slow", 0)
  local n = dict:incr("slow", 1)
  if not n then return end
  dict:safe_set("slow" .. n % M.KEPT, json.encode { at = ngx.time(), seconds = request.seconds, route = request.route,
    method = request.method, uri = request.uri, status = request.status, wait = request.wait, counts = events,
    lua_ns = request.counts and request.counts.wall_ns })
end

-- The newest slow requests, newest first, as JSON texts.
function M.recent(dict)
  local list, n = {}, dict:get "slow" or 0
  for i = n, math.max(1, n - M.KEPT + 1), -1 do
    list[#list + 1] = dict:get("slow" .. i % M.KEPT)
  end
  return list
end

return M
