--- What a thread of a pool runs: takes jobs out of one channel, puts results into another, until the first one is closed.
--
-- A job is the function and its arguments; a result is ok, when it began and ended, Counts, a traceback, and then the results,
-- or the error.
-- @module perf.pool.worker
local clock = require "perf.trace.clock"
local copy = require "perf.pool.copy"
local core = require "perf.core"
local fast = require "perf.fast"
local measure = require "perf.measure"

local M = {}

local unpack = table.unpack or unpack
local function pack(...) return { n = select("#", ...), ... } end

local function guard(err) return { err, debug.traceback(tostring(err), 2) } end

-- The text of what came of a job.
local function run(set, job)
  local values = copy.unpack(job)
  local fn = values[1]
  local c = set and fast.start(set.meter, set.layout, set.words)
  local began = clock.now()
  local results = pack(xpcall(function() return fn(unpack(values, 2, values.n)) end, guard))
  local ended = clock.now()
  if c and not fast.stop(set.meter, c) then c = nil end
  local text, message, traceback
  if results[1] then
    text, message = copy.pack("result", results.n - 1, unpack(results, 2, results.n))
  else
    local failure = results[2]
    traceback = failure[2]
    text = copy.pack("error", 1, failure[1]) or copy.pack("error", 1, tostring(failure[1]))
  end
  local ok = results[1] and text ~= nil
  text = text or copy.pack("error", 1, message)
  return assert(copy.pack("result", 5, ok, began, ended, c, traceback)) .. text
end

--- Work until there is no more.
-- @string jobs the channel of jobs, exported
-- @string results the channel of results, exported
-- @param cpu where to run, or nil
-- @param events what is counted: nil the best, false nothing, or text
function M.main(jobs, results, cpu, events)
  jobs, results = core.adopt(jobs), core.adopt(results)
  local function prepare()
    if cpu then
      local bound, message, code = core.bind_cpu(cpu)
      if not bound then return nil, ("CPU %d: %s"):format(cpu, message), code end
    end
    if events == false then return {} end
    local set, message, code = measure.lookup(events)
    return set and { set }, message, code
  end
  -- The first word of a worker is whether it can work.
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
      text = copy.pack("result", 5, false, clock.now(), clock.now(), nil, nil) .. copy.pack("error", 1, tostring(text))
    end
    results:push(id, text)
  end
end

return M
