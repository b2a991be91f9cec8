-- Profiles of workers, by any event: of all their Lua code, for all requests. The samples of a request's turns have the name of
-- its route as zone.
--
-- A timer ends the profile, or drops it when the request that waits for it has ended. A worker makes one profile at a time. Other
-- workers find a job in the shared dictionary when they next look, once a second, and leave their results there:
--
--   profile               the newest job, as JSON, while it runs; workers drop their profile if it is gone
--   profile ID            the number of workers that have a result
--   profile ID N          the Nth: "P" and the profile as speedscope's JSON, or "E", the error's code and its message
local argument = require "perf.base.argument"
local checks = require "perf.api.check"
local clock = require "perf.base.clock"
local copy = require "perf.base.copy"
local handover = require "resty.perf.handover"
local json = require "perf.base.json"
local load_profile = require "perf.profile.load"
local merged = require "perf.profile.merged"
local pairs_of = require "perf.base.pairs"
local Profile = require "perf.profile.profile"
local profiler = require "perf.profile"
local slices = require "resty.perf.slices"
local sorted = require "perf.base.sorted"
local zones = require "resty.perf.zones"

local M = {}

local LONGEST = 60
local LATE = 10 -- seconds after the end; workers without a result have ended or are blocked
local NAP, NAPS = 0.05, 4

local timer = ngx.timer.at -- nginx's own function, which is wrapped later

local running -- {profiler=, job=} of the running profile; later {over=true, profile=, message=, code=, failure=}
local seen -- the id of the newest job

-- One worker ----------------------------------------------------------------------------------------------------------

-- Not a closure, since its variables would be lost when the request that made it ends. If stop raises an error, another profile
-- can still begin, and the waiting request continues. A worker that ends has no time for pauses.
local function finish(premature, mine)
  if mine.over or mine.ending then return end
  mine.ending, mine.premature = true, premature
  if not premature then mine.profiler.pause = slices.pausing() end
  local ok, prof, message, code = pcall(mine.profiler.stop, mine.profiler)
  running = nil
  zones.give()
  if ok then mine.profile, mine.message, mine.code = prof, message, code else mine.failure = prof end
  mine.profiler:close()
  mine.over = true
  if mine.done then mine.done(mine) end
end

-- End a profile that nobody waits for.
local function drop(mine)
  if not mine or mine.over or mine.ending then return end
  running, mine.over = nil, true
  zones.give()
  mine.profiler:close()
end

-- Begin a profile.
-- @param routes of this worker: names by number
-- @param opts {period=, survived=}: of the profiler
-- @param[opt] done called with the result
-- @return {over=, profile=, message=, code=, failure=}, complete when `over` is true; or nil, message, code. Raises for an
-- unknown event
local function begin(event, seconds, routes, opts, done)
  if running then return nil, "this worker is being profiled already", "EBUSY" end
  local mine = { profiler = false, done = done } -- made before it starts
  local p, message, code = argument.call_as_argument(1, "", profiler.started,
    { event = event, period = opts.period, survived = opts.survived })
  if not p then return nil, message, code end
  running, mine.profiler = mine, p
  zones.take(routes)
  local called, ok
  called, ok, message = pcall(timer, seconds, finish, mine)
  if not (called and ok) then
    mine.done = nil
    finish(false, mine)
    if not called then error(ok, 0) end
    return nil, message, "EAGAIN"
  end
  return mine
end

-- The waiting request -----------------------------------------------------------------------------------------------

-- nginx tells nobody that a request has ended while it slept. So the request counts its naps, and a timer checks whether
-- the number still grows. nginx calls expired timers in their order: even after a long turn, a request that waits counts before
-- the timer checks.
local function look(premature, waiting)
  if premature or waiting.over then return end
  if waiting.naps ~= waiting.seen then
    waiting.seen = waiting.naps
    timer(NAPS * NAP, look, waiting)
    return
  end
  drop(waiting.mine)
  if waiting.job and waiting.dict:get "profile" == waiting.job then waiting.dict:delete "profile" end
end

