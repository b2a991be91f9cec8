-- From finished spans to a backend: a bounded queue, batches, retries. The program never waits for it.
--
-- A sender is one sequential function, `deliver`: wait for a batch, encode it, post it, retry later if that fails. It runs in a
-- coroutine that yields wherever it would wait, and `step` resumes it. The tracer calls `step` when spans finish, an event loop
-- calls it by tracer:poll(), and tracer:flush() calls it until everything is sent. A step that still waits costs one check; a
-- step that encodes handles a few dozen spans. In nginx the same function runs in a timer instead (transport.spawn) and waits as
-- nginx does.
--
-- Sender:stats derives its numbers from counters: the spans that were pushed into the queue and taken from it, those that it
-- `refused`, those that arrived (`sent`), and those of the batch that is being sent (`flying`). It derives them in a way that
-- made = sent + dropped + queued holds at any moment, even if a debug hook sends.
local at_exit = require "perf.base.at_exit"
local core = require "perf.core"
local clock = require "perf.base.clock"
local pairs_of = require "perf.base.pairs"
local Queue = require "perf.exporter.queue"
local sending = require "perf.exporter.sending"

local M = {}

local Sender = {}
Sender.__index = Sender

local GLANCE = 1e6 -- ns between two checks of what it waits for
local FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30 -- seconds before a batch is tried again, doubling
local MOST_WANTED = 300 -- the most seconds that a backend may ask us to wait
local SLICE = 32 -- spans that are encoded at once
local CLOSE, AT_EXIT = 10, 5 -- seconds that close() and the end of the program wait for the backend
local LAST_TRY = 1 -- close() makes its last attempt so many seconds before its deadline

-- The coroutine -------------------------------------------------------------------------------------------------------

local function pause_before(attempt, wanted)
  local pause = math.min(FIRST_PAUSE * 2 ^ (attempt - 1), LONGEST_PAUSE)
  pause = pause * (0.75 + math.random() / 2) -- so that many programs do not retry at once
  return wanted and math.max(pause, math.min(wanted, MOST_WANTED)) or pause
end

-- From now on a batch that fails is retried until shortly before the deadline, `limit` seconds from now.
local function begin_closing(self, limit)
  self.last_try, self.hurries = clock.now() + (limit - math.min(LAST_TRY, limit / 4)) * 1e9, self.hurries + 1
end

-- Wait before the next attempt. flush() and close() shorten this wait, unless the backend asked for it: then close() makes only
-- its last attempt earlier.
local function rest(self, seconds, wanted)
  local hurries, till = self.hurries, clock.now() + seconds * 1e9
  while wanted or self.hurries == hurries do
    local left = (math.min(till, self.last_try or till) - clock.now()) / 1e9
    if left <= 0 then return end
    local exiting = self.transport.exiting -- an ending worker of nginx cannot wake a sleeping coroutine
    if exiting and exiting() and not self.last_try then begin_closing(self, AT_EXIT) end
    self.transport.rest(exiting and math.min(left, 1) or left)
  end
end

-- Post a body until the backend accepts it or refuses it for good, or the time for retries is over.
-- @return the number of its n spans that arrived; nil if they are too many for one request
local function post(self, body, n, signal)
  local deadline, attempt = clock.now() + self.retry * 1e9, 0
  while true do
    attempt = attempt + 1
    local rejected, message, again, wanted = self.exporter:post(self.transport, body, signal)
    if rejected then
      self.last_error = message or self.last_error
      return math.max(n - rejected, 0)
    end
    self.failures, self.last_error = self.failures + 1, message
    if again == "smaller" then return nil end
    local now, pause = clock.now(), pause_before(attempt, wanted)
    -- If the backend says when to retry, try once more at that time.
    local till = now + (wanted and 0 or pause * 1e9)
    if not again or till > deadline or self.last_try and now >= self.last_try then return 0 end
    rest(self, pause, wanted)
  end
end

-- The number of spans that were dropped. It is also needed when memory has run out, so it makes no table.
local function dropped(self, sent, flying) return self.refused + self.queue.taken - flying - sent end

