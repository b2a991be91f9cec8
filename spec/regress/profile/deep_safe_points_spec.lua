-- The story: the stack of a recursion of 1,500 calls was cut at its 1,000th frame, and at safe points nothing said so. The other
-- method counts such samples as "too deep".
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

describe("a stack of more than 1,000 frames", function()
  local function down(n)
    if n == 0 then kit.touch_pages(10) else down(n - 1) end
    return n
  end

  for _, how in ipairs { "resumer", "creator" } do
    it("is counted as too deep at safe points, with coroutines under their " .. how, function()
      requires { perf_open = "user" }
      local function run(depth)
        local options = { event = "page-faults:u", period = 1, coroutines = how }
        local prof
        profiling.at_safe_points(function()
          prof = assert(perf.profile(options, function() coroutine.wrap(down)(depth) end))
        end)
        return prof
      end
      local deep = run(1500)
      assert.equal("safe point", deep.method)
      assert.is_true(deep.failures["too deep"] >= 10, profiling.text(deep))
      assert.equal(deep.total, profiling.sum(deep))
      assert.is_nil(run(100).failures)
    end)
  end
end)
