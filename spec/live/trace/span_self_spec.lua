-- The self counts of spans with pauses: exact, or left out.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local tracer = require("spec.support.spans").tracer
local util = require "spec.support.util"

local settled = util.settled
local FAULTS = util.FAULTS
local touch = kit.touch_pages

-- Spans by name: total, self.
local function check(list, expected)
  for name, pair in pairs(expected) do
    assert.same(pair, { list[name].counts[FAULTS], list[name].self_counts[FAULTS] }, name)
  end
end

describe("the self count of a span", function()
  before_each(function() requires { perf_open = "user" } end)

  it("is not reduced by a child that ran while the span was paused", function()
    settled(function()
      local t, list = tracer()
      local parent = t:start "parent"
      touch(1)
      parent:pause()
      local child = t:start("child", { parent = parent })
      touch(2)
      t:span("grandchild", { parent = child }, touch, 8)
      child:finish()
      parent:resume()
      t:span("second", { parent = parent }, touch, 16)
      touch(4)
      parent:finish()
      t:flush()
      check(list, { parent = { 21, 5 }, child = { 10, 2 }, grandchild = { 8, 8 }, second = { 16, 16 } })
    end)
  end)

  it("is exact when all are paused together", function()
    settled(function()
      local t, list = tracer()
      local parent = t:start "parent"
      touch(1)
      local child = t:start("child", { parent = parent })
      touch(2)
      child:pause()
      touch(4) -- the parent's
      parent:pause()
      touch(100)
      parent:resume()
      touch(8)
      child:resume()
      touch(16)
      child:finish()
      parent:finish()
      t:flush()
      check(list, { parent = { 31, 13 }, child = { 18, 18 } })
    end)
  end)

  it("is left out if a child counted for only a part of the time", function()
    settled(function()
      local t, list = tracer()
      local parent = t:start "paused in between"
      local child = t:start("child", { parent = parent })
      touch(2)
      parent:pause()
      touch(4)
      parent:resume()
      child:finish()
      parent:finish()
      parent = t:start "resumed in between"
      parent:pause()
      child = t:start("child", { parent = parent })
      touch(2)
      parent:resume()
      touch(4)
      child:finish()
      parent:finish()
      local top = t:start "top"
      parent = t:start("skipped", { parent = top })
      parent:pause()
      child = t:start("child", { parent = parent })
      touch(2)
      child:finish()
      parent:finish()
      top:finish()
      t:flush()
      check(list, { ["paused in between"] = { 2, nil }, ["resumed in between"] = { 4, nil }, skipped = { 0, nil },
        top = { 2, nil } })
    end)
  end)

  -- Nested spans are started, paused, resumed and finished in any order: if each has a self count, these add up to the work
  -- during which at least one of them counted.
  it("adds up in a random tree of spans", function()
    requires { nosan = true } -- its memory is new each time, and faults
    local seed = 7
    local function random(n)
      seed = (seed * 16807) % 2147483647
      return seed % n + 1
    end
    local exact = 0
    for _ = 1, 50 do
      local from, whole = seed, nil
      settled(function()
        seed = from
        local t, list = tracer()
        local spans, counting, done, n = { t:start "1" }, { true }, 0, 1
        for _ = 1, 10 do
          local i = random(#spans)
          local action = random(5)
          if spans[i].duration or action <= 2 then
            local last = spans[#spans]
            spans[#spans + 1] = t:start(tostring(#spans + 1), { parent = last })
            counting[#spans] = true
          elseif action == 3 then
            spans[i]:pause()
            counting[i] = false
          elseif action == 4 then
            spans[i]:resume()
            counting[i] = true
          elseif i > 1 then
            spans[i]:finish()
            counting[i] = false
            if i == #spans then spans[i], counting[i] = nil, nil end
          end
          n = n % 5 + 1
          touch(n)
          local one = false
          for k = 1, #spans do one = one or counting[k] end
          if one then done = done + n end
        end
        for i = #spans, 1, -1 do spans[i]:finish() end
        t:flush()
        local sum = 0
        whole = true
        for _, s in ipairs(list) do
          local own = s.self_counts[FAULTS]
          if own then sum = sum + own else whole = false end
        end
        if whole then assert.equal(done, sum) else assert.is_true(sum <= done, ("%d of %d"):format(sum, done)) end
      end)
      if whole then exact = exact + 1 end
    end
    assert.is_true(exact > 7, exact)
  end)
end)