-- Account for n spans that were being sent: some arrived, the others are dropped.
local function settle(self, n, arrived) self.flying, self.sent = self.flying - n, self.sent + arrived end

local function fail(self, message)
  self.failures, self.last_error = self.failures + 1, tostring(message)
end

-- Send the spans from `first` to `last` of a writer; in halves if they are too many for the backend, or for the memory here.
local function send(self, writer, first, last)
  local n, arrived = last - first + 1, nil
  local ok, body = pcall(writer.finish, writer, first, last)
  if ok then arrived = post(self, body, n, "traces") else fail(self, body) end
  if arrived or n == 1 then return settle(self, n, arrived or 0) end
  local middle = first + math.floor(n / 2)
  send(self, writer, first, middle - 1)
  send(self, writer, middle, last)
end

-- Encode a batch, a few spans at a time, and send it in requests of a bounded size.
local function send_batch(self, batch, n)
  local function new_writer() return self.exporter:writer(self.resource()) end
  local writer, count, bytes = new_writer(), 0, 0
  for i = 1, n do
    local ok, size = pcall(writer.add, writer, batch[i])
    if not ok then -- this span cannot be encoded: drop it alone
      fail(self, size)
      settle(self, 1, 0)
    else
      size = size or 0
      if count > 0 and bytes + size > self.most_bytes then
        send(self, writer, 1, count)
        writer, count, bytes = new_writer(), 0, 0
        writer:add(batch[i])
      end
      count, bytes = count + 1, bytes + size
    end
    if i % SLICE == 0 then self.transport.rest(0) end
  end
  if count > 0 then send(self, writer, 1, count) end
end

-- The time when a span was finished, by the monotonic clock: times that a program gave may have any date.
local function finished_at(span) return span.finished or span.start + span.duration end

-- Whether there is something to send now.
local function due(self)
  local oldest = self.queue:peek()
  if not oldest then return false end
  return self.flushing or self.queue:length() >= self.most or finished_at(oldest) + self.delay <= clock.now()
end

local function metrics_due(self) return self.metrics and not self.closed and self.metrics:due(clock.now()) end

local function deliver(self)
  local batch = {}
  repeat
    if due(self) then
      local n = self.queue:take(self.most, batch)
      self.flying = n
      send_batch(self, batch, n)
      for i = 1, n do batch[i] = nil end
    end
    if metrics_due(self) then post(self, self.metrics:encode(self.exporter, self.resource()), 0, "metrics") end
  until not due(self) -- metrics that are due again by now wait for the next step
end

-- Running the coroutine -----------------------------------------------------------------------------------------------

-- An exporter that is a function takes plain tables at once, without waiting. The spans that it makes itself are dropped:
-- otherwise each export would make the next one, and no flush would end.
local function give(exporter, batch, n)
  local list = {}
  for i = 1, n do list[i], batch[i] = batch[i]:totable(), nil end
  exporter(list)
end

-- Whether the exporter runs. It may yield, and its coroutine may be dropped: then so is its batch.
local function is_giving(self)
  if not self.giving or sending.alive(self.giving) then return self.giving ~= false end
  settle(self, self.flying, 0)
  fail(self, "the coroutine in which the exporter waited has ended")
  self.giving = false
  return false
end

local function hand_over(self)
  if is_giving(self) then return end
  local batch = {}
  while due(self) do
    self.giving = sending.owner() -- first: a hook may call this again at any time
    self.flying = self.queue:take(self.most, batch)
    local ok, message = pcall(give, self.exporter, batch, self.flying)
    settle(self, self.flying, ok and self.flying or 0)
    self.giving = false
    if not ok then fail(self, message) end
  end
end

local function is_delivering(self) return type(self.work) == "thread" and coroutine.status(self.work) ~= "suspended" end

local function ended(self, ok, message)
  self.work = nil
  if not ok then -- a bug of ours, or of an exporter: the batch is lost, the program goes on
    self.flying = 0
    fail(self, message)
  end
end

