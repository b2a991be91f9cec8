--- Functions on other threads, each bound to a CPU and measured.
--
--     local pool = perf.pool {size = 4}
--     local job = pool:submit(function(n) return ("x"):rep(n):len() end, 1e6)
--     print(job:get())      --> 1000000
--     print(job:counts())   -- what it cost there
--     pool:close()
--
-- Each thread has its own Lua state, so nothing is shared: the function, its arguments and its results are copied, and a function
-- with upvalues is refused. `require` has the same search path as here.
-- @classmod Pool
local at_exit = require "perf.base.at_exit"
local argument = require "perf.base.argument"
local late = require "perf.base.late"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local clock = require "perf.base.clock"
local copy = require "perf.pool.copy"
local core = require "perf.core"
local checks = require "perf.api.check"
local host = require "perf.kernel.host"
local keys_of = require "perf.base.keys"
local measure = require "perf.measure"
local reclaim = require "perf.base.reclaim"

local M = {}

local Pool = { __name = "perf.Pool" }

--- A function that runs on a thread of a Pool.
-- @type Job
local Job = { __name = "perf.Job" }
Pool.__index, Job.__index = Pool, Job

local unpack = table.unpack or unpack

local check = checks.options "perf.pool"

-- The CPUs to bind to, in turn; nil for none.
local function cpus_of(which)
  if which == false then return nil end
  local allowed = assert(core.allowed_cpus())
  if which == nil or which == true then return allowed end
  if type(which) == "string" then
    if which ~= "online" then
      argument.raisef("option 'cpus': an array of numbers, 'online' or false expected, got '%s'", which)
    end
    local online, list = host.cpus "online", {}
    for _, cpu in ipairs(allowed) do
      if not online or online.has[cpu] then list[#list + 1] = cpu end
    end
    return list
  end
  if #which == 0 then argument.raise "option 'cpus': no CPU in it" end
  for _, cpu in ipairs(which) do
    if not host.is_cpu(cpu) then
      argument.raisef("option 'cpus': '%s' is no CPU's number", tostring(cpu))
    end
  end
  return which
end

-- The events as text, which can be passed to threads.
local function events_of(events)
  if type(events) ~= "table" then return events end
  local wrong = late "perf.names".list_mistake(events)
  if wrong then argument.raise("option 'events': " .. wrong) end
  for _, event in ipairs(events) do
    if type(event) ~= "string" then argument.raise "option 'events': names expected, since they go to other threads" end
  end
  return table.concat(events, ",")
end

-- A thread needs a descriptor to load its modules: check first whether there are enough for all threads.
local function has_descriptors(threads)
  local files, refused = {}, nil
  for i = 1, threads do
    local f, _, number = reclaim.open_file "/dev/null"
    if not f then
      refused = number
      break
    end
    files[i] = f
  end
  for _, f in ipairs(files) do f:close() end
  if refused then return core.refused("perf.pool: a thread's descriptors", refused) end
  return true
end

local function tracer_of(tracer)
  local class = getmetatable(tracer)
  if tracer == nil or type(class) == "table" and class.__name == "perf.Tracer" then return tracer end
  argument.raise "option 'tracer': a perf.tracer expected"
end

local AT_EXIT = 5 -- seconds that the end of the program waits for running jobs

-- End the threads. Waits for running jobs, with or without a limit, since a thread cannot be stopped. A thread that does not end
-- in time is detached: it ends when its job ends, or with the process.
-- @return the number of jobs that had not begun (in the child of a fork: all), the number of detached threads
local function shut_down(threads, jobs, generation, seconds)
  if core.fork_generation() ~= generation then return math.huge, 0 end
  local dropped, left = jobs:close(true), 0
  local till = seconds and clock.now() + seconds * 1e9
  for i, thread in ipairs(threads) do
    threads[i] = false
    if thread and not thread:join(till and math.max(till - clock.now(), 0) / 1e9) then left = left + 1 end
  end
  return dropped, left
end

local entry = [[
package.path, package.cpath = %q, %q
require("perf.pool.worker").main(%q, %q, %s, %s)
]]

local START = 30 -- seconds for the threads to load their modules

-- Wait for the first message from any thread. It has no values if the thread is ready, otherwise a message and a code.
local function first_message(self)
  for _ = 1, START do
    local id, text = self.results:pop(1)
    if id then return copy.unpack(text) end
    for _, thread in ipairs(self.threads) do
      local ended, why = thread:join(0)
      if ended and why then return { n = 2, "a thread did not start: " .. why, "EIO" } end
    end
  end
  return { n = 2, ("a thread did not start within %d seconds"):format(START), "EIO" }
end

-- Start the threads and wait for their first messages. Returns true; or nil, message, code.
-- The object that waits for the threads at the end of the program is created last: Lua finalizes younger objects first, and a
-- Thread that was finalized cannot be waited for.
local function start(self, cpus, events)
  for i = 1, self.size do
    local thread, message, code = core.thread(entry:format(package.path, package.cpath, self.jobs:export(), self.results:export(),
      tostring(cpus and cpus[(i - 1) % #cpus + 1] or nil), events and ("%q"):format(events) or tostring(events)))
    if not thread then return nil, message, code end
    self.threads[i] = thread
  end
  for _ = 1, self.size do
    local wrong = first_message(self)
    if wrong.n > 0 then return nil, wrong[1], wrong[2] or "EIO" end
  end
  -- At the end of the program, or when the pool is collected: wait like close(), and make the spans of jobs whose results were
  -- not fetched.
  self.exit = at_exit(function() self:_deliver(true) end)
  if self.tracer then self.tracer:_feed(self) end
  return true
end

--- Start threads, each bound to a CPU and measured; return a Pool.
-- @tparam[opt] table options
-- @treturn Pool @fails
-- @raise for an unknown option or event
function M.pool(options)
  options = check(options, 1)
  local cpus = cpus_of(options.cpus)
  local size = options.size or #(cpus or assert(core.allowed_cpus()))
  local events, tracer = events_of(options.events), tracer_of(options.tracer)
  if events then
    -- Errors are reported here rather than in the threads.
    local set, message, code = argument.call_as_argument(1, "option 'events': ", measure.lookup, events)
    if not set then return nil, message, code end
  end
  local room, refused, errno = has_descriptors(size)
  if not room then return nil, refused, errno end
  local self = setmetatable({ size = size, threads = {}, waiting = {}, last_id = 0, pending = 0, tracer = tracer,
    jobs = core.channel(options.queue), results = core.channel(),
    generation = core.fork_generation() }, Pool)
  for i = 1, size do self.threads[i] = false end -- allocate first, so that no started thread is lost for lack of memory
  local called, started, why, code = pcall(start, self, cpus, events)
  if called and started then return self end
  pcall(self.close, self, AT_EXIT)
  if not called then error(started, 0) end
  return nil, why, code
end

-- Jobs ----------------------------------------------------------------------------------------------------------------

-- The child of a fork does not have the threads, and one of them may have held a channel's lock.
local function is_inherited(self) return core.fork_generation() ~= self.generation end

local function check_process(self, what)
  if is_inherited(self) then argument.raise(core.inherited(what), 0) end
end

-- Store a result in its job.
local function settle(self, id, text)
  local job = self.waiting[id]
  self.waiting[id] = nil
  if not job then return end
  self.pending = self.pending - 1
  local read, values = pcall(copy.unpack, text)
  if not read then -- out of memory: this is the error of this job, not of a caller that waits for another one
    local now = clock.now()
    values = { false, now, now, nil, nil, values, n = 6 }
  end
  job.ok, job.measured, job.traceback = values[1], values[4], values[5]
  job.wall_ns = values[3] - values[2]
  job.values = { n = values.n - 5, unpack(values, 6, values.n) }
  job.state = "done"
  if not self.tracer then return end
  local anchor = job.parent and job.parent.anchor or clock.anchor()
  local span = self.tracer:start(job.name, { parent = job.parent and job.parent:context() or false,
    start_ns = clock.ns(anchor, values[2]) }, true)
  if job.measured and span:is_recording() then span:set_counts(job.measured) end
  if not job.ok then span:record_error(job.values[1], job.traceback) end
  span:finish(clock.ns(anchor, values[3]))
end

-- Collect the available results, waiting only for the first one.
local function collect(self, timeout)
  local id, text = self.results:pop(timeout)
  while id do
    settle(self, id, text)
    id, text = self.results:pop(0)
  end
end

-- Make the spans of jobs that have ended. A tracer calls this before it closes.
-- @param at_end whether the program ends
function Pool:_deliver(at_end)
  if at_end then shut_down(self.threads, self.jobs, self.generation, AT_EXIT) end
  if self.tracer and not is_inherited(self) then collect(self, 0) end
end

--- Run a function on a thread; return a Job.
-- @tparam function fn a Lua function without upvalues
-- @tparam any ... its arguments, which are copied
-- @treturn Job @fails "EAGAIN" if the queue is full
-- @raise for a value that cannot be copied
function Pool:submit(fn, ...)
  if self.closed then argument.raise("Pool is closed", 0) end
  check_process(self, "Pool")
  argument.check_type(fn, "function")
  local text, message = copy.pack("argument", select("#", ...) + 1, fn, ...)
  if not text then
    argument.raise((message:gsub("^argument (%d+)", function(n)
      return n == "1" and "function" or "argument " .. tonumber(n) - 1
    end)), 1)
  end
  collect(self, 0)
  local id = self.last_id + 1
  local job = setmetatable({ pool = self, id = id, state = "waiting" }, Job)
  if self.tracer then
    local where = debug.getinfo(fn, "S")
    job.parent, job.name = self.tracer:current(), ("pool %s:%d"):format(where.short_src, where.linedefined)
  end
  self.last_id, self.waiting[id] = id, job -- set before the push: a failure after it would leave an unknown job
  local ok, why, code = self.jobs:push(id, text)
  if not ok then
    self.waiting[id] = nil
    if code == "EAGAIN" then why = "the pool's queue is full: wait for some jobs, or give it a longer one (queue=)" end
    return nil, why, code
  end
  self.pending = self.pending + 1
  return job
end

--- Wait until the job is done; return whether it is.
-- @tparam[opt] number timeout seconds; for ever without
-- @treturn boolean whether it is done
function Job:wait(timeout)
  argument.check_timeout(timeout)
  if self.state == "waiting" then check_process(self.pool, "Job") end
  local till = timeout and clock.now() + timeout * 1e9
  while self.state == "waiting" do
    local left = till and (till - clock.now()) / 1e9
    collect(self.pool, left and math.max(left, 0) or nil)
    if left and left <= 0 then break end
  end
  return self.state ~= "waiting"
end

--- Wait for the function's results, or raise its error.
-- @tparam[opt] number timeout seconds; without it, wait without limit
-- @treturn any results
-- @fails "ETIMEDOUT" or "ECANCELED"
function Job:get(timeout)
  if not self:wait(timeout) then return nil, "the job is not done yet", "ETIMEDOUT" end
  if self.state == "canceled" then return nil, "the job was canceled before it ran", "ECANCELED" end
  if self.state == "left" then return nil, "the pool was closed while the job ran", "ECANCELED" end
  if not self.ok then error(self.values[1], 0) end
  return unpack(self.values, 1, self.values.n)
end

--- The Counts of the job, on its thread.
-- @treturn ?Counts nil until it is done, and if jobs are not measured
function Job:counts() return self.measured end

--- Cancel the job if it has not begun.
-- @treturn boolean whether it was cancelled
function Job:cancel()
  local pool = self.pool
  if self.state == "waiting" then check_process(pool, "Job") end
  if self.state ~= "waiting" or pool.closed or not pool.jobs:remove(self.id) then return false end
  self.state, pool.waiting[self.id] = "canceled", nil
  pool.pending = pool.pending - 1
  return true
end

function Job:__tostring() return ("perf.Job %d (%s)"):format(self.id, self.state) end

-- The pool ------------------------------------------------------------------------------------------------------------

--- The numbers of jobs that are pending.
-- @treturn table `{pending=, queued=, size=}`: jobs without a result, those of them that have not begun, and threads
function Pool:stats()
  if self.closed then return printed.table { pending = 0, queued = 0, size = 0 } end
  check_process(self, "Pool")
  collect(self, 0)
  return printed.table { pending = self.pending, queued = self.jobs:length(), size = self.size }
end

--- End the threads: cancel the jobs that have not begun, and wait for those that run. A thread cannot be stopped: if its job does
-- not end in time, it is left behind and runs until the job or the process ends, and the result is dropped. The end of the
-- program does the same, with a timeout of 5 seconds. Idempotent.
-- @tparam[opt] number timeout seconds; without it, wait without limit
-- @treturn boolean true @fails "ETIMEDOUT" if threads were left behind
function Pool:close(timeout)
  argument.check_timeout(timeout)
  if self.closed then return true end
  self.closed = true
  local dropped, left = shut_down(self.threads, self.jobs, self.generation, timeout)
  if not is_inherited(self) then collect(self, 0) end
  -- The results of these jobs did not arrive in time. Jobs begin in the order of their ids, so the last `dropped` have not begun.
  local ids = keys_of(self.waiting)
  for i, id in ipairs(ids) do
    self.waiting[id].state, self.waiting[id] = i > #ids - dropped and "canceled" or "left", nil
  end
  self.pending, self.exit = 0, nil
  if left == 0 then return true end
  return nil, ("%d of %d threads still ran their jobs and were left behind"):format(left, self.size), "ETIMEDOUT"
end

Pool.__close = function(self) self:close() end

function Pool:__tostring()
  if is_inherited(self) then return "perf.Pool (of the parent process)" end
  local s = self:stats()
  return ("perf.Pool of %d thread%s, %d job%s pending"):format(s.size, s.size == 1 and "" or "s", s.pending,
    s.pending == 1 and "" or "s")
end

argument.check_methods(Pool, "Pool", "submit stats close")
argument.check_methods(Job, "Job", "get wait counts cancel")

strict.class(Pool, "Pool", "closed tracer")
strict.class(Job, "Job")

return M
