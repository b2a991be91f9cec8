-- Numbers of perf.bench and perf.compare as text.
local text = require "perf.bench.report"

describe("perf.bench.text.quantity", function()
  it("shows times in the unit that reads best, with four digits", function()
    for _, case in ipairs { { 0, "0 ns" }, { 0.25, "0.250 ns" }, { 41.254, "41.25 ns" }, { 999.94, "999.9 ns" },
      { 999.96, "1.000 us" }, { 1234.5, "1.234 us" }, { 12345678, "12.35 ms" }, { 999999999, "1.000 s" }, { 9.9999e9, "10.00 s" },
      { 123456e9, "123456 s" }, { -1.5, "-1.500 ns" }, { -2e6, "-2.000 ms" } } do
      assert.equal(case[2], text.quantity(case[1], "ns"))
    end
  end)

  it("shows whole counts as integers, and fractions with their significant digits", function()
    for _, case in ipairs { { 0, "0" }, { 64, "64" }, { 1234567, "1,234,567" }, { 12345.678, "12,346" }, { 64.5, "64.50" },
      { 1.5, "1.500" }, { 0.03214, "0.0321" }, { 0.5, "0.5" }, { -3, "-3" }, { -1234.5, "-1,234" } } do
      assert.equal(case[2], text.quantity(case[1]))
    end
    assert.equal("12.50 Joules", text.quantity(12.5, "Joules"))
    assert.equal("0 Joules", text.quantity(0, "Joules"))
  end)
end)
