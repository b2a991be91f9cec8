-- The story: Tally:top(-math.huge) never ended, since it removed entries down to that index; NaN, fractions and negative numbers
-- were accepted too. And tostring of a closed Tally raised an error, unlike that of all other objects.
local perf = require "perf"

describe("a Tally", function()
  local tally
  before_each(function() tally = assert(perf.tally { by = "ip" }) end)
  after_each(function() tally:close() end)

  it("refuses a number of entries that is not whole, or below 0", function()
    for _, n in ipairs { -math.huge, 0 / 0, 2.5, -1 } do
      local ok, message = pcall(tally.top, tally, n)
      assert.is_false(ok)
      assert.matches("whole number of at least 0 expected, got " .. tostring(n), message, 1, true)
    end
    for _, n in ipairs { 0, 2, math.huge } do assert.same({}, tally:top(n)) end
  end)

  it("has a text when it is closed", function()
    tally:close()
    assert.equal("Tally(ip, closed)", tostring(tally))
  end)
end)
