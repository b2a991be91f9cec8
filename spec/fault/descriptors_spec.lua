-- Descriptors run out at every place of every public function, by the limit of the process.
local inject = require "spec.fault.inject"
local sweep = require "spec.fault.sweep".new("times without descriptors", "told")

local function fail(t, row) t:descriptors(row.slow and 4 or math.min(12, inject.many)) end

describe("when descriptors run out,", function()
  teardown(function() sweep:finish() end)

  for _, row in ipairs(sweep.rows) do
    it(row.name .. " holds the contract and leaves nothing", function()
      if row.needs then requires(row.needs) end
      assert.same({}, sweep:try(row, fail))
    end)
  end
end)
