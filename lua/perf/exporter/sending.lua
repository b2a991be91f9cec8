-- Excludes the cost of sending from the spans that count meanwhile, whatever caused it: a span that finished, flush or poll
-- within a span, or another tracer. Each list of events keeps the sum of that cost, and a span subtracts what was added to the
-- sum while it counted. So this costs a span two comparisons, and the sender need not know the spans.
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"
local readings = require "perf.counts.readings"

local M = {}

local watched = setmetatable({}, { __mode = "k" }) -- the lists by which spans are counted
local sending = false -- the coroutine in which a function sends, as returned by M.owner

local MAIN = {} -- stands for the main program, for which coroutine.running may return nil
local weak = { __mode = "v" }

-- The running coroutine, which may be collected if it waits.
function M.owner() return setmetatable({ coroutine.running() or MAIN }, weak) end

-- Whether a coroutine still runs or waits.
function M.alive(owner)
  local co = owner[1]
  return co == MAIN or co ~= nil and coroutine.status(co) ~= "dead"
end

-- Whether a coroutine runs, perhaps by one that it has resumed.
function M.active(owner)
  local co = owner[1]
  local status = co == MAIN and "running" or co and coroutine.status(co)
  return status == "running" or status == "normal"
end

-- Prepare a list for spans. list.spans is the number of spans that count by it now; list.sending is a table with the sum's Counts
-- (false: 0). The table is replaced and never changed, since spans keep earlier ones. Spans compare tables because Counts compare
-- by value: they would unpack both, and on LuaJIT even if both are the same object.
-- @param list returned by measure.lookup
-- @return list
function M.watch(list)
  if list and not watched[list] then
    list.spans, list.sending = 0, false
    watched[list] = true -- last, since each of these may run out of memory
  end
  return list
end

-- Subtract the cost that was added to a list's sum.
-- @param counts of a span that has just stopped counting by the list
-- @param before the value of list.sending when the span began
-- @return the cost that was subtracted
function M.leave_out(counts, list, before)
  local cost = readings.add(nil, list.sending.counts, list.meter)
  if before then readings.add(cost, before.counts, list.meter, true) end
  readings.add(counts, cost, list.meter, true)
  return cost
end

local can_yield = coroutine.isyieldable or function() -- Lua 5.1 and 5.2
  local co, main = coroutine.running()
  return co ~= nil and not main
end

local function begin()
  local costs, owner = {}, M.owner()
  for list in pairs_of(watched) do
    if list.spans > 0 and not list.released then
      costs[list] = { counts = readings.start(list.meter, list.layout, list.words) }
    end
  end
  sending = owner
  return costs
end

local resume

-- Stop counting when fn has returned, failed or yielded: the work of others before it continues is not its cost.
local function stopped(co, costs, ok, ...)
  sending = false
  for list, cost in pairs_of(costs) do
    local c = cost.counts -- nil: the events could not be read
    if c and readings.stop(list.meter, c) then
      if list.sending then readings.add(c, list.sending.counts, list.meter) end
      list.sending = cost
    end
  end
  if not ok then argument.rethrow(...) end
  if co and coroutine.status(co) ~= "dead" then return resume(co, coroutine.yield(...)) end
  return ...
end

function resume(co, ...)
  local costs = begin()
  return stopped(co, costs, coroutine.resume(co, ...))
end

-- Call a method that sends.
-- @param fn the method
-- @param sender its object, whose exporter may be a function that yields
-- @param ... further arguments
-- @return what fn returns; its error passes through
function M.excluded(fn, sender, ...)
  if sending and M.alive(sending) then return fn(sender, ...) end -- an exporter that calls flush: the outer call counts it
  if type(sender.exporter) == "function" and can_yield() then return resume(coroutine.create(fn), sender, ...) end
  return stopped(nil, begin(), pcall(fn, sender, ...))
end

return M
