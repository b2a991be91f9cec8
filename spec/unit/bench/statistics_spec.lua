-- Statistics, compared with values computed by hand or printed in tables, and with generated data of known properties.
-- Twice: numbers are the same in Lua 5.1 to LuaJIT, and have a subtype in Lua 5.3 and 5.4.
local stats = require "perf.bench.statistics"

local function near(want, got, by)
  assert.is_true(math.abs(want - got) <= (by or 1e-9), ("want %.17g, got %.17g"):format(want, got))
end

local function range(n)
  local t = {}
  for i = 1, n do t[i] = i end
  return t
end

describe("perf.stats.summary", function()
  it("gives the plain figures", function()
    local s = stats.summary { 9, 2, 4, 4, 5, 4, 7, 5 }
    assert.equal(8, s.n)
    near(4.5, s.median)
    near(5, s.mean)
    near(math.sqrt(32 / 7), s.stddev)
    near(0.5, s.mad) -- distances 4.5 2.5 .5 .5 .5 .5 2.5 .5
    assert.equal(2, s.min)
    assert.equal(9, s.max)
  end)

  it("does not change the array", function()
    local t = { 3, 1, 2 }
    stats.summary(t)
    assert.same({ 3, 1, 2 }, t)
  end)

  -- The ranks of the order statistics and their coverage are in every table of the sign test.
  it("takes the median's interval from order statistics", function()
    for _, case in ipairs { { 6, 1, 6, 0.96875 }, { 8, 1, 8, 0.9921875 }, { 9, 2, 8, 0.9609375 }, { 10, 2, 9, 0.978515625 },
      { 30, 10, 21, 0.957226 }, { 100, 40, 61, 0.964800 } } do
      local s = stats.summary(range(case[1]))
      assert.same({ case[2], case[3] }, { s.ci[1], s.ci[2] })
      near(case[4], s.ci.level, 1e-6)
    end
  end)

  it("gives the coverage of an interval of a few values", function()
    local s = stats.summary { 1, 2, 3 }
    assert.same({ 1, 3 }, { s.ci[1], s.ci[2] })
    near(0.75, s.ci.level)
    s = stats.summary { 7 }
    assert.same({ 7, 7 }, { s.ci[1], s.ci[2] })
    near(0, s.ci.level)
    assert.equal(0, s.stddev)
  end)

  it("uses the normal approximation where it agrees with the exact distribution", function()
    local exact, approximate = stats.summary(range(1000)), stats.summary(range(1001))
    near(exact.ci[1], approximate.ci[1], 1)
    near(exact.ci[2], approximate.ci[2], 1.5)
  end)

  it("has no rounding error if all values are equal", function()
    local t = {}
    for i = 1, 30 do t[i] = 0.1 end
    local s = stats.summary(t)
    assert.same({ 0.1, 0.1, 0, 0, 0.1, 0.1 }, { s.mean, s.median, s.stddev, s.mad, s.ci[1], s.ci[2] })
  end)

  it("is nil for nothing", function() assert.is_nil(stats.summary {}) end)
end)

-- The test by its definition: of all ways to choose the signs, the share whose sum of positive scores is as extreme.
local function by_definition(differences)
  local sizes, list, n = {}, {}, 0
  for _, d in ipairs(differences) do
    if d ~= 0 then
      n = n + 1
      sizes[n] = { size = math.abs(d), positive = d > 0 }
    end
  end
  for i, a in ipairs(sizes) do
    local below, same = 0, 0
    for _, b in ipairs(sizes) do
      if b.size < a.size then below = below + 1 elseif b.size == a.size then same = same + 1 end
    end
    list[i] = math.min(below + (same + 1) / 2, math.ceil(n / 2))
  end
  local function distance(positive)
    local sum, total = 0, 0
    for i, score in ipairs(list) do
      total = total + score
      if positive(i) then sum = sum + score end
    end
    return math.abs(sum - total / 2)
  end
  local seen, as_far = distance(function(i) return sizes[i].positive end), 0
  for signs = 0, 2 ^ n - 1 do
    local function positive(i) return math.floor(signs / 2 ^ (i - 1)) % 2 == 1 end
    if distance(positive) >= seen then as_far = as_far + 1 end
  end
  return as_far / 2 ^ n
end

