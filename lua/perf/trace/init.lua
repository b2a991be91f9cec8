--- perf.tracer: spans with their cost in events, sent to a tracing backend.
--
--     local tracer = perf.tracer {service = "shop", exporter = perf.exporter.otlp {endpoint = "http://127.0.0.1:4318"}}
--     tracer:span("checkout", function()
--       tracer:span("payment", pay)
--     end)
--     tracer:close()
--
-- The counts are those of perf.measure, by the same two reads. Finished spans wait in a bounded queue and are sent in batches; a
-- program neither waits for that nor fails because of it (perf.exporter.sender). See doc/trace.md.
-- @module perf.trace
local late = require "perf.base.late"
local printed = require "perf.base.printed"
local requested_events = require "perf.trace.requested_events"
local attributes_of = require "perf.trace.attributes"
local argument = require "perf.base.argument"
local strict = require "perf.api.strict"
local checks = require "perf.api.check"
local clock = require "perf.base.clock"
local config_of = require "perf.trace.config"
local counts_read = require "perf.counts.read"
local ids = require "perf.trace.ids"
local links_of = require "perf.trace.links"
local measure = require "perf.measure"
local propagation = require "perf.trace.propagation"
local sender = require "perf.exporter.sender"
local sending = require "perf.exporter.sending"
local spans = require "perf.trace.span"

local M = {}

local thread_token, token_with, excluded = counts_read.thread_token, counts_read.token_with, sending.excluded
local new_trace, new_span = ids.trace, ids.span
local Span, Unsampled, kinds = spans.Span, spans.Unsampled, spans.kinds
local begin, child_begins = spans.begin, spans.child_begins

--- Makes spans, and sends them. On Lua 5.4 `local tracer <close>` closes it.
-- @type Tracer
local Tracer = { __name = "perf.Tracer" }
Tracer.__index = Tracer

-- Starting spans ------------------------------------------------------------------------------------------------------

-- In the child of a fork the tracer begins empty: the parent sends the spans that it holds.
local function leave_parent(self)
  if self.token and self.token ~= thread_token() then
    ids.forget()
    if self.sender then self.sender:forked() end
    if self.metrics then self.metrics:clear() end
    self.token = nil
  end
end

-- The first use in this process; or perf.release has closed the events.
local function enter_thread(self)
  leave_parent(argument.check_object(self, Tracer, "Tracer", "start"))
  self.token, self.set = thread_token(), nil
  if self.events ~= false then self.set = sending.watch(measure.lookup(self.events)) end -- nil: spans have no counts
end

local MAIN = {} -- stands for the main program, for which coroutine.running may return nil

local function current(self)
  return self.active[coroutine.running() or MAIN] or nil
end

local is_span = { [Span] = true, [Unsampled] = true }

local known_options = checks.rows "Tracer:start"
local _, mistake = checks.options("Tracer:start", { parent = function(v)
  if v == true then return "span, context or false expected, got boolean" end
  return v and not is_span[getmetatable(v)] and propagation.invalid_context(v) or nil
end })

-- Whether all options are known. Not a loop: LuaJIT would compile it apart from the caller's loop.
local function are_known(opts, key)
  key = next(opts, key)
  if key == nil then return true end
  if not known_options[key] then return false end
  return are_known(opts, key)
end

-- Check the options: quickly, and again for the message if one of them is wrong.
-- @return the parent
local function check_options(opts)
  local parent, is_right = nil, type(opts) == "table" and are_known(opts)
  if is_right then
    parent = opts.parent
    is_right = (not parent or type(parent) == "table"
      and (is_span[getmetatable(parent)] or not propagation.invalid_context(parent)))
      and (opts.kind == nil or kinds[opts.kind]) and (opts.attributes == nil or type(opts.attributes) == "table")
  end
  if not is_right then argument.raise(mistake(opts), 2) end
  return parent
end

