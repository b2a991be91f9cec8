-- How values are distributed, on samples whose answers are known.
local distribution = require "perf.bench.distribution"

describe("perf.bench.distribution", function()
  local function up_to(n, ...)
    local t = {}
    for i = 1, n do t[i] = i end
    for _, v in ipairs { ... } do t[#t + 1] = v end
    return t
  end

  it("finds the quartiles, between neighbours in proportion", function()
    local q = distribution.quartiles { 5, 1, 4, 2, 3 }
    assert.same({ 2, 4, 1, 5 }, { q.q1, q.q3, q.from, q.to })
    q = distribution.quartiles { 4, 1, 2, 3 }
    assert.same({ 1.75, 3.25 }, { q.q1, q.q3 })
    q = distribution.quartiles { 7 }
    assert.same({ 7, 7, 7, 7, 7, 7 }, { q.q1, q.q3, q.low, q.high, q.from, q.to })
  end)

  it("tells outliers, and ends the scale before those that are far away", function()
    local q = distribution.quartiles(up_to(9, 20, 1000)) -- quartiles 3.5 and 8.5
    assert.same({ 3.5, 8.5, -4, 16 }, { q.q1, q.q3, q.low, q.high })
    assert.same({ 1, 20 }, { q.from, q.to })
    q = distribution.quartiles(up_to(9, -1000))
    assert.equal(1, q.from)
  end)

  it("has no outliers if half of the values are equal: it knows no scale for them", function()
    local q = distribution.quartiles { 0, 0, 0, 0, 0, 0, 9 }
    assert.same({ 0, 9, 0, 9 }, { q.low, q.high, q.from, q.to })
  end)

  it("gives several samples one scale", function()
    local from, to = distribution.scale { distribution.quartiles { 2, 3, 4 }, distribution.quartiles(up_to(9, 1000)) }
    assert.same({ 1, 9 }, { from, to })
  end)

  it("counts the values in equal parts of a scale, and those outside", function()
    local cells, before, after = distribution.cells({ -1, 0, 0.5, 1, 1.5, 3.9, 4, 4.1, 9 }, 0, 4, 4)
    assert.same({ 2, 2, 0, 2 }, cells)
    assert.same({ 1, 2 }, { before, after })
    assert.same({ 3, 0 }, (distribution.cells({ 7, 7, 7 }, 7, 7, 2)))
  end)

  it("has a density that is highest where most values are, symmetric for symmetric values", function()
    local q = distribution.quartiles { 1, 2, 2.9, 3, 3.1, 4, 5 }
    local d = distribution.density(q, 0, 6, 61)
    assert.equal(61, #d)
    assert.equal(1, d[31])
    for i = 1, 61 do
      assert.equal(d[i], d[62 - i])
      assert.is_true(d[i] >= 0 and d[i] <= 1)
    end
    assert.is_nil(distribution.density(distribution.quartiles { 4, 4 }, 0, 6, 61))
    -- single values far apart on a wide scale are narrow peaks, but every one of them can be seen
    d = distribution.density(distribution.quartiles { 0, 0, 0, 0, 0, 0, 100 }, 0, 100, 11)
    assert.equal(1, d[1])
    assert.is_true(d[11] > 0.1)
  end)
end)
