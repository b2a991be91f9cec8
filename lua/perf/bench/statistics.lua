-- The statistics for perf.bench and perf.compare: pure functions of arrays of numbers, which they do not change.
--
-- Times of repeated runs have a long tail on one side, several peaks (with or without a timer's tick) and drift (the CPU's clock,
-- other programs). So nothing here assumes a normal distribution:
--
--   one sample    median, and its interval from order statistics, which is exact for every distribution
--   two samples   run in pairs, side by side in time, so that disturbances of both cancel out. Wilcoxon's signed-rank test, which
--                 only assumes that both orders of a pair are equally likely if both are the same function. Ranks are capped
--                 at the middle one: so a disturbed run weighs no more than an average one. This finds differences under
--                 disturbances that the plain test misses, and costs almost nothing without disturbances
--   ratio         the r at which the pairs (a, b) balance about b = r a, and its interval by the same test, so that
--                 estimate, interval and test agree
--   many tests    Holm's correction: the probability that even one of all answers is wrong stays below the threshold
local M = {}

local floor, ceil, sqrt, abs, exp = math.floor, math.ceil, math.sqrt, math.abs, math.exp

-- The level of intervals.
M.LEVEL = 0.95

local TAIL = (1 - M.LEVEL) / 2
local MOST_EXACT = 50  -- pairs for which the exact distribution is computed
local MOST_PAIRS = 200 -- more pairs are first combined to blocks

-- One sample ----------------------------------------------------------------------------------------------------------

local function sorted(values)
  local t = {}
  for i = 1, #values do t[i] = values[i] end
  table.sort(t)
  return t
end

local function median_of_sorted(t)
  local n = #t
  if n % 2 == 1 then return t[(n + 1) / 2] end
  return (t[n / 2] + t[n / 2 + 1]) / 2
end

-- The middle value, or the mean of the middle two.
-- @tparam {number,...} values at least one
-- @treturn number
function M.median(values) return median_of_sorted(sorted(values)) end

-- k such that the k-th smallest and the k-th largest of n values enclose the median with at least 95 % (k = 1 if even the
-- extremes do not), and the probability that they do. The number of values below the median has a binomial distribution.
local by_n = {}
local function enclosing(n)
  local known = by_n[n]
  if known then return known[1], known[2] end
  local k, below
  if n <= 1000 then
    local p = 0.5 ^ n -- the probability of exactly k - 1 values below
    k, below = 1, p
    while true do
      p = p * (n - k + 1) / k
      if below + p > TAIL or k + 1 > n / 2 then break end
      k, below = k + 1, below + p
    end
  else
    k, below = floor(n / 2 - 0.98 * sqrt(n)), TAIL
  end
  by_n[n] = { k, 1 - 2 * below }
  return k, 1 - 2 * below
end

-- Median, mean and spread of a sample.
-- @tparam {number,...} values
-- @treturn[1] table `n`, `median`, `mean`, `stddev` (of the sample, n - 1; 0 for one value), `mad` (median of the
-- distances from the median, not scaled), `min`, `max`, and `ci = {lo, hi, level=}`: the interval of the median. `level` is its
-- true confidence level: 0.95 or a little more; less for fewer than 6 values, for which the interval is the whole range
-- @treturn[2] nil for an empty array
function M.summary(values)
  local n = #values
  if n == 0 then return nil end
  local t = sorted(values)
  local median, sum = median_of_sorted(t), 0
  for i = 1, n do sum = sum + t[i] end
  local mean = sum / n
  -- The mean of equal values must be exact, which a rounded sum does not guarantee.
  if t[1] == t[n] then mean = t[1] end
  local squares, distances = 0, {}
  for i = 1, n do
    squares = squares + (t[i] - mean) ^ 2
    distances[i] = abs(t[i] - median)
  end
  local k, level = enclosing(n)
  return {
    n = n, median = median, mean = mean, stddev = n > 1 and sqrt(squares / (n - 1)) or 0, mad = M.median(distances),
    min = t[1], max = t[n], ci = { t[k], t[n + 1 - k], level = level },
  }
end

-- Pairs ---------------------------------------------------------------------------------------------------------------

-- The probability of a standard normal value below z, to 1e-7 (Abramowitz and Stegun 26.2.17).
local function normal_below(z)
  local t = 1 / (1 + 0.2316419 * abs(z))
  local tail = 0.3989422804014327 * exp(-z * z / 2)
    * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
  return z < 0 and tail or 1 - tail