--- Start a Span. It counts until its finish.
-- @function Tracer:start
-- @tparam string name of the kind of work: few different ones, since backends group by it
-- @tparam[opt] table options
-- @treturn Span
-- @raise for a wrong option
function Tracer:start(name, opts, elsewhere) -- `elsewhere`: work that another thread did, so nothing is counted here
  if type(name) ~= "string" then
    argument.check_object(self, Tracer, "Tracer", "start")
    argument.raise(("string expected, got %s"):format(type(name)), 1)
  end
  local token = token_with(self)
  if not token or token ~= self.token or self.set and self.set.released then enter_thread(self) end
  local parent, attributes, nattributes, dropped, links, dropped_links
  if opts then
    parent = check_options(opts)
    local limits = self.limits
    if opts.attributes then
      attributes, nattributes, dropped = attributes_of.copy(opts.attributes, 2, limits.attributes, limits.attribute_length)
    end
    if opts.links ~= nil then links, dropped_links = links_of.list(opts.links, 2, limits) end
  end
  if parent == nil and self.depth > 0 then parent = current(self) end

  local trace_id, parent_id, anchor
  local sampled = true
  if parent then
    trace_id, parent_id, anchor = parent.trace_id, parent.span_id, parent.anchor
    if parent.sampled ~= nil then sampled = parent.sampled end
  end
  local start, moment
  if opts and opts.start_ns ~= nil then
    anchor = anchor or clock.anchor()
    start, moment = spans.time(anchor, opts.start_ns, 2)
  end
  local span_id
  if trace_id then span_id = new_span() else trace_id, span_id = new_trace() end
  if self.sampler then sampled = self.sampler(parent or nil, trace_id, name, opts and opts.kind, attributes) end
  if not sampled then
    return setmetatable({ name = name, trace_id = trace_id, span_id = span_id, parent_id = parent_id, sampled = false,
      tracestate = parent and parent.tracestate, tracer = self }, Unsampled)
  end

  -- A parent that is running, in this thread, keeps the sum of its children: this span is added to it.
  local within
  if parent and parent.token == self.token and not parent.duration then
    within = parent
    child_begins(parent)
  end
  -- The fields of most spans are set here, so that the table is allocated at its final size.
  local span = setmetatable({ tracer = self, name = name, trace_id = trace_id, span_id = span_id, parent_id = parent_id,
    parent = within, token = self.token, anchor = anchor or clock.anchor(), start = 0, duration = false, running = false,
    set = false, counted = false, before = false }, Span)
  if parent then
    if parent.tracestate then span.tracestate = parent.tracestate end
    if parent.debug then span.debug = true end
  end
  if opts then
    if opts.kind then span.kind = kinds[opts.kind] end
    if links then span.links, span.dropped_links = links, dropped_links end
    if attributes then
      span.attributes, span.nattributes, span.dropped = attributes, nattributes, dropped
      local own = opts.attributes.perfevents -- copied before the limits shorten it
      if own ~= nil then span:_count(attributes_of.value("perfevents", own, 2, math.huge)) end
    end
  end
  begin(span, not elsewhere and self.set or nil, start, moment)
  return span
end

-- Queue a finished span, and now and then send some.
function Tracer:_finished(span)
  if self.metrics then self.metrics:add(span) end
  local out = self.sender
  if out and out:add(span) then excluded(out.step, out) end
end

-- A source makes spans of work that has ended meanwhile when its method _deliver is called; that happens before the tracer
-- closes.
function Tracer:_feed(source)
  if self.sender then self.sender.sources[source] = true end
end

-- Around a function ---------------------------------------------------------------------------------------------------

local function leave(self, span, key, before, ok, ...)
  self.active[key], self.depth = before, self.depth - 1
  if ok then
    span:finish()
  else -- these fail too if memory is short: the function's error is raised
    pcall(span.record_error, span, ...)
    pcall(span.finish, span)
    argument.rethrow(...)
  end
  return ...
end

local text_of = spans.text_of

-- `place`: the key of the coroutine in which the function of a span runs; `call`: runs it there.
local place, call
if _VERSION == "Lua 5.1" and not rawget(_G, "jit") then
  -- Lua 5.1 cannot yield across pcall: the function runs in a coroutine whose yields are passed on. The span is current only in
  -- that coroutine, since a yield that cannot be passed on never returns here.
  local function enter(fn, ...) return fn(...) end
  local function pass_on(self, co, ok, ...)
    if not ok then return false, (...), debug.traceback(co, text_of((...))) end
    if coroutine.status(co) == "dead" then return true, ... end
    if not coroutine.running() then return false, "attempt to yield from outside a coroutine", debug.traceback(co) end
    return pass_on(self, co, coroutine.resume(co, coroutine.yield(...)))
  end
  function place() return coroutine.create(enter) end
  function call(self, co, fn, ...) return pass_on(self, co, coroutine.resume(co, fn, ...)) end
else
  -- Errors with their tracebacks. An error that no handler sees, such as that memory has run out, has no traceback.
  local Failure = {}

  local function guard(err) return setmetatable({ err, debug.traceback(text_of(err), 2) }, Failure) end

  local function open_failure(failure)
    if getmetatable(failure) ~= Failure then return failure end
    return failure[1], failure[2]
  end

  local function unwrap(ok, ...)
    if ok then return true, ... end
    return false, open_failure(...)
  end

  function place() return coroutine.running() or MAIN end
  function call(_, _, fn, ...) return unwrap(xpcall(fn, guard, ...)) end
end

-- (Lua 5.1 gives a function with `...` a local `arg`, which would hide a parameter of that name.)
local function bracket(self, n, name, opts, fn, ...)
  argument.check_object(self, Tracer, "Tracer", "span")
  argument.check_callable(fn, n, "span")
  local key = place()
  local before = self.active[key]
  self.active[key] = before or false -- may need memory, which the span would count if it had started
  local span = self:start(name, opts)
  self.active[key], self.depth = span, self.depth + 1
  return leave(self, span, key, before, call(self, key, fn, ...))
end

argument.public_names[bracket] = "span" -- Tracer:span calls it in tail position

