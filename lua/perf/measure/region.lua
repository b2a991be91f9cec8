--- A region that `perf.start` began.
--
-- A Region counts as perf.measure does, and uses the same open lists of events: two reads, and everything that the thread does in
-- between. Any number of regions can run at once. The cost of reading a running region is excluded.
-- @classmod Region
local argument = require "perf.base.argument"
local strict = require "perf.api.strict"
local compiled = require "perf.base.compiled"
local core = require "perf.core"
local counts = require "perf.counts"
local counts_read = require "perf.counts.read"
local readings = require "perf.counts.readings"
local measure = require "perf.measure"

local M = {}

local Region = { __name = "perf.Region" }
Region.__index = Region

local CLOSED = "the events were closed by perf.release before the region was stopped"

local function refused(message, code)
  return nil, code == "EBADF" and CLOSED or message, code
end

-- Returns true; or nil, message, code.
local function begin(self)
  local c, message, code = readings.start(self.set.meter, self.set.layout, self.set.words)
  self.running = c or false
  if not c then return refused(message, code) end
  return true
end

-- Adds the counts so far to the total and stops counting. Returns true; or nil, message, code, and the region has ended.
local function halt(self)
  local c, set = self.running, self.set
  if not c then return nil, self.message or CLOSED, self.code or "EBADF" end
  local meter = set.meter
  self.running = false
  local ok, message, code = readings.stop(meter, c)
  if not ok then
    self.set = false
    message, code = select(2, refused(message, code))
    self.message, self.code = message, code
    return nil, message, code
  end
  self.total = self.total and readings.add(self.total, c, meter) or c
  return true
end

local function result(c)
  if _VERSION == "Lua 5.1" and not compiled.ffi then return counts.unpack(c) end -- all Counts are tables there
  return c
end

-- In the child of a fork no error is raised: the counts are nil there, with `why`.
local function check(self, method)
  argument.check_object(self, Region, "Region", method)
  if not self.counts and self.token ~= counts_read.thread_token() and self.generation == core.fork_generation() then
    argument.raise_in_method(method, "the Region belongs to the thread that started it", 1)
  end
  return self
end

--- Start to count, for code that is not in one function; return a Region to stop.
--
--     local m = perf.start "page-faults"
--     request:on_end(function() print(m:stop()) end)
--
-- Regions may overlap, nest, and end in another coroutine than the one that began them. A region that is never stopped does no
-- harm. A region belongs to the thread that started it, and raises an error in another one; in the child of a fork its counts are
-- nil, with `why`. On Lua 5.4 `local m <close> = perf.start()` stops it at the end of the block.
-- @tparam[opt] string|table events as for `perf.measure`
-- @treturn Region @fails
-- @raise for an unknown event
-- @since 0.2.0
function M.start(events)
  argument.check_dot(events)
  local set, message, code = argument.call_as_argument(1, "", measure.lookup, events)
  if not set then return nil, message, code end
  local self = setmetatable({ set = set, total = false, running = false, counts = false, token = counts_read.thread_token(),
    generation = core.fork_generation() }, Region)
  local ok
  ok, message, code = begin(self)
  if not ok then return nil, message, code end
  return self
end

--- End the measurement; return its Counts.
-- @treturn Counts the same ones if it is called again @fails for example if `perf.release` has closed the events
-- @since 0.2.0
function Region:stop()
  check(self, "stop")
  if self.counts then return self.counts end
  local ok, message, code = halt(self)
  if not ok then return nil, message, code end
  self.counts, self.set, self.total = result(self.total), false, false
  return self.counts
end

--- The counts so far; the region continues.
-- @treturn Counts after `stop` the same as `stop` @fails as `stop`
-- @since 0.2.0
function Region:read()
  check(self, "read")
  if self.counts then return self.counts end
  local set = self.set
  local ok, message, code = halt(self)
  if not ok then return nil, message, code end
  local c = result(readings.add(nil, self.total, set.meter)) -- before, since it allocates
  ok, message, code = begin(self)
  if not ok then self.set, self.message, self.code = false, message, code end -- the next call reports it
  return c
end

Region.__close = function(self)
  if not self.counts then self:stop() end
end

function Region:__tostring()
  if self.counts then return tostring(self.counts) end
  local labels = {}
  for i, row in ipairs(self.set and counts.describe(self.set.layout).rows or {}) do labels[i] = row.label end
  return ("perf.Region(%s)"):format(self.set and table.concat(labels, ",") or "closed")
end

strict.class(Region, "Region")

return M