-- The calling request waits until `over` is set, and naps all the time.
-- @param mine the profile of this worker, or nil
-- @param[opt] dict, job where the job is, and its text
local function wait_for(mine, dict, job)
  local waiting = { naps = 0, mine = mine, dict = dict, job = job } -- not a closure, as for `finish`
  timer(NAPS * NAP, look, waiting) -- without it, the profile goes on until its end
  return waiting
end

local function nap(waiting)
  waiting.naps = waiting.naps + 1
  ngx.sleep(NAP)
end

-- Wait for the end of a profile of this worker.
-- @return Profile; or nil, message, code
local function result_of(mine, waiting)
  while not mine.over do nap(waiting) end
  waiting.over = true
  if mine.failure then error(mine.failure, 0) end
  return mine.profile, mine.message, mine.code
end

-- Several workers -----------------------------------------------------------------------------------------------------

local function result_key(id, n) return ("profile %s %d"):format(id, n) end

-- Iterate over the samples, including those whose memory was all freed.
local function each_sample(prof)
  local part, i = prof:samples(), 0
  return function()
    i = i + 1
    if not part[i] and part ~= prof.freed then part, i = prof.freed or {}, 1 end
    return part[i]
  end
end

local function add_numbers(sums, numbers)
  if not numbers then return sums end
  sums = sums or {}
  for name, n in pairs_of(numbers) do sums[name] = (sums[name] or 0) + n end
  return sums
end

