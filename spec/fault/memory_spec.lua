-- Every allocation of Lua's in every public function fails: alone, and with all that follow.
local inject = require "spec.fault.inject"
local rows = require "spec.fault.rows"

local total = { faults = 0, refused = 0, survived = 0 }
local jit = rawget(_G, "jit")

describe("when Lua runs out of memory,", function()
  -- LuaJIT's compiled code does not survive it: an allocation in a trace has no frame to raise from.
  setup(function()
    if jit then
      jit.off()
      jit.flush()
    end
  end)
  teardown(function()
    if jit then jit.on() end
    io.write(("allocations that failed: %d; raised: %d, survived: %d\n"):format(total.faults, total.refused, total.survived))
    rows.teardown()
  end)

  for _, row in ipairs(rows) do
    it(row.name .. " raises that or works, and leaves nothing", function()
      requires { nostress = true } -- a finalizer that finds no memory to be called with is lost
      if row.needs then requires(row.needs) end
      local t = inject.trial(row)
      t:memory(row.slow and inject.few or inject.many)
      for k in pairs(total) do total[k] = total[k] + t[k] end
      assert.same({}, t:finish())
    end)
  end
end)
