-- Links from a span to other spans, of any trace. A link is a context, or a Span, with its own attributes.
local attributes = require "perf.trace.attributes"
local argument = require "perf.base.argument"
local propagation = require "perf.trace.propagation"

local M = {}

-- The reason why a value cannot be a link; nil if it can.
function M.invalid_context(link)
  if type(link) ~= "table" then return "context expected, got " .. type(link) end
  return propagation.invalid_context(link) or not (link.span_id or link.remote) and "a context with ids expected" or nil
end

-- Copy a link: a change that the program makes later must not break the batch in which the span is sent.
-- @param link a valid link
-- @param details its attributes, or nil
-- @int arg the number of the argument of the public function
-- @tab limits the tracer's
function M.copy(link, details, arg, limits)
  local copy = { trace_id = link.trace_id, span_id = link.span_id, tracestate = link.tracestate }
  if details ~= nil then
    if type(details) ~= "table" then argument.raise(("attributes: table expected, got %s"):format(type(details)), arg) end
    local _
    copy.attributes, _, copy.dropped = attributes.copy(details, arg, limits.link_attributes, limits.attribute_length)
  end
  return copy
end

-- The links that are given at a span's start.
-- @param links the option: an array of contexts and Spans; a context may have attributes
-- @int arg the number of the argument of the public function
-- @tab limits the tracer's
-- @return array; the number of dropped links, nil for none
function M.list(links, arg, limits)
  if type(links) ~= "table" then
    argument.raise(("option 'links': array of contexts expected, got %s"):format(type(links)), arg)
  end
  local list, dropped = {}, nil
  for i, link in ipairs(links) do
    local wrong = M.invalid_context(link)
    if wrong then argument.raise(("option 'links': [%d]: %s"):format(i, wrong), arg) end
    if link.span_id then -- a header may contain only the sampling decision
      local copy = M.copy(link, getmetatable(link) == nil and link.attributes or nil, arg, limits) -- not the Span's own
      if #list < limits.links then list[#list + 1] = copy else dropped = (dropped or 0) + 1 end
    end
  end
  return list, dropped
end

return M
