-- Profiles of allocations and of the heap, against a model that knows the size and lifetime of each object. Profilers start,
-- stop, are read and are forgotten at random, in one Lua state and in several that close in any order.
-- Later: the model has many random steps.
local kit = require "testkit"
local lifetimes = require "spec.support.lifetimes"

describe("a profile of allocations or of the heap", function()
  before_each(function()
    requires { registers = true, nostress = true }
    collectgarbage "stop"
  end)
  after_each(function() collectgarbage "restart" end)

  for _, seed in ipairs { 3, 7 } do
    it("has exactly the objects that the model expects, with seed " .. seed, function()
      assert(lifetimes.new(seed)(60) > 8000)
    end)
  end

  it("has exactly these objects also in states that close in any order, while profilers run in them", function()
    local STATES, seed, opened, random = 4, 0, {}, lifetimes.random(7)
    local function close(i)
      opened[i] = nil
      assert.is_true(kit.close_beside(i))
    end
    finally(function()
      for i in pairs(opened) do kit.close_beside(i) end
    end)
    local play, found = lifetimes.new(3), {} -- found: the bytes in each state's Profiles
    for _ = 1, 10 do
      local i = random(STATES)
      local code = "return play(8)"
      if opened[i] and random(2) == 1 then close(i) end
      if not opened[i] then
        seed = seed + 1
        code = ("collectgarbage 'stop' play = require 'spec.support.lifetimes'.new(%d) %s"):format(seed, code)
        opened[i] = true
      end
      local ok, text = kit.beside(i, code)
      found[seed .. i] = assert(tonumber(ok and text), text)
      play(3)
    end
    assert(seed > STATES, seed)
    for i in pairs(opened) do close(i) end
    assert(play(10) > 8000)
    local whole = 0
    for _, bytes in pairs(found) do whole = whole + bytes end
    assert(whole > 5000, whole)
  end)
end)
