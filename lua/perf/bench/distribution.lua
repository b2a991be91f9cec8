-- How the values of runs are distributed, for the pictures of perf.bench and perf.compare: pure functions of arrays of numbers,
-- which they do not change.
local M = {}

local floor, exp, min, max = math.floor, math.exp, math.min, math.max

-- As in John Tukey's boxplot, outliers lie outside the quartiles by more than 1.5 times the distance of the quartiles. Values
-- that lie outside by more than 3 times would squeeze all others together, so the scale of a picture may exclude them.
local OUTLIER, FAR = 1.5, 3

-- A quantile of sorted values, between neighbours in proportion.
local function quantile(t, share)
  local place = 1 + (#t - 1) * share
  local i = floor(place)
  return i < #t and t[i] + (place - i) * (t[i + 1] - t[i]) or t[i]
end

-- The quartiles of a sample, and its limits.
-- @tparam {number,...} values at least one
-- @treturn table `q1`, `q3`; `low`, `high`: values beyond are outliers; `from`, `to`: the smallest and the largest value that is
-- not far outside; `sorted`. If half of the values or more are equal, no value is an outlier
function M.quartiles(values)
  local t = {}
  for i = 1, #values do t[i] = values[i] end
  table.sort(t)
  local n, q1, q3 = #t, quantile(t, 0.25), quantile(t, 0.75)
  local between, from, to = q3 - q1, 1, n
  local function limits(times)
    if between == 0 then return t[1], t[n] end
    return q1 - times * between, q3 + times * between
  end
  local low, high = limits(OUTLIER)
  local far_low, far_high = limits(FAR)
  while t[from] < far_low do from = from + 1 end
  while t[to] > far_high do to = to - 1 end
  return { q1 = q1, q3 = q3, low = low, high = high, from = t[from], to = t[to], sorted = t }
end

-- The common scale of several samples. It excludes values that are far outside their own sample.
-- @tparam {table,...} list of `quartiles`
-- @treturn number from
-- @treturn number to
function M.scale(list)
  local from, to = math.huge, -math.huge
  for _, q in ipairs(list) do from, to = min(from, q.from), max(to, q.to) end
  return from, to
end

-- The number of values in each of n equal parts of a scale; the last part includes the end of the scale.
-- @treturn {integer,...}
-- @treturn integer the number of values before the scale
-- @treturn integer the number after it
function M.cells(values, from, to, n)
  local cells, before, after = {}, 0, 0
  for i = 1, n do cells[i] = 0 end
  for _, v in ipairs(values) do
    if v < from then
      before = before + 1
    elseif v > to then
      after = after + 1
    else
      local i = to > from and min(n, 1 + floor((v - from) / (to - from) * n)) or 1
      cells[i] = cells[i] + 1
    end
  end
  return cells, before, after
end

-- The density of a sample at n places of a scale, from its first to its last point, in parts of the highest: a sum of normal
-- curves, as wide as Silverman's rule says, but never narrower than the distance of two places.
-- @tparam table q of `quartiles`
-- @treturn {number,...} nil if all values are equal
function M.density(q, from, to, n)
  local t = q.sorted
  local count = #t
  if t[1] == t[count] or to <= from then return nil end
  local sum, squares = 0, 0
  for i = 1, count do sum = sum + t[i] end
  local mean = sum / count
  for i = 1, count do squares = squares + (t[i] - mean) ^ 2 end
  local spread, between = math.sqrt(squares / (count - 1)), (q.q3 - q.q1) / 1.34
  if between > 0 then spread = min(spread, between) end
  local step = (to - from) / (n - 1)
  local width, places, most = max(0.9 * spread * count ^ -0.2, step), {}, 0
  for i = 1, n do
    local x, height = from + (i - 1) * step, 0
    for k = 1, count do
      local z = (x - t[k]) / width
      height = height + exp(-z * z / 2)
    end
    places[i], most = height, max(most, height)
  end
  for i = 1, n do places[i] = floor(places[i] / most * 1000 + 0.5) / 1000 end
  return places
end

return M