end

-- The score of each difference: its rank by absolute value among those that are not 0. Equal ones get the mean of their ranks,
-- and ranks are capped at the middle rank. Scores are doubled, so that all are integers. Returns the array of scores, the sum of
-- those of positive differences, the sum of all, and that of their squares.
local function scores(differences)
  local sizes, n = {}, 0
  for i = 1, #differences do
    local v = differences[i]
    if v ~= 0 then
      n = n + 1
      sizes[n] = abs(v)
    end
  end
  table.sort(sizes)
  local list, of_size, most, i = {}, {}, 2 * ceil(n / 2), 1
  local positive, total, squares = 0, 0, 0
  while i <= n do
    local j = i
    while j < n and sizes[j + 1] == sizes[i] do j = j + 1 end
    local score = math.min(i + j, most)
    of_size[sizes[i]] = score
    for k = i, j do list[k] = score end
    total, squares = total + score * (j - i + 1), squares + score * score * (j - i + 1)
    i = j + 1
  end
  for k = 1, #differences do
    local v = differences[k]
    if v > 0 then positive = positive + of_size[v] end
  end
  return list, positive, total, squares
end

-- The probability of each sum of the scores if each is counted with probability 1/2: ways[s + 1] for sum s.
local function score_sums(list)
  local total, ways = 0, { 1 }
  for _, score in ipairs(list) do
    for s = total + 1, total + score do ways[s + 1] = 0 end
    total = total + score
    for s = total, 0, -1 do
      ways[s + 1] = (ways[s + 1] + (s >= score and ways[s - score + 1] or 0)) / 2
    end
  end
  return ways
end

-- The signed-rank test of whether differences are distributed about 0. Differences of 0 are ignored.
-- @tparam {number,...} differences
-- @treturn number the two-sided p
-- @treturn int the number of differences that are not 0
function M.signed_rank(differences)
  local list, positive, total, squares = scores(differences)
  local n = #list
  if n == 0 then return 1, 0 end
  if n <= MOST_EXACT then
    local ways, p = score_sums(list), 0
    for s = 0, math.min(positive, total - positive) do p = p + ways[s + 1] end
    return math.min(1, 2 * p), n
  end
  -- One rank is two of ours: a continuity correction of half a rank is 1.
  local z = math.min(0, -abs(positive - total / 2) + 1) / sqrt(squares / 4)
  return math.min(1, 2 * normal_below(z)), n
end

-- The smallest share of the positive scores at which the test for n differences does not reject at 95 %, and the true level.
local shares = {}
local function least_share(n)
  local known = shares[n]
  if known then return known[1], known[2] end
  local differences = {}
  for i = 1, n do differences[i] = i end
  local list, _, total, squares = scores(differences)
  local c, below
  if n <= MOST_EXACT then
    local ways = score_sums(list)
    c, below = 0, ways[1]
    while below + ways[c + 2] <= TAIL do c, below = c + 1, below + ways[c + 2] end
  else
    c, below = total / 2 - 1.959964 * sqrt(squares / 4), TAIL
  end
  shares[n] = { c / total, 1 - 2 * below }
  return c / total, 1 - 2 * below
end

-- Round a result of bisection, whose last digits are not exact.
local function rounded(v)
  if abs(v) == math.huge then return v end
  return tonumber(("%.9g"):format(v))
end

-- The r at which the differences y - r x balance about 0, and the interval of r at which the test does not reject.
-- All x are 0 or more; the possible values of r are between low and high, or `beyond` above high.
local function balance(y, x, low, high, beyond)
  local n, e, known = #y, {}, {}
  local function share(r)
    local v = known[r] -- the bisections begin with the same values
    if not v then
      for i = 1, n do e[i] = y[i] - r * x[i] end
      local _, positive, total = scores(e)
      v = total == 0 and 0.5 or positive / total
      known[r] = v
    end
    return v
  end
  -- The share falls as r grows: find the r at which it falls below a bound, or reaches it.
  local function edge(bound, to_it)
    local from, to = low, high
    for _ = 1, 100 do
      local r = (from + to) / 2
      if r == from or r == to then break end
      local v = share(r)
      if v < bound or (to_it and v == bound) then to = r else from = r end
      if to - from <= 1e-10 * abs(to) then break end
    end
    return from == low and low or to == high and beyond or (from + to) / 2
  end
  local least, level = least_share(n)
  return { rounded((edge(0.5, true) + edge(0.5)) / 2), rounded(edge(1 - least)), rounded(edge(least, true)), level = level }
