-- The distributions of perf.bench and perf.compare as one HTML file that needs no network: for each event a chart with the
-- density, the values and the median of each candidate, and a table. Here the data are computed; the files in page/ draw them.
local argument = require "perf.base.argument"
local checks = require "perf.api.check"
local distribution = require "perf.bench.distribution"
local file = require "perf.base.file"
local html = require "perf.base.page"
local text = require "perf.bench.report"
local utf8 = require "perf.base.utf8"

local M = {}

local PLACES = 120 -- of a density

local check = { Stats = checks.options "Stats:html", Comparison = checks.options "Comparison:html" }

-- One candidate of a row: its texts, and the data of its drawing.
local function candidate(name, v, unit, q, from, to)
  local function show(x) return text.quantity(x, unit) end
  name = utf8.line(name)
  if not q then return { name = name, why = v.why or "not counted" } end
  local entry = { name = name, values = v.values, median = v.median, lo = v.ci[1], hi = v.ci[2], low = q.low, high = q.high,
    q1 = q.q1, q3 = q.q3, density = distribution.density(q, from, to, PLACES), verdict = v.verdict, real = v.real,
    cells = { show(v.median), show(v.ci[1]) .. " .. " .. show(v.ci[2]), show(v.mean), text.spread(v, unit), show(v.min),
      show(v.max) } }
  if v.difference then
    entry.more = v.difference[1] > 0
    entry.ratio = v.ratio and ("%.3fx (%.3f .. %.3f)"):format(v.ratio, v.ratio_ci[1], v.ratio_ci[2])
      or show(v.difference[1]) .. " more"
  end
  return entry
end

-- A scale with some room at both ends, where a density falls to nothing.
local function roomy(from, to)
  local room = (to - from) * 0.04
  return { from - room, to + room }
end

-- One event: its candidates, and their common scale; `whole` is the scale with all outliers. If all values are equal, `all` is
-- the value as text, and there is nothing to draw.
-- @tparam {string,...} names
-- @tparam {table,...} list their statistics
local function row_of(row, names, list)
  local by_candidate, all, least, most = {}, {}, math.huge, -math.huge
  for i, v in ipairs(list) do
    if v.values and #v.values > 0 then
      local q = distribution.quartiles(v.values)
      by_candidate[i], all[#all + 1] = q, q
      least, most = math.min(least, v.min), math.max(most, v.max)
    end
  end
  local scale = roomy(distribution.scale(all))
  local result = { title = text.title(row), unit = row.unit or "", note = row.note, near_zero = text.near_zero(list),
    candidates = {} }
  if row.share and row.share < 0.995 then
    result.share = ("shared its counter: estimates, counted for %.0f %% of the time at least"):format(100 * row.share)
  end
  if least == most then
    result.all = text.quantity(least, row.unit)
  elseif least < most then
    result.scale, result.whole = scale, roomy(least, most)
  end
  for i, v in ipairs(list) do result.candidates[i] = candidate(names[i], v, row.unit, by_candidate[i], scale[1], scale[2]) end
  return result
end

-- The data of a page.
-- @string what "Stats" or "Comparison"
-- @tparam Stats|Comparison s
-- @treturn table
function M.data(what, s, title)
  local data = { title = title, rows = {}, source = s.source or "" }
  local function each(add)
    for i = 0, #s do
      local row = i == 0 and s.wall or s[i]
      data.rows[i + 1] = add(row)
    end
  end
  if what == "Stats" then
    data.title, data.subtitle = title or "perf.bench", text.head_of_bench(s)
    each(function(row) return row_of(row, { "" }, { row }) end)
  else
    data.title, data.subtitle = title or text.title_of_compare(s), text.head_of_compare(s)
    data.rule, data.baseline = s:rule(), s.baseline
    each(function(row)
      local list = {}
      for k, name in ipairs(s.names) do list[k] = row.candidates[name] end
      return row_of(row, s.names, list)
    end)
  end
  return data
end

-- Write the page.
-- @string what "Stats" or "Comparison"
function M.write(what, s, path, opts)
  opts = check[what](opts, 3)
  return file.deliver(path, "html", function(put)
    local data = M.data(what, s, opts.title and utf8.line(opts.title))
    html.write(put, data.title, "perf/bench/page/", { "script" }, function() put(html.encode(data)) end)
  end)
end

-- Write a file; the ending of its name selects the format.
function M.save(s, path)
  local ending = argument.check_path(path, "save", 2):lower():match "%.(%w+)$"
  if ending == "html" or ending == "htm" then return s:html(path) end
  if ending == "json" then return file.write(path, function(put) put(s:json()) end) end
  argument.raise_in_method("save", path .. ": unknown ending; .html and .json are known", 2)
end

return M
