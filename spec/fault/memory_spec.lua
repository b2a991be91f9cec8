-- Every allocation of Lua's in every public function fails: that one alone, and with all that follow.
local inject = require "spec.fault.inject"
local sweep = require "spec.fault.sweep".new("allocations that failed", "raised")

local jit = rawget(_G, "jit")

local function fail(t, row) t:memory(row.slow and inject.few or inject.many) end

describe("when Lua runs out of memory,", function()
  -- LuaJIT's compiled code does not survive this: an allocation in a trace has no frame to raise an error from.
  setup(function()
    if jit then
      jit.off()
      jit.flush()
    end
  end)
  teardown(function()
    if jit then jit.on() end
    sweep:finish()
  end)

  for _, row in ipairs(sweep.rows) do
    it(row.name .. " raises that or works, and leaves nothing", function()
      requires { nostress = true } -- a finalizer that cannot be called for lack of memory is lost
      if row.needs then requires(row.needs) end
      assert.same({}, sweep:try(row, fail))
    end)
  end
end)
