-- Contexts in and out of headers: W3C Trace Context (traceparent, tracestate) and B3 (single and multi).
--
-- A context is a table: trace_id (32 digits) and span_id (16), sampled (true, false, or nil if it is undecided), debug (B3),
-- tracestate (text), remote = true. A B3 header may contain only the sampling decision: then there are no ids.
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"
local trim = require "perf.base.trim"

local M = {}

local function id(text, digits)
  if type(text) ~= "string" or #text ~= digits or text:find "[^0-9a-f]" or not text:find "[^0]" then return nil end
  return text
end

-- The reason why a table is not a context; nil if it is one. A context without ids has only the sampling decision.
function M.invalid_context(context)
  local trace, span, state = context.trace_id, context.span_id, context.tracestate
  if trace == nil and span == nil then return nil end
  if not id(trace, 32) then return "trace_id is 32 hexadecimal digits in lower case, not all 0" end
  if span ~= nil and not id(span, 16) then return "span_id is 16 hexadecimal digits in lower case, not all 0" end
  if state ~= nil and type(state) ~= "string" then return "tracestate is a string" end
end

-- Raise an error at the caller of the public function unless headers can be read or written.
function M.check_headers(headers)
  local kind = type(headers)
  if kind ~= "table" and kind ~= "function" then argument.raise(("table or function expected, got %s"):format(kind), 1) end
  return headers
end

-- One text of the lines of a header that came several times; nil if one of them has another type.
local function joined(lines)
  for i = 1, #lines do
    if type(lines[i]) ~= "string" then return nil end
  end
  return table.concat(lines, ",")
end

-- Header names are case-insensitive, and a client may write them in any way. get(name, true) makes one list of the lines of a
-- header that may have several.
local function getter(headers)
  local lower
  return function(name, all)
    local v
    if type(headers) == "function" then v = headers(name) else v = headers[name] end
    if v == nil and type(headers) == "table" then
      if not lower then
        lower = {}
        for k, value in pairs_of(headers) do
          if type(k) == "string" then lower[k:lower()] = value end
        end
      end
      v = lower[name]
    end
    if type(v) == "table" then
      -- A header that came twice is ambiguous; a list of one is that one.
      if all then v = joined(v) else v = #v == 1 and v[1] or nil end
    end
    return type(v) == "string" and trim(v) or nil
  end
end

-- key=value, at most 32 of them; one invalid member invalidates all.
local function tracestate(text)
  if not text then return nil end
  local members, seen = {}, {}
  for member in text:gmatch "[^,]+" do
    member = trim(member)
    if member ~= "" then
      local key, value = member:match "^([a-z0-9][a-z0-9_%-*/@]*)=([\32-\43\45-\60\62-\126]+)$"
      if not key or #key > 256 or #value > 256 or seen[key] then return nil end
      seen[key] = true
      members[#members + 1] = member
    end
  end
  if #members == 0 or #members > 32 then return nil end
  return table.concat(members, ",")
end

local formats = {} -- the keys are the values of the option `propagators` in perf.api.options

formats.tracecontext = {
  extract = function(get)
    local text = get "traceparent"
    if not text then return nil end
    local version, trace, span, flags, rest = text:match "^(%x%x)%-(%x+)%-(%x+)%-(%x%x)(.*)$"
    if not version or version:find "%u" or flags:find "%u" or version == "ff" then return nil end
    if version == "00" and rest ~= "" or rest ~= "" and rest:sub(1, 1) ~= "-" then return nil end
    trace, span = id(trace, 32), id(span, 16)
    if not trace or not span then return nil end
    return { trace_id = trace, span_id = span, sampled = tonumber(flags:sub(2), 16) % 2 == 1,
      tracestate = tracestate(get("tracestate", true)), remote = true }
  end,
  inject = function(context, set)
    if not context.trace_id then return end
    set("traceparent", ("00-%s-%s-%s"):format(context.trace_id, context.span_id, context.sampled and "01" or "00"))
    if context.tracestate then set("tracestate", context.tracestate) end
  end,
}

local states = { ["1"] = true, ["0"] = false, ["d"] = true, ["true"] = true, ["false"] = false }

-- Old ids have 16 digits.
local function b3_trace(text)
  text = text and text:lower()
  return id(text, 32) or id(text, 16) and ("0"):rep(16) .. text
end

local function b3_context(trace, span, state, debug)
  if not trace and not span then
    if state == nil and not debug then return nil end
    return { sampled = debug or state, debug = debug or nil, remote = true }
  end
  trace, span = b3_trace(trace), id(span and span:lower(), 16)
  if not trace or not span then return nil end
  local sampled = state
  if debug then sampled = true end
  return { trace_id = trace, span_id = span, sampled = sampled, debug = debug or nil, remote = true }
end

formats.b3 = {
  extract = function(get)
    local text = get "b3"
    if not text then return nil end
    if states[text] ~= nil and #text == 1 then return b3_context(nil, nil, states[text], text == "d") end
    local trace, span, rest = text:match "^(%x+)%-(%x+)(.*)$"
    if not trace then return nil end
    local state, parent = rest:match "^%-([01d])(.*)$"
    if rest ~= "" and not state or parent and parent ~= "" and not id(parent:lower():match "^%-(%x+)$", 16) then return nil end
    return b3_context(trace, span, states[state], state == "d")
  end,
  inject = function(context, set)
    local state = context.debug and "d" or context.sampled and "1" or context.sampled == false and "0" or nil
    if not context.trace_id then
      if state then set("b3", state) end
      return
    end
    set("b3", context.trace_id .. "-" .. context.span_id .. (state and "-" .. state or "")
      .. (state and context.parent_id and "-" .. context.parent_id or ""))
  end,
}

formats.b3multi = {
  extract = function(get)
    local sampled = get "x-b3-sampled"
    return b3_context(get "x-b3-traceid", get "x-b3-spanid", sampled and states[sampled:lower()], get "x-b3-flags" == "1")
  end,
  inject = function(context, set)
    if context.trace_id then
      set("X-B3-TraceId", context.trace_id)
      set("X-B3-SpanId", context.span_id)
      if context.parent_id then set("X-B3-ParentSpanId", context.parent_id) end
    end
    if context.debug then
      set("X-B3-Flags", "1")
    elseif context.sampled ~= nil then
      set("X-B3-Sampled", context.sampled and "1" or "0")
    end
  end,
}

-- The first context that one of the formats finds.
-- @param headers a table by name, in any case, or a function(name in lower case) that returns a header's text
-- @tparam {string,...} list names of formats
-- @return context, or nil if there is none, or only invalid ones
function M.extract(headers, list)
  local get = getter(headers)
  for _, name in ipairs(list) do
    local context = formats[name].extract(get)
    if context then return context end
  end
end

-- Put a context into headers, in all of the formats.
-- @param context a context or a span
-- @param headers a table, or a function(name, value)
-- @tparam {string,...} list names of formats
function M.inject(context, headers, list)
  local set = headers
  if type(headers) ~= "function" then set = function(name, value) headers[name] = value end end
  for _, name in ipairs(list) do formats[name].inject(context, set) end
end

return M
