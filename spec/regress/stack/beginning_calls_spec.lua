-- The story: Lua 5.2 and 5.3 make a CallInfo the thread's innermost one before they store the function of the call in it. Where a
-- fork has made its page copy-on-write, that store is a page fault. The innermost function of its sample was that of an earlier
-- call at this depth, or another one that lay in the place of that function on the Lua stack.
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local DEPTH = 500

-- A string for each call keeps the CallInfos on separate pages, from Lua 5.2 on.
local function text(n) return ("x"):rep(4096) .. n end

local function never() end
local abs = math.abs

-- Two functions that call themselves: one has a small frame on the Lua stack, the other a large one with other functions.
local function small(n, kept)
  if n == 0 then return 0 end
  if kept then kept[n] = text(n) end
  return 1 + small(n - 1, kept)
end

local function large(n, kept)
  local a, b, c, d, e, f, g, h, i, j, k, l = never, abs, never, abs, never, abs, never, abs, never, abs, never, abs
  if n == 0 then return 0 end
  if kept then kept[n] = text(n) end
  return 1 + large(n - 1, kept), a, b, c, d, e, f, g, h, i, j, k, l
end

-- How many samples are of calls of a function, and how many of these have another innermost function. In the outermost calls, the
-- place of the earlier call's function may be in the caller's own frame.
local function count(prof, name)
  local all, wrong = 0, 0
  for _, s in ipairs(prof:samples()) do
    local innermost = s.stack[s.stack[1].kind == "state" and 2 or 1]
    if #s.stack >= 10 and s.stack[3].func == name then
      all = all + s.count
      wrong = wrong + (innermost.func ~= name and s.count or 0)
    end
  end
  return tonumber(all), tonumber(wrong)
end

local function in_own_process(fn)
  local p = assert(perf.profiler { event = "page-faults", period = 1 })
  assert(p:start())
  fn()
  local prof = assert(p:stop())
  p:close()
  return prof
end

describe("a page fault where a call begins", function()
  before_each(function()
    requires { puc = true, perf_open = true, registers = true, nostress = true }
    collectgarbage()
    collectgarbage "stop" -- the collector frees unused CallInfos
  end)

  after_each(function() collectgarbage "restart" end)

  local orders = {
    { "small", small, "large", large },
    { "large", large, "small", small },
  }
  for _, order in ipairs(orders) do
    local first_name, first, second_name, second = (table.unpack or unpack)(order) -- luacheck: ignore 143

    -- A coroutine that has called the first function, and then calls the second one.
    local function prepared()
      local thread, kept = coroutine.create(function(kept)
        first(DEPTH, kept)
        coroutine.yield()
        second(DEPTH)
      end), {}
      assert(coroutine.resume(thread, kept))
      return function() return assert(coroutine.resume(thread)), kept end
    end

    it(("has no function of an earlier call: %s frames after %s ones"):format(second_name, first_name), function()
      local run = prepared()
      local status, result = kit.fork(function()
        local prof = in_own_process(run)
        local all, wrong = count(prof, second_name)
        return ("%d %d\n%s"):format(all, wrong, profiling.text(prof))
      end)
      assert.equal(0, status, result)
      local all, wrong = result:match "^(%d+) (%d+)\n"
      assert.is_true(tonumber(all) >= 8, result)
      assert.equal("0", wrong, result)
    end)

    it(("has none in another process: %s frames after %s ones"):format(second_name, first_name), function()
      outside.requires()
      local prof = outside.profile({ event = "page-faults", period = 1 }, prepared())
      local all, wrong = count(prof, second_name)
      assert.is_true(all >= 8, profiling.text(prof))
      assert.equal(0, wrong, profiling.text(prof))
    end)
  end
end)