describe("perf.stats.signed_rank", function()
  it("is exact", function()
    near(2 / 64, (stats.signed_rank { 1, 2, 3, 4, 5, 6 }))
    for _, d in ipairs { { 10, -20, 30 }, { 1, 1, 1, -1 }, { -1, 2, 3, 4, 5, 6, -7, 8, 9, 10 },
      { 5, -5, 5, 5, -1, 2, 2, 0, 2, 7, -7 }, { 0.1, -0.2, 0.4, 3, -90, 17, 0, 0.3, 0.3 }, { 4 } } do
      near(by_definition(d), (stats.signed_rank(d)))
    end
  end)

  it("does not depend on the distance of outliers", function()
    near(stats.signed_rank { 1, 2, 3, 4, 5, 6, 7, 8, -9, 10 }, (stats.signed_rank { 1, 2, 3, 4, 5, 6, 7, 8, -900, 10 }))
    near(stats.signed_rank { 1, 2, 3, 4, 5, -6, 7, 8, 9, 10 }, (stats.signed_rank { 1, 2, 3, 4, 5, 6, 7, 8, 9, -10 }))
  end)

  it("leaves out differences of 0", function()
    local p, n = stats.signed_rank { 0, 0, 1, 2, 3, 4, 5, 6, 0 }
    near(2 / 64, p)
    assert.equal(6, n)
    p, n = stats.signed_rank { 0, 0 }
    assert.equal(1, p)
    assert.equal(0, n)
  end)

  it("uses the normal approximation where it agrees with the exact distribution", function()
    local function spread(n)
      local d = {}
      for i = 1, n do d[i] = i % 3 == 0 and -i or i end
      return d
    end
    local d = spread(51)
    local approximate = stats.signed_rank(d)
    table.remove(d, 1)
    near(approximate, stats.signed_rank(d), 0.005)
  end)

  it("includes the least possible p", function()
    for n = 1, 20 do near(stats.least_p(n), (stats.signed_rank(range(n)))) end
  end)
end)

describe("perf.stats.paired", function()
  it("is exact for exact data", function()
    local a, b = {}, {}
    for i = 1, 30 do a[i], b[i] = 64, 128 end
    local r = stats.paired(a, b)
    assert.same({ 2, 2, 2 }, { r.ratio[1], r.ratio[2], r.ratio[3] })
    assert.same({ 64, 64, 64 }, { r.difference[1], r.difference[2], r.difference[3] })
    near(2 ^ -29, r.p, 1e-15)
    assert.equal(30, r.n)
    r = stats.paired(a, a)
    assert.same({ 1, 1, 1 }, { r.ratio[1], r.ratio[2], r.ratio[3] })
    assert.equal(1, r.p)
  end)

  it("has no ratio to a baseline of 0", function()
    local r = stats.paired({ 0, 0, 0, 0, 0, 0 }, { 1, 1, 2, 1, 1, 3 })
    assert.is_nil(r.ratio)
    assert.same({ 1, 1, 3 }, { r.difference[1], r.difference[2], r.difference[3] })
    near(2 / 64, r.p)
    r = stats.paired({ 4, 4, 4, -1 }, { 5, 5, 5, 5 })
    assert.is_nil(r.ratio)
  end)

  it("has no upper end of the ratio if the baseline may be 0", function()
    local r = stats.paired({ 0, 0, 0, 1, 1, 1, 1, 1 }, { 1, 2, 1, 1, 2, 1, 2, 1 })
    assert.equal(math.huge, r.ratio[3])
    assert.is_true(r.ratio[1] >= 1 and r.ratio[1] < math.huge)
    r = stats.paired({ 2, 2, 2, 2, 2, 2 }, { 0, 0, 0, 0, 0, 0 })
    assert.same({ 0, 0, 0 }, { r.ratio[1], r.ratio[2], r.ratio[3] })
  end)

  it("has an interval without 1 if the test finds a difference", function()
    requires { nostress = true } -- much arithmetic, nothing to leak
    local random, apart = stats.rng(11), 0
    for _ = 1, 100 do
      local a, b = {}, {}
      for i = 1, 20 do a[i], b[i] = 10 + random(), 10.25 + random() end
      local r = stats.paired(a, b)
      local outside = r.ratio[2] > 1 or r.ratio[3] < 1
      assert.equal(r.p <= 1 - r.ratio.level, outside)
      assert.equal(outside, r.difference[2] > 0 or r.difference[3] < 0)
      if outside then apart = apart + 1 end
    end
    assert.is_true(apart > 20 and apart < 95, tostring(apart))
  end)

  it("is not affected by drift that both share", function()
    local a, b = {}, {}
    for i = 1, 30 do
      local speed = 1 + i / 10
      a[i], b[i] = 100 * speed, 110 * speed
    end
    local r = stats.paired(a, b)
    near(1.1, r.ratio[1])
    near(1.1, r.ratio[2])
    near(1.1, r.ratio[3])
    assert.is_true(r.p < 1e-8)
  end)

  it("combines many rounds in blocks", function()
    requires { nostress = true } -- much arithmetic, nothing to leak
    local a, b, random = {}, {}, stats.rng(5)
    for i = 1, 5000 do a[i], b[i] = 10 + random(), 15 + random() end
    local r = stats.paired(a, b)
    assert.equal(5000, r.n)
    near(15.5 / 10.5, r.ratio[1], 0.02)
    assert.is_true(r.ratio[2] < 15.5 / 10.5 and 15.5 / 10.5 < r.ratio[3])
  end)

  it("is nil for nothing", function() assert.is_nil(stats.paired({}, {})) end)
end)