-- Frames of the same content become one table, and stacks of the same frames one sample.
local function merge(profiles)
  local shared, list, pause = {}, {}, slices.pausing()
  local first = profiles[1]
  local sum = copy(first)
  sum.total, sum.lost, sum.sample_count, sum.pid, sum.tid, sum.failures, sum.blocks = 0, 0, 0, nil, nil, nil, nil
  for _, prof in ipairs(profiles) do
    for _, field in ipairs { "total", "lost", "sample_count" } do sum[field] = sum[field] + prof[field] end
    sum.failures, sum.blocks = add_numbers(sum.failures, prof.failures), add_numbers(sum.blocks, prof.blocks)
    for sample in each_sample(prof) do
      local stack = {}
      for i, f in ipairs(sample.stack) do
        local key = table.concat({ f.kind, f.name, f.file or "", f.line or "", f.module or "" }, "\0")
        shared[key] = shared[key] or f
        stack[i] = shared[key]
      end
      local copied = copy(sample)
      copied.stack, list[#list + 1] = stack, copied
      pause()
    end
  end
  list = sorted(merged(list, pause), function(a, b) return a.weight > b.weight end, pause)
  sum.comm = ("nginx, %d workers"):format(#profiles)
  return Profile.new(sum, list, nil, pause)
end

-- The result of a profile as text, made in slices; but a worker that ends has no time for pauses.
local function text_of(mine)
  if not mine.profile then return ("E%s %s"):format(mine.code or "EIO", tostring(mine.message or mine.failure)) end
  local parts = { "P" }
  mine.profile.stream = { put = function(part) parts[#parts + 1] = part end,
    pause = mine.premature and function() end or slices.pausing() }
  mine.profile:speedscope()
  return table.concat(parts)
end

local function answer(dict, id, mine)
  local text = text_of(mine)
  local key = "profile " .. id
  dict:safe_add(key, 0, LATE)
  local n = dict:incr(key, 1)
  if not n then return end
  local ok, message = dict:safe_set(result_key(id, n), text, LATE)
  if not ok then dict:safe_set(result_key(id, n), "EENOMEM the lua_shared_dict refuses the profile: " .. message, LATE) end
end

-- Take part in the newest job, once a second.
-- @param dict ngx.shared.DICT
-- @param routes names by number
function M.follow(dict, routes)
  local text = dict:get "profile"
  local job = text and json.decode(text)
  if job and not handover.is_worker(job.from) then -- the worker that asked has ended: nobody waits for the profile
    if dict:get "profile" == text then dict:delete "profile" end
    job = nil
  end
  if running and running.job and not (job and job.id == running.job) then drop(running) end
  if not job or job.id == seen then return end
  seen = job.id
  local me = ngx.worker.pid()
  if job.from == me or job.pid and job.pid ~= me then return end
  local function done(mine) answer(dict, job.id, mine) end
  local ok, mine, message, code = pcall(begin, job.event, job.seconds, routes, job, done)
  if not ok then mine, message, code = nil, argument.why(mine), "EINVAL" end
  if not mine then return done { message = message, code = code } end
  mine.job = job.id
end

-- Wait for the results of other workers.
-- @param[out] profiles gets the profiles that have arrived
-- @param wanted the number of results to wait for
-- @param waiting of the request
-- @return the message and code of a worker that has failed
local function collect(dict, job, profiles, wanted, waiting)
  local message, code = "no worker has answered", "ETIMEDOUT"
  local n, deadline = 1, clock.seconds() + job.seconds + LATE
  while n <= wanted and clock.seconds() < deadline do
    local key = result_key(job.id, n)
    local text = dict:get(key)
    if text then
      dict:delete(key)
      n = n + 1
      if text:byte() == 80 then -- P
        profiles[#profiles + 1] = load_profile.decode(text:sub(2), slices.pausing())
      else
        code, message = text:match "^E(%S+) (.*)"
      end
    else
      nap(waiting)
    end
  end
  return message, code
end

-- Profile other workers too.
-- @param pid of the only worker; nil for all
-- @return Profile; or nil, message, code
local function profile_workers(event, seconds, pid, dict, routes, opts)
  local me = ngx.worker.pid()
  local job = { id = ("%d.%.0f"):format(me, 1000 * clock.seconds()), event = event, seconds = seconds, pid = pid, from = me,
    period = opts.period, survived = opts.survived }
  local mine, message, code
  if not pid then
    mine, message, code = begin(event, seconds, routes, opts)
    if not mine then return nil, message, code end
  end
  dict:flush_expired(100)
  local text = json.encode(job)
  local ok, why = dict:safe_add("profile", text, seconds + LATE)
  if not ok then
    drop(mine)
    if why == "exists" then return nil, "workers are being profiled already", "EBUSY" end
    return nil, "the lua_shared_dict refuses the job: " .. why, "ENOMEM"
  end
  local profiles, waiting = {}, wait_for(mine, dict, text)
  message, code = collect(dict, job, profiles, pid and 1 or ngx.worker.count() - 1, waiting)
  dict:delete "profile"
  profiles[#profiles + 1] = mine and result_of(mine, waiting)
  waiting.over = true
  if not profiles[1] then return nil, message, code end
  return profiles[2] and merge(profiles) or profiles[1]
end

local check = checks.options "resty.perf.profile"

-- Profile this worker, another one, or all.
-- @param event the event to sample, as for perf.profiler
-- @param seconds the duration, at most 60
-- @param[opt] opts {workers=, route=, period=, survived=}: the process id of a worker, or "all"; the name of the only route; the
-- options of perf.profiler with these names
-- @param[opt] dict ngx.shared.DICT
-- @param[opt] routes of this worker: names by number
-- @return Profile; or nil, message, code. Raises for an unknown event
function M.profile(event, seconds, opts, dict, routes)
  argument.check_type(seconds, "number", 2)
  opts = check(opts, 3)
  local workers = opts.workers
  if type(workers) == "string" and workers ~= "all" then argument.raise("workers: a process id or \"all\" expected", 3) end
  if not (seconds > 0 and seconds <= LONGEST) then
    return nil, ("seconds: a number above 0 and at most %d expected, got %s"):format(LONGEST, tostring(seconds)), "EINVAL"
  end
  local prof, message, code
  if workers == "all" and ngx.worker.count() == 1 or workers == ngx.worker.pid() then workers = nil end
  if not workers then
    prof, message, code = begin(event, seconds, routes, opts)
    if prof then prof, message, code = result_of(prof, wait_for(prof)) end
  elseif workers ~= "all" and not handover.is_worker(workers) then
    return nil, ("workers: no worker has the process id %s"):format(tostring(workers)), "ESRCH"
  elseif dict then
    prof, message, code = profile_workers(event, seconds, workers ~= "all" and workers or nil, dict, routes, opts)
  else
    return nil, "other workers cannot be profiled before perf.start", "EINVAL"
  end
  if not prof then return nil, message, code end
  return opts.route and prof:zone(opts.route, slices.pausing()) or prof
end

return M
