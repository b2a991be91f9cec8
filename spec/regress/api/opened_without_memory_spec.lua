--- The story: perf.core opens most of its parts when one of their names is first used. If memory ran out meanwhile, only some
-- parts were open. Then Event got its methods in Lua, and the use of another name opened all parts again: methods in C replaced
-- those in Lua, so `ev:map()` was refused, since the method in C takes a table.
local kit = require "testkit"
local util = require "spec.support.util"

describe("the parts of perf.core that are opened at their first use", function()
  -- perf.core as in a state that has not used it yet.
  local function fresh()
    package.loaded["perf.core"] = nil
    return require "perf.core"
  end

  it("are all open, or none is, if memory runs out at any place", function()
    assert.equal("true", util.in_child(function()
      local function open(core) return core.Record end
      local count = kit.fail_alloc(0, open, fresh())
      local refused = 0
      for n = 1, count, math.ceil(count / 30) do
        local core = fresh()
        local _, ok = kit.fail_alloc(n, open, core)
        if not ok then
          refused = refused + 1
          assert(core.Record)
          local methods, map = core.Event.__index, function() end
          methods.map = map
          assert(core.heap_take)
          assert(core.Event.__index == methods and methods.map == map, "opened again")
        end
      end
      return tostring(refused > 20)
    end))
  end)
end)
