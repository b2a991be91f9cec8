-- The story: on arm64, a function's frame on the C stack begins with its return address, and the registers that it saves follow.
-- The unwinder for PUC Lua knew only the order of x86-64, where they lie below. So it took old words for the address of the
-- running instruction while memory was allocated: 20 % of a loop's time was on the line before the one that allocates.
--
-- And the learner there took one of the allocator's callers for the interpreter's loop, since both have the address in a register
-- while memory is allocated. So the lines of a loop that do anything else had no time at all.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local sampled = require "spec.support.sampled"

describe("a line that allocates", function()
  it("has the time of the allocator, not the line before it", function()
    requires { perf_open = "user", puc = true, registers = true, nosan = true, nostress = true }
    assert(kit.unwind.learn())
    local line
    local stacks = sampled.run(function()
      local t, sum = { k = 1 }, 0
      line = debug.getinfo(1, "l").currentline + 2
      for _ = 1, 20000 do
        sum = t.k + sum
        t[1], t[2] = { sum }, { sum }
      end
    end)
    local function at(wanted)
      return sampled.share(stacks, function(places)
        for _, place in ipairs(places) do
          if place.kind == "Lua" then return place.line == wanted end
        end
      end)
    end
    local before, allocates = at(line), at(line + 1)
    assert(before < allocates / 5, ("%.1f%% before, %.1f%% where it allocates"):format(before, allocates))
  end)

  it("does not have the time of the lines with arithmetic", function()
    requires { perf_open = "user", puc = true, registers = true, nosan = true, nostress = true }
    assert(kit.unwind.learn())
    local line
    local stacks = sampled.run(function()
      local t, sum, x = {}, nil, 1.5
      line = debug.getinfo(1, "l").currentline + 2
      for i = 1, 5000 do
        x = (x + i) ^ 0.3 + (x + 1.1) ^ 0.7 + (x + 1.2) ^ 0.8 + (x + 1.3) ^ 0.9
        sum = i * 7 % 13 * 3 % 11 * 5 % 17 * 7 % 19 * 3 % 23 * 5 % 29 * 7 % 31
        t[1] = { sum }
      end
      return t, sum
    end)
    for at = line, line + 2 do
      local share = sampled.share(stacks, function(places)
        for _, place in ipairs(places) do
          if place.kind == "Lua" then return place.line == at end
        end
      end)
      assert(share > 2, ("%.1f%% on line %d of the loop"):format(share, at - line + 1))
    end
  end)
end)
