-- Every system call of every public function fails once with each errno that it can plausibly give.
local inject = require "spec.fault.inject"
local rows = require "spec.fault.rows"

local total = { faults = 0, refused = 0, survived = 0 }

describe("when a system call fails,", function()
  teardown(function()
    io.write(("system calls that failed: %d; told: %d, survived: %d\n"):format(total.faults, total.refused, total.survived))
    rows.teardown()
  end)

  for _, row in ipairs(rows) do
    it(row.name .. " holds the contract and leaves nothing", function()
      if row.needs then requires(row.needs) end
      local t = inject.trial(row)
      t:system_calls(row.slow and inject.few or inject.many)
      for k in pairs(total) do total[k] = total[k] + t[k] end
      assert.same({}, t:finish())
    end)
  end
end)