-- Let the end of the program close the sender. Lua finalizes the newest objects first, so this is done again for each connection:
-- otherwise the end would close the connection before the answer to the current batch came, and that batch would be sent twice.
local function arm(self)
  local number = self.armed + 1
  self.exit = at_exit(function()
    if self.armed == number then sending.excluded(self.close, self, AT_EXIT, true) end
  end)
  self.armed = number
end

local function new_transport(self)
  local message
  self.transport, message = self.exporter:transport()
  if not self.transport then return nil, message end
  function self.transport.connected() arm(self) end
  return true
end

local function open_transport(self)
  if self.transport then return true end
  local ok, message = new_transport(self)
  if ok then return true end
  self.queue:clear()
  self.last_error = message
  return false
end

-- In nginx, timers do the work: one that sends and one that waits for the next batch.
local function run_in_timer(self, premature)
  if self.work then return end
  self.work, self.flushing = true, true
  if premature then begin_closing(self, AT_EXIT) end
  ended(self, pcall(deliver, self))
  self.flushing = nil
end

local function step_in_timer(self, now)
  -- A worker that exits starts no timer with a delay, and its last span may come at any moment.
  local exiting = self.transport.exiting()
  self.next_step = exiting and now or now + GLANCE
  if self.work or self.queue:length() == 0 or self.scheduled == 0 then return end
  local delay = (exiting or due(self)) and 0 or self.delay / 1e9
  if self.scheduled and delay > 0 then return end
  local ok, message = self.transport.spawn(delay, function(premature)
    self.scheduled = nil
    run_in_timer(self, premature)
  end)
  if ok then
    self.scheduled = delay
  else
    self.failures, self.last_error, self.next_step = self.failures + 1, message, now + 1e9
  end
end

-- Continue for a moment, without waiting.
-- @return seconds until the next call is due; nil when there is nothing to do
function Sender:step()
  local now = clock.now()
  if type(self.exporter) == "function" then
    hand_over(self)
    self.next_step = now + GLANCE
    return nil
  end
  if not open_transport(self) then return nil end
  if self.transport.spawn then return step_in_timer(self, now) end
  if not self.work then
    if not due(self) and not metrics_due(self) then
      self.next_step = now + GLANCE
      return self.queue:length() > 0 and self.delay / 1e9 or nil
    end
    self.work = coroutine.create(deliver)
  end
  if is_delivering(self) then return nil end -- a hook called this
  local ok, wake = coroutine.resume(self.work, self)
  if not ok or coroutine.status(self.work) == "dead" then
    ended(self, ok, wake)
    wake = nil
  end
  local after = clock.now()
  if wake and wake > 0 then -- it sleeps
    self.next_step = after + wake * 1e9
  else -- it has more to encode, and gets a third of the time at most; or it waits for the network
    self.next_step = after + (wake == 0 and 2 * (after - now) or GLANCE)
  end
  return self.work and math.max(self.next_step - after, 0) / 1e9 or nil
end

-- A span is finished.
-- @param span a Span that no longer changes
-- @return whether a step is due
function Sender:add(span)
  local own = self.giving and sending.active(self.giving)
  if self.closed or own then
    self.refused = self.refused + 1
    if own then self.last_error = "spans that the exporter itself makes are dropped" end
    return false
  end
  local n = self.queue:push(span)
  if not n then self.refused, n = self.refused + 1, self.queue.size end
  return finished_at(span) >= self.next_step or n >= self.most and not self.work
end