describe("perf.stats.holm", function()
  it("is stricter the more comparisons there are", function()
    local adjusted = stats.holm { 0.01, 0.04, 0.03, 0.005 }
    for i, want in ipairs { 0.03, 0.06, 0.06, 0.02 } do near(want, adjusted[i]) end
    assert.same({ 1, 1, 1 }, stats.holm { 1, 0.9, 0.5 })
    assert.same({}, stats.holm {})
  end)
end)

describe("perf.stats.rng", function()
  it("gives the same numbers on every interpreter", function()
    local random = stats.rng(42)
    local digits = {}
    for i = 1, 12 do digits[i] = random(10) end
    assert.equal("6 8 8 7 4 5 10 5 5 9 2 9", table.concat(digits, " "))
  end)

  it("is even over its range", function()
    requires { nostress = true } -- much arithmetic, nothing to leak
    local random, seen = stats.rng(7), {}
    for _ = 1, 60000 do
      local v = random(6)
      seen[v] = (seen[v] or 0) + 1
    end
    for v = 1, 6 do near(10000, seen[v], 400) end
  end)

  it("shuffles without loss", function()
    local t = stats.shuffle(range(100), stats.rng(1))
    assert.not_same(range(100), t)
    table.sort(t)
    assert.same(range(100), t)
  end)
end)

-- Realistic times: a narrow peak, a tenth of the runs disturbed, and all of them drifting.
local function noise(random)
  local bell = math.sqrt(-2 * math.log(random())) * math.cos(2 * math.pi * random())
  local t = 100 + 3 * bell
  return random() < 0.1 and t * (1 + 2 * random()) or t
end

local function pair_up(random, rounds, factor)
  local a, b, drift = {}, {}, 1
  for i = 1, rounds do
    drift = drift * (1 + 0.1 * (random() - 0.5))
    a[i], b[i] = noise(random) * drift, factor * noise(random) * drift
  end
  return a, b, {}
end

describe("a comparison", function()
  before_each(function() requires { nostress = true } end)

  it("of a function with itself finds no difference", function()
    local random, wrong, tables, rows = stats.rng(2024), 0, 400, 5
    for _ = 1, tables do
      local ps = {}
      for row = 1, rows do
        local a, b, d = pair_up(random, 20, 1)
        for i = 1, 20 do d[i] = b[i] - a[i] end
        ps[row] = stats.signed_rank(d)
      end
      local adjusted = stats.holm(ps)
      table.sort(adjusted)
      if adjusted[1] < 0.05 then wrong = wrong + 1 end
    end
    -- at a threshold of 5 %, 20 of 400 tables are to be expected
    assert.is_true(wrong <= 20, wrong .. " of 400 tables have a difference")
  end)

  it("has intervals that contain the true value", function()
    local random, held = stats.rng(31), 0
    for _ = 1, 100 do
      local a, b = pair_up(random, 20, 1.25)
      local ratio = stats.paired(a, b).ratio
      if ratio[2] <= 1.25 and 1.25 <= ratio[3] then held = held + 1 end
    end
    near(95, held, 4)
  end)

  it("finds a difference of an eighth", function()
    local random, found = stats.rng(99), 0
    for _ = 1, 50 do
      local a, b = pair_up(random, 30, 1.125)
      local r = stats.paired(a, b)
      if stats.holm { r.p, 1, 1, 1, 1 }[1] < 0.01 then found = found + 1 end
      near(1.125, r.ratio[1], 0.06)
    end
    assert.is_true(found >= 40, found .. " of 50")
  end)
end)
