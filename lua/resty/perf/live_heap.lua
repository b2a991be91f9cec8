-- The live memory of a worker's Lua state, by line and by route: a profiler of the event heap goes on until it is stopped.
--
-- Only blocks that have survived a collection are shown, so garbage that waits for one is not taken for a leak.
local copy = require "perf.base.copy"
local Profile = require "perf.profile.profile"
local profiler = require "perf.profile"
local sorted = require "perf.base.sorted"
local zones = require "resty.perf.zones"

local M = {}

local SURVIVED = 1
local OWN = debug.getinfo(1, "S").source:match "^@(.*)"

local running -- {profiler=, period=}

-- Stop it. Idempotent.
function M.stop()
  if not running then return end
  running.profiler:close()
  running = nil
  zones.give()
end

-- Start it, or stop it. A profiler that has the same period goes on.
-- @param period bytes between two samples; 0: none
-- @param routes of this worker: names by number
-- @return true; or nil, message, code
function M.set(period, routes)
  if running and running.period == period then return true end
  M.stop()
  if period == 0 then return true end
  local p, message, code = profiler.started { event = "heap", period = period, survived = SURVIVED }
  if not p then return nil, message, code end
  running = { profiler = p, period = period }
  zones.take(routes)
  return true
end

-- The Profile without the memory of Profiles that M.profile has made.
local function without_own(prof, pause)
  local fields, list = copy(prof), {}
  for _, sample in ipairs(prof:samples()) do
    local is_own = false
    for _, f in ipairs(sample.stack) do is_own = is_own or f.file == OWN end
    if is_own then fields.total = fields.total - sample.weight else list[#list + 1] = sample end
    if pause then pause() end
  end
  local found = Profile.new(fields, list, nil, pause)
  found.freed = prof.freed
  return found
end

-- The memory that was allocated since the start and is still alive.
-- @param[opt] pause called now and then
-- @return Profile; or nil, message, code
function M.profile(pause)
  if not running then return nil, "this worker watches no heap: set the option `heap` of perf.start", "EINVAL" end
  local p = running.profiler
  p.pause = pause
  local prof, message, code = p:live()
  if not prof then return nil, message, code end
  prof = without_own(prof, pause) -- not a tail call, so that its memory too has this file in the stack
  return prof
end

local SUMS = { "weight", "count", "allocated", "allocated_count" }

-- The text that a stack has in each Profile.
local function key_of(sample)
  local parts = { sample.zone or "" }
  for i, f in ipairs(sample.stack) do parts[i + 1] = f.name end
  return table.concat(parts, "\0")
end

-- The growth from one Profile to a later one: the bytes that each stack has more.
function M.growth(before, after, pause)
  local earlier, list, total = {}, {}, 0
  for _, sample in ipairs(before:samples()) do
    earlier[key_of(sample)] = sample
    pause()
  end
  for _, sample in ipairs(after:samples()) do
    local old = earlier[key_of(sample)]
    if not old or sample.weight > old.weight then
      local more = { stack = sample.stack, zone = sample.zone }
      for _, field in ipairs(SUMS) do more[field] = sample[field] and math.max(sample[field] - (old and old[field] or 0), 0) end
      list[#list + 1], total = more, total + more.weight
    end
    pause()
  end
  local fields = copy(after)
  fields.total, fields.started = total, before.started + tonumber(before.duration_ns) / 1e9
  fields.duration_ns = tonumber(after.duration_ns) - tonumber(before.duration_ns)
  return Profile.new(fields, sorted(list, function(a, b) return a.weight > b.weight end, pause), nil, pause)
end

return M