-- Send everything that is queued now: wait for that, and retry. In nginx it does not wait: a timer sends.
-- @param limit seconds
-- @return true, or nil, message, "ETIMEDOUT", or "EIO" if spans were dropped since the last flush
function Sender:flush(limit)
  if is_giving(self) or is_delivering(self) then
    return nil, "the exporter itself cannot flush or close its tracer", "EDEADLK"
  end
  local deadline, told = clock.now() + limit * 1e9, self.told
  self.flushing, self.hurries = true, self.hurries + 1
  local metrics = metrics_due(self)
  while self.queue:length() > 0 or self.work or metrics do
    -- Before the step: on a busy machine the last attempt may come only after the deadline.
    local left = (deadline - clock.now()) / 1e9
    local wake = self:step()
    if self.transport and self.transport.spawn then break end
    metrics = metrics and self.work -- once
    if left <= 0 and (self.queue:length() > 0 or self.work) then
      self.flushing = nil
      return nil, ("spans not sent yet: %d (%s)"):format(self:stats().queued, self.last_error or "the time is over"), "ETIMEDOUT"
    end
    if self.work and wake > 0 then self.transport.wait(math.min(left, wake)) end
  end
  self.flushing, self.told = nil, dropped(self, self.sent, self.flying)
  if self.told > told then
    return nil, self.closed and "spans were made after the tracer was closed" or self.last_error or "spans were dropped", "EIO"
  end
  return true
end

-- Send as much as possible in `limit` seconds (10), and drop the rest. Idempotent.
-- @param limit seconds
-- @param at_end whether the program ends
-- @return as `flush`
function Sender:close(limit, at_end)
  limit = limit or CLOSE
  if self.closed then return true end
  if is_giving(self) or is_delivering(self) then return self:flush(limit) end
  if core.fork_generation() ~= self.generation then
    self.closed = true
    return true
  end
  for source in pairs_of(self.sources) do pcall(source._deliver, source, at_end) end
  begin_closing(self, limit)
  if self.metrics then self.metrics.next_export = 0 end
  local ok, message, code = self:flush(limit)
  self.queue:clear()
  self.closed, self.work, self.flying = true, nil, 0
  self.told = dropped(self, self.sent, self.flying)
  if self.transport and not self.transport.spawn then self.transport.close() end
  if ok then return true end
  return nil, message, code
end

-- In the child of a fork: drop the queue and the connection, which belong to the parent.
function Sender:forked()
  self.generation = core.fork_generation()
  self.queue = Queue.new(self.queue.size)
  self.inherited = { self.inherited, self.transport, self.work } -- closing it would end the parent's
  self.transport, self.work, self.flushing = nil, nil, nil
  self.sent, self.refused, self.told, self.flying, self.failures, self.last_error = 0, 0, 0, 0, 0, nil
end

-- The numbers of spans.
function Sender:stats()
  local queue, sent, flying = self.queue, self.sent, self.flying -- a debug hook may send meanwhile
  return { made = queue.pushed + self.refused, sent = sent, dropped = dropped(self, sent, flying),
    queued = queue:length() + flying, failures = self.failures, last_error = self.last_error }
end

-- At their end, Lua 5.1 and LuaJIT unload libraries before they finalize objects that are created meanwhile, such as a last
-- connection. So the libraries are kept loaded: the process ends anyway.
local function keep_libraries()
  if _VERSION ~= "Lua 5.1" then return end
  local registry = debug and debug.getregistry and debug.getregistry()
  local class = type(registry) == "table" and registry._LOADLIB
  if type(class) == "table" then class.__gc = nil end
end

-- A new sender.
-- @param exporter returned by perf.exporter.*, or a function
-- @param options resource (a function), queue (spans), batch (spans), bytes (of a request), delay (seconds until a batch that is
-- not full is sent), retry (seconds for which a batch is retried), metrics
function M.new(exporter, options)
  local self = setmetatable({ exporter = exporter, resource = options.resource, queue = Queue.new(options.queue),
    most = options.batch, most_bytes = options.bytes, delay = options.delay * 1e9, retry = options.retry, sent = 0,
    refused = 0, told = 0, flying = 0, failures = 0, hurries = 0, next_step = 0, armed = 0, giving = false, closed = false,
    generation = core.fork_generation(), sources = setmetatable({}, { __mode = "k" }) }, Sender)
  if type(exporter) ~= "function" then
    local _
    _, self.last_error = new_transport(self)
    self.metrics = exporter.metrics and options.metrics -- Zipkin has none
  end
  keep_libraries()
  arm(self) -- also for the case that the tracer is collected, perhaps within another tracer's span
  return self
end

return M
