-- The story: on arm64, a function's frame on the C stack begins with its return address, and the registers that it saves follow.
-- The unwinder for PUC Lua knew only the order of x86-64, where they lie below. So it took old words for the address of the
-- running instruction while memory was allocated: 20 % of a loop's time was on the line before the one that allocates.
local kit = require "testkit"
local sampled = require "spec.support.sampled"

describe("a line that allocates", function()
  it("has the time of the allocator, not the line before it", function()
    requires { puc = true, registers = true, nosan = true, nostress = true }
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
end)