--- Run a function within a span, which is the parent of spans that start meanwhile. An error marks the span and is raised
-- unchanged.
-- @function Tracer:span
-- @tparam string name as for `Tracer:start`
-- @tparam[opt] table options
-- @tparam function fn it may yield
-- @tparam any ... its arguments
-- @treturn any fn's results
function Tracer:span(name, opts, ...)
  if type(opts) == "table" and not argument.is_callable(opts) then return bracket(self, 3, name, opts, ...) end
  return bracket(self, 2, name, nil, opts, ...)
end

--- The span that `Tracer:span` runs now in this coroutine.
-- @treturn ?Span
function Tracer:current()
  if self.depth > 0 then return current(self) end
end

-- Other processes -----------------------------------------------------------------------------------------------------

--- The context in a request's headers.
-- @tparam table|function headers a table by name, in any case, or a function(name in lower case)
-- @treturn ?table context for `start`'s parent; nil if there is none
function Tracer:extract(headers)
  return propagation.extract(propagation.check_headers(headers), self.propagators)
end

--- Put the current span's context into headers, like `Span:inject`.
-- @tparam table|function headers a table, or a function(name, value)
-- @treturn any headers
function Tracer:inject(headers)
  propagation.check_headers(headers)
  local span = self:current()
  if span then propagation.inject(span, headers, self.propagators) end
  return headers
end

-- Sending -------------------------------------------------------------------------------------------------------------

--- Continue sending, without waiting: for event loops, and for programs that are idle for a while.
-- @treturn ?number seconds until the next call is due; nil if there is nothing to do
function Tracer:poll()
  if self.sender and thread_token() == self.token then return excluded(self.sender.step, self.sender) end
end

--- Send all finished spans and wait for that. If the backend cannot be reached or is busy, retry until the timeout.
-- @tparam[opt=10] number timeout seconds
-- @treturn boolean true @fails "ETIMEDOUT" if some are still queued, "EIO" if some were dropped since the last flush
function Tracer:flush(timeout)
  argument.check_timeout(timeout)
  if not self.sender or thread_token() ~= self.token then return true end
  return excluded(self.sender.flush, self.sender, timeout or 10)
end

--- Send all finished spans, and close: retry until the timeout if that may help, then drop the rest and close the connection.
-- Idempotent. The end of the program and os.exit(code, true) do the same, with a timeout of 5 seconds; os.exit(code) does not.
-- Spans that finish later are dropped.
-- @tparam[opt=10] number timeout seconds
-- @treturn boolean true @fails as `flush`
function Tracer:close(timeout)
  argument.check_timeout(timeout)
  if not self.sender then return true end
  return excluded(self.sender.close, self.sender, timeout)
end

--- The numbers of spans: made = sent + dropped + queued.
-- @treturn table `{made=, sent=, dropped=, queued=, failures=, last_error=}`: failures is the number of failed attempts to send
function Tracer:stats()
  leave_parent(self)
  return printed.table(self.sender and self.sender:stats() or { made = 0, sent = 0, dropped = 0, queued = 0, failures = 0 })
end

--- Histograms of counts by span name, in Prometheus' text format; needs the option metrics.
-- @treturn string
-- @raise without the option
function Tracer:prometheus()
  if not self.metrics then argument.raise("this tracer has no metrics: perf.tracer {metrics = true}", 0) end
  leave_parent(self)
  return self.metrics:prometheus()
end

function Tracer:__tostring()
  local s = self:stats()
  return ("perf.Tracer %s: %d spans made, %d sent, %d dropped, %d queued"):format(self.resource["service.name"], s.made, s.sent,
    s.dropped, s.queued)
end

argument.check_methods(Tracer, "Tracer", "current extract inject poll flush close stats prometheus")
Tracer.__close = function(self) self:close() end

--- Make a Tracer, whose spans are measured and exported. Options that are not given come from the OTEL_* variables of the
-- environment.
-- @tparam[opt] table options
-- @treturn Tracer @fails if the machine refuses the events
-- @raise for an unknown option or event
function M.tracer(options)
  local config = config_of.read(options)
  local self = setmetatable({ events = config.events, sampler = config.sampler or false, propagators = config.propagators,
    resource = config.resource, limits = config.limits, warnings = config.warnings, depth = 0, metrics = false,
    active = setmetatable({}, { __mode = "k" }) }, Tracer)
  if config.disabled then self.events, self.sampler = false, function() return false end end
  if self.events ~= false then
    local set, message, code = requested_events.option(self.events, 1)
    if not set then return nil, message, code end
  end
  enter_thread(self)
  if config.metrics then self.metrics = late("perf.trace.histograms").new(config.metrics) end
  if config.exporter then
    local pid = require "perf.core".pid
    config.resource_now = function()
      config.resource["process.pid"] = pid()
      return config.resource
    end
    self.sender = sender.new(config.exporter, { resource = config.resource_now, queue = config.queue, batch = config.batch,
      bytes = config.batch_bytes, delay = config.delay, retry = config.retry, metrics = self.metrics })
  end
  return self
end

strict.class(Tracer, "Tracer", "set")

return M
