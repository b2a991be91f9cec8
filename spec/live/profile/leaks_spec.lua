-- Leaks of known kinds, beside ten times as much garbage: each is the first line of a profile of the heap.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local perf = require "perf"
local profiling = require "spec.support.profiling"

local N, SIZE, PERIOD = 4000, 1000, 32768
local place = {} -- has or knows the objects that hold the leak
local line = {}

line.cache = profiling.next_line()
local function cache(i) place.cache[i] = ("x"):rep(SIZE) .. i end

line.timer = profiling.next_line() + 1
local function timer(i)
  local request = ("x"):rep(SIZE) .. i
  place.timers[i] = function() return request end
end

line.registry = profiling.next_line()
local function registry(i) debug.getregistry()[place][i] = ("x"):rep(SIZE) .. i end

line.coroutine = profiling.next_line() + 3
local function never_ends()
  local held = {}
  for i = 1, N do
    held[i] = ("x"):rep(SIZE) .. i
    coroutine.yield(held)
  end
end

local function garbage(i)
  local last
  for k = 1, 10 do last = ("y"):rep(SIZE) .. i .. "," .. k end
  return last
end

local leaks = { cache = cache, timer = timer, registry = registry, coroutine = function() place.resume() end }

describe("a leak", function()
  before_each(function()
    requires { registers = true, nostress = true }
    place.cache, place.timers, place.resume = {}, {}, coroutine.wrap(never_ends)
    debug.getregistry()[place] = {}
  end)
  after_each(function() debug.getregistry()[place], place.cache, place.timers, place.resume = nil, nil, nil, nil end)

  for name, leak in pairs(leaks) do
    it("of this kind is the first line: " .. name, function()
      local prof = assert(perf.profile({ event = "heap", period = PERIOD, survived = 1 }, function()
        for i = 1, N do
          leak(i)
          garbage(i)
        end
        for _ = 1, 3 do collectgarbage() end
      end))
      local sum = profiling.on_line(prof, line[name])
      -- There are 122 samples on average, so seven standard errors are 63 %.
      assert(math.abs(sum / (N * SIZE) - 1) < 0.7, profiling.text(prof))
      assert(sum > 0.5 * prof.total, profiling.text(prof)) -- the rest: what holds it, and the table of strings
      assert.equal(line[name], prof:top().lines[1].line)
    end)
  end
end)
