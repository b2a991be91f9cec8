--- Test doubles of three tracers, for perf.observe, since the libraries are not installed here. Each implements the library's
-- public interface and keeps its data in the same fields: opentelemetry-lua's tracer:start(context, name, config, start_time) and
-- spans with set_attributes, opentracing-lua's tracer:start_span(name, options) and spans with set_tag, Kong's
-- tracing.start_span(name, options), whose no-op span accepts no fields.
local foreign = {}

-- opentelemetry-lua: attributes are a list of {key =, value = {int_value =}}.
function foreign.opentelemetry()
  local finished = {}
  local span_class, tracer_class, context_class = {}, {}, {}
  span_class.__index, tracer_class.__index, context_class.__index = span_class, tracer_class, context_class
  function span_class:context() return self.ctx end
  function span_class:is_recording() return self.end_time == 0 end
  function span_class:set_attributes(...)
    if not self:is_recording() then return end
    for _, a in ipairs { ... } do table.insert(self.attributes, a) end
  end
  function span_class:finish(end_timestamp)
    if not self:is_recording() then return end
    self.end_time = end_timestamp or os.time() * 1e9
    for _, processor in ipairs(self.tracer.provider.span_processors) do processor:on_end(self) end
  end
  function context_class.with_span(_, span) return setmetatable({ sp = span }, context_class) end
  function tracer_class.start(self, context, name, config, start_time)
    config = config or {}
    if not self.provider.sampled then
      local silent = { is_recording = function() return false end, finish = function() end, set_attributes = function() end }
      return context:with_span(silent), silent
    end
    local span = setmetatable({ tracer = self, parent_ctx = context, ctx = {}, name = name, start_time = start_time or 1,
      end_time = 0, attributes = config.attributes or {}, events = {} }, span_class)
    return context:with_span(span), span
  end
  local provider = { sampled = true, span_processors = { { on_end = function(_, span) finished[#finished + 1] = span end } } }
  return setmetatable({ provider = provider, il = {} }, tracer_class), setmetatable({}, context_class), finished
end

function foreign.string(key, value) return { key = key, value = { string_value = value } } end

-- opentracing-lua, with Kong's implementation.
function foreign.opentracing()
  local finished = {}
  local span_class, tracer_class = {}, {}
  span_class.__index, tracer_class.__index = span_class, tracer_class
  function span_class:tracer() return self.tracer_ end
  function span_class:set_tag(key, value)
    assert(type(key) == "string" and type(value) ~= "table", "invalid tag")
    self.tags = self.tags or {}
    self.tags[key] = value
    return true
  end
  function span_class:start_child_span(name) return self.tracer_:start_span(name, { child_of = self }) end
  function span_class:finish(finish_timestamp)
    assert(self.duration == nil, "span already finished")
    self.duration = finish_timestamp or 1
    finished[#finished + 1] = self
    return true
  end
  function tracer_class:start_span(name, options)
    local span = setmetatable({ tracer_ = self, name = name }, span_class)
    for k, v in pairs(options and options.tags or {}) do span:set_tag(k, v) end
    return span
  end
  return setmetatable({}, tracer_class), finished
end

-- kong.tracing: functions without self.
function foreign.kong()
  local finished, active = {}, nil
  local span_class = {}
  span_class.__index = span_class
  function span_class:set_attribute(key, value)
    local kind = type(value)
    if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then error("invalid value", 2) end
    self.attributes = self.attributes or {}
    self.attributes[key] = value
  end
  function span_class:finish(end_time_ns)
    if self.end_time_ns ~= nil then return end
    self.end_time_ns = end_time_ns or 2
    finished[#finished + 1] = self
  end
  local noop = setmetatable({ is_recording = false, finish = function() end, set_attribute = function() end },
    { __newindex = function() end })
  local tracer = { name = "core", sampled = true }
  function tracer.active_span() return active end
  function tracer.set_active_span(span) active = span end
  function tracer.start_span(name, options)
    if type(name) ~= "string" then error("invalid span name", 2) end
    if not tracer.sampled then return noop end
    return setmetatable({ tracer = tracer, name = name, attributes = options and options.attributes }, span_class)
  end
  return tracer, finished
end

return foreign
