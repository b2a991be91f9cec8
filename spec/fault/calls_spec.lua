-- Every system call of every public function fails once with each errno that it can plausibly return.
local inject = require "spec.fault.inject"
local sweep = require "spec.fault.sweep".new("system calls that failed", "told")

local function fail(t, row) t:system_calls(row.slow and inject.few or inject.many) end

describe("when a system call fails,", function()
  teardown(function() sweep:finish() end)

  for _, row in ipairs(sweep.rows) do
    it(row.name .. " holds the contract and leaves nothing", function()
      if row.needs then requires(row.needs) end
      assert.same({}, sweep:try(row, fail))
    end)
  end
end)
