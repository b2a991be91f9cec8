-- The story: counts - other, as in README.md, printed "-83556.88 /sec" and "-14000000 ns elapsed" for a negative difference, but
-- "83.56 K/sec" and "14.000 ms elapsed" for a positive one.
local format = require "perf.base.format"

describe("a negative amount", function()
  it("has the unit that a positive one has", function()
    for _, v in ipairs { 1, 999, 1000, 83556.88, 14000000, 2 ^ 40 } do
      assert.equal("-" .. format.ns(v), format.ns(-v))
      assert.equal("-" .. format.si(v), format.si(-v))
    end
    assert.equal("0 ns", format.ns(0))
    assert.is_string(format.ns(-2 ^ 63))
  end)
end)