end

-- Combine neighbouring pairs by their medians until there are at most MOST_PAIRS. The members of a pair stay as exchangeable as
-- before.
local function in_blocks(a, b)
  local n = #a
  if n <= MOST_PAIRS then return a, b end
  local size, x, y = ceil(n / MOST_PAIRS), {}, {}
  for from = 1, n - size + 1, size do
    local p, q = {}, {}
    for i = 0, size - 1 do p[i + 1], q[i + 1] = a[from + i], b[from + i] end
    x[#x + 1], y[#y + 1] = M.median(p), M.median(q)
  end
  return x, y
end

-- The ratio of b to a, or nil if it has no meaning.
local function ratio_of(a, b)
  if M.median(a) <= 0 then return nil end
  local most, beyond = 0, nil
  for i = 1, #a do
    if a[i] < 0 then return nil end
    if a[i] > 0 then most = math.max(most, b[i] / a[i]) elseif b[i] > 0 then beyond = math.huge end
  end
  -- If a is 0, no r is large enough: the bisection ends at a bound far above any real ratio.
  if beyond then return balance(b, a, 0, 1e6 * math.max(most, 1), beyond) end
  return balance(b, a, 0, most, most)
end

-- Compare two samples that were taken in pairs.
-- @tparam {number,...} a the baseline
-- @tparam {number,...} b of the same length; b[i] was measured beside a[i]
-- @treturn[1] table `n` (pairs), `differing` (unequal pairs), `p` (signed-rank test of b - a), `difference` and `ratio`, each
-- `{estimate, lo, hi, level=}` with a 95 % interval of this one comparison; `ratio` (b to a) is nil if a's median is not above 0,
-- or a value of a is below 0
-- @treturn[2] nil when there are no pairs
function M.paired(a, b)
  if #a == 0 then return nil end
  local n = #a
  a, b = in_blocks(a, b)
  local d, ones, low, high = {}, {}, math.huge, -math.huge
  for i = 1, #a do
    d[i], ones[i] = b[i] - a[i], 1
    low, high = math.min(low, d[i]), math.max(high, d[i])
  end
  local p, differing = M.signed_rank(d)
  return { n = n, p = p, differing = differing, difference = balance(d, ones, low, high, high), ratio = ratio_of(a, b) }
end

-- The smallest p that the signed-rank test can give for n pairs.
function M.least_p(n) return math.min(1, 2 * 0.5 ^ n) end

-- Holm's correction: raise p values by the number of tests, so that the probability of even one false positive stays below the
-- threshold that each is compared with.
-- @tparam {number,...} ps
-- @treturn {number,...} adjusted, in the same order
function M.holm(ps)
  local order, adjusted, n, least = {}, {}, #ps, 0
  for i = 1, n do order[i] = i end
  table.sort(order, function(x, y)
    if ps[x] ~= ps[y] then return ps[x] < ps[y] end
    return x < y
  end)
  for rank, i in ipairs(order) do
    least = math.max(least, math.min(1, ps[i] * (n - rank + 1)))
    adjusted[i] = least
  end
  return adjusted
end

-- Chance --------------------------------------------------------------------------------------------------------------

-- Random numbers that are the same on every interpreter: two combined multiplicative generators (L'Ecuyer 1988), whose
-- products stay below 2^53. Period 2.3e18.
-- @tparam[opt=1] number seed an integer
-- @treturn function random() returns a number in (0, 1), random(n) an integer from 1 to n
function M.rng(seed)
  seed = abs(seed or 1)
  local x, y = 1 + seed % 2147483562, 1 + floor(seed / 7) % 2147483398
  local function random(n)
    x, y = 40014 * x % 2147483563, 40692 * y % 2147483399
    local u = (x - y) % 2147483562
    if u == 0 then u = 2147483562 end
    u = u / 2147483563
    if n then return floor(u * n) + 1 end
    return u
  end
  for _ = 1, 10 do random() end -- so that similar seeds give different numbers
  return random
end

-- Put an array into random order, in place.
-- @tparam function random of `rng`
-- @treturn table the same array
function M.shuffle(array, random)
  for i = #array, 2, -1 do
    local j = random(i)
    array[i], array[j] = array[j], array[i]
  end
  return array
end

return M
