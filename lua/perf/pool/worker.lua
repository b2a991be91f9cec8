-- The main function of a pool's thread: takes jobs from one channel and puts results into another, until the first one is closed.
--
-- A job is the function and its arguments. A result is ok, start and end time, Counts, a traceback, and then the function's
-- results or the error.
local clock = require "perf.base.clock"
local copy = require "perf.pool.copy"
local core = require "perf.core"
local readings = require "perf.counts.readings"
local measure = require "perf.measure"

local M = {}

local unpack = table.unpack or unpack
local function pack(...) return { n = select("#", ...), ... } end

local OUT_OF_MEMORY = "not enough memory" -- Lua's message

-- The text of an error, which may be an object whose __tostring fails.
local function text_of(err)
  local ok, text = pcall(tostring, err)
  return ok and type(text) == "string" and text or ("(error object is a %s value)"):format(type(err))
end

-- The result of a failed coroutine: the error, and a traceback if there is memory for it.
local function failed(co, err)
  local ok, traceback = pcall(debug.traceback, co, text_of(err))
  local closed, other = true, nil
  if coroutine.close then closed, other = coroutine.close(co) end -- closes its to-be-closed variables, which may fail as well
  if not closed then err = other end
  return false, err, ok and traceback or nil
end

-- End the measurement of a job, which has given `...`: before these are packed, which needs memory.
local function finish(set, c, ...)
  if c and not readings.stop(set.meter, c) then c = nil end
  return clock.now(), c, pack(...)
end

-- Whether a coroutine has run to its end, and an array of its results or its error and a traceback.
local function outcome(co, results)
  if not results[1] then return failed(co, results[2]) end
  if coroutine.status(co) ~= "dead" then return failed(co, "attempt to yield from outside a coroutine") end
  return true, results
end

-- Call a function: returns when it began and ended, its Counts, and its outcome. It runs in a coroutine, whose stack is kept
-- after an error. (A message handler is not called when memory runs out, and fails after a stack overflow.)
local function call(set, fn, ...)
  local co = coroutine.create(fn)
  local began = clock.now()
  local counted = set and readings.start(set.meter, set.layout, set.words)
  local ended, c, results = finish(set, counted, coroutine.resume(co, ...))
  return began, ended, c, outcome(co, results)
end

-- Run a job: returns the text of its result.
local function run(set, job)
  local values = copy.unpack(job)
  local began, ended, c, ok, results, traceback = call(set, unpack(values, 1, values.n))
  local text, message
  if ok then
    text, message = copy.pack("result", results.n - 1, unpack(results, 2, results.n))
    if not text then ok, results = false, message end
  elseif results == OUT_OF_MEMORY then
    collectgarbage() -- LuaJIT and Lua 5.1 do not collect before they give up
  end
  text = text or copy.pack("error", 1, results) or copy.pack("error", 1, text_of(results))
  return assert(copy.pack("result", 5, ok, began, ended, c, traceback)) .. text
end

-- Work until there are no more jobs.
-- @string jobs the channel of jobs, exported
-- @string results the channel of results, exported
-- @param cpu the CPU to run on, or nil
-- @param events text, nil for the default list, false to count nothing
function M.main(jobs, results, cpu, events)
  jobs, results = core.adopt(jobs), core.adopt(results)
  local function prepare()
    if cpu then
      local bound, message, code = core.bind_cpu(cpu)
      if not bound then
        local why = code == "EINVAL" and " (it does not exist or is offline, or the process's cpuset excludes it)" or ""
        return nil, ("CPU %d: %s%s"):format(cpu, message, why), code
      end
    end
    if events == false then return {} end
    local set, message, code = measure.lookup(events)
    return set and { set }, message, code
  end
  -- The first message of a worker tells whether it is ready.
  local ok, set, message, code = pcall(prepare)
  if not ok or not set then
    results:push(0, copy.pack("result", 2, ok and message or tostring(set), code))
    return
  end
  set = set[1]
  results:push(0, copy.pack("result", 0))
  while true do
    local id, job = jobs:pop()
    if not id then return end
    local done, text = pcall(run, set, job)
    if not done then
      collectgarbage() -- since memory has run out
      text = copy.pack("result", 5, false, clock.now(), clock.now(), nil, nil) .. copy.pack("error", 1, tostring(text))
    end
    results:push(id, text)
  end
end

return M
