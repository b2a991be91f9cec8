-- Descriptors run out at every place of every public function, by the limit of the process.
local inject = require "spec.fault.inject"
local rows = require "spec.fault.rows"

local total = { faults = 0, refused = 0, survived = 0 }

describe("when descriptors run out,", function()
  teardown(function()
    io.write(("times without descriptors: %d; told: %d, survived: %d\n"):format(total.faults, total.refused, total.survived))
    rows.teardown()
  end)

  for _, row in ipairs(rows) do
    it(row.name .. " holds the contract and leaves nothing", function()
      if row.needs then requires(row.needs) end
      local t = inject.trial(row)
      t:descriptors(row.slow and 4 or math.min(12, inject.many))
      for k in pairs(total) do total[k] = total[k] + t[k] end
      assert.same({}, t:finish())
    end)
  end
end)
