-- A profile of this worker, by any event: of all its Lua code, for all requests.
--
-- A timer ends the profile, since the request that started it may have ended by then. A worker makes one profile at a time.
local argument = require "perf.base.argument"
local profiler = require "perf.profile"

local M = {}

local LONGEST = 60

local running -- {profiler=} of the running profile; later {over=true, profile=, message=, code=, failure=}

local function stop(mine) mine.profile, mine.message, mine.code = mine.profiler:stop() end

-- Not a closure: its variables would be lost with a request that has ended. If stop raises an error, another profile can still
-- begin, and the waiting request goes on.
local function finish(_, mine)
  running, mine.over = nil, true
  local ok, failure = pcall(stop, mine)
  if not ok then mine.failure = failure end
  mine.profiler:close()
end

-- Profile the worker.
-- @param event the event to sample, as for perf.profiler
-- @param seconds the duration, at most 60
-- @param timer ngx.timer.at
-- @param sleep ngx.sleep
-- @return Profile; or nil, message, code. Raises for an unknown event.
function M.profile(event, seconds, timer, sleep)
  argument.check_type(seconds, "number", 2)
  if not (seconds > 0 and seconds <= LONGEST) then
    return nil, ("seconds: a number above 0, at most %d, expected, got %s"):format(LONGEST, tostring(seconds)), "EINVAL"
  end
  if running then return nil, "this worker is being profiled already", "EBUSY" end
  local p, message, code = argument.call_as_argument(1, "", profiler.profiler, { event = event })
  if not p then return nil, message, code end
  local mine = { profiler = p } -- before it starts: memory may run out
  local ok
  ok, message, code = p:start()
  if not ok then
    p:close()
    return nil, message, code
  end
  running = mine
  local called
  called, ok, message = pcall(timer, seconds, finish, mine)
  if not (called and ok) then
    finish(false, mine)
    if not called then error(ok, 0) end
    return nil, message, "EAGAIN"
  end
  while not mine.over do sleep(0.05) end
  if mine.failure then error(mine.failure, 0) end
  return mine.profile, mine.message, mine.code
end

return M
