-- Tables of perf.bench and perf.compare, with a line of blocks for each distribution.
local format = require "perf.base.format"
local pairs_of = require "perf.base.pairs"
local strips = require "perf.bench.strips"
local unicode = require "perf.base.utf8"

local M = {}

local STRIPS = 80 -- columns: narrower terminals do not show the distributions

local abs, floor = math.abs, math.floor

-- A number with four significant digits: 1.234, 12.34, 123.4, 1234.
local function four(v)
  local size = abs(v)
  return ((size >= 999.95 and "%.0f") or (size >= 99.995 and "%.1f") or (size >= 9.9995 and "%.2f") or "%.3f"):format(v)
end

local TIMES = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" } }

-- A count or a time per call as text: 41.25 ns, 1.234 ms, 64, 12,345, 0.0312.
-- @tparam number v
-- @tparam[opt] string unit "ns" for times
-- @treturn string
function M.quantity(v, unit)
  if v ~= v then return "-" end
  if v == 0 then return unit and "0 " .. unit or "0" end
  if unit == "ns" then
    for _, t in ipairs(TIMES) do
      if abs(v) >= 0.99995 * t[1] then return four(v / t[1]) .. " " .. t[2] end
    end
    return four(v) .. " ns"
  end
  local size = abs(v)
  local text
  if v == floor(v) and size < 2 ^ 53 or size >= 1000 then
    text = format.commas(floor(v + 0.5))
  elseif size >= 1 then
    text = four(v)
  else
    text = ("%.3g"):format(v)
  end
  return unit and text .. " " .. unit or text
end

local quantity = M.quantity

local function title(row) return row.label == "wall" and "wall time" or row.label end

M.title = title

local function interval(lo, hi, show)
  return show(lo) .. " .. " .. show(hi)
end

-- The median distance from the median: as a share of the median, or as a value if the share says nothing.
function M.spread(row, unit)
  if row.mad ~= 0 and row.mad <= abs(row.median) then return ("%.1f %%"):format(100 * row.mad / abs(row.median)) end
  return quantity(row.mad, unit)
end

-- Returns the explanation of values below 0, if a row has any.
-- @tparam {table,...} list statistics
function M.near_zero(list)
  for _, v in ipairs(list) do
    if v.min and v.min < 0 then
      return "below 0: within the precision of measuring it is 0; in that run, the empty loop that is subtracted cost more"
    end
  end
end

-- Fill the row of an event that was never counted with blanks. The reason is printed below the table.
local function blank_row(row, notes)
  notes[#notes + 1] = row.label .. ": not counted: " .. row.why
  return "-"
end

local function share_note(row, notes)
  if row.note then notes[#notes + 1] = row.label .. ": " .. row.note end
  if row.share and row.share < 0.995 then
    notes[#notes + 1] = ("%s: shared its counter, so these are estimates; counted for %.0f %% of the time at least"):format(
      row.label, 100 * row.share)
  end
end

local function finish(lines, rows, right, pictures, notes, steps)
  lines[#lines + 1] = ""
  for i, line in ipairs(lines) do lines[i] = format.folded(line) end
  lines[#lines + 1] = format.align(rows, right, steps)
  local columns = format.columns()
  local picture = (not columns or columns >= STRIPS) and strips.text(pictures, columns)
  if picture then lines[#lines + 1] = "\n" .. picture end
  if #notes > 0 then lines[#lines + 1] = "" end
  for _, note in ipairs(notes) do lines[#lines + 1] = format.folded(note) end
  return table.concat(lines, "\n")
end

-- perf.bench's result as a table.
-- @tparam[opt] boolean utf8 whether blocks can be shown (default: as the environment says)
-- @treturn string
function M.bench(s, utf8)
  local rows, notes, pictures, least = { { "", "median", "95 % interval", "mean", "spread", "min", "max" } }, {}, {}, {}
  if utf8 == nil then utf8 = strips.is_utf8() end
  for i = 0, #s do
    local row = i == 0 and s.wall or s[i]
    if row.why then
      rows[#rows + 1] = { title(row), blank_row(row, notes) }
    else
      local function show(v) return quantity(v, row.unit) end
      rows[#rows + 1] = { title(row), show(row.median), interval(row.ci[1], row.ci[2], show), show(row.mean),
        M.spread(row, row.unit),
        show(row.min), show(row.max) }
      strips.add(pictures, title(row), { row }, show, utf8)
      share_note(row, notes)
      least[#least + 1] = row
    end
  end
  notes[#notes + 1] = M.near_zero(least)
  if s.n < 6 then
    notes[#notes + 1] = ("%d runs are too few for 95 %%: the interval is from the smallest to the largest value"):format(s.n)
  end
  return finish({ M.head_of_bench(s) }, rows, { false, true, true, true, true, true, true }, pictures, notes,
    { { 4, 0 }, { 6, 0 }, { 7, 0 }, { 5, 0 }, { 3, 0 }, { 1, 8 } })
end

-- Returns a line about the runs.
function M.head_of_bench(s)
  return ("%s of %s; per call, less the %s of the loop and of measuring"):format(format.count(s.n, "run"),
    format.count(s.batch, "call"), quantity(s.overhead.wall, "ns"))
end

local MANY, LONG = 4, 100 -- a heading has room for so many candidates, and characters of their names

-- The heading of a comparison's page.
function M.title_of_compare(c)
  local names = unicode.line(table.concat(c.names, ", "))
  if #c.names > MANY or unicode.cut(names, LONG) ~= names then return ("perf.compare: %d candidates"):format(#c.names) end
  return "perf.compare: " .. names
end

-- "30 runs of 100 calls each"; if the numbers of calls differ, each with its name, or for many candidates their range.
local function runs_of(c)
  local same, sizes, fewest, most = true, {}, math.huge, 0
  for i, name in ipairs(c.names) do
    local batch = c.batch[name]
    same, fewest, most = same and batch == c.batch[c.baseline], math.min(fewest, batch), math.max(most, batch)
    sizes[i] = unicode.isolated(unicode.line(name)) .. " " .. format.commas(batch)
  end
  if #sizes > MANY then sizes = { format.commas(fewest) .. " to " .. format.commas(most) } end
  if same then return ("%s of %s each"):format(format.count(c.n, "run"), format.count(c.batch[c.baseline], "call")) end
  return ("%s each (calls in a run: %s)"):format(format.count(c.n, "run"), table.concat(sizes, ", "))
end

-- The ratio of the two medians may differ from the median of the rounds' ratios.
local function ratio_note(row, name, v, first, notes)
  local shown = v.ratio and first.median and v.median / first.median
  if shown and math.abs(shown / v.ratio - 1) >= 0.01 then
    notes[#notes + 1] = ("%s, %s: %.2fx is the median of the rounds' ratios; the ratio of the two medians is %.2fx"):format(
      title(row), name, v.ratio, shown)
  end
end

function M.head_of_compare(c)
  return runs_of(c) .. ", in turns; medians per call, less the cost of the loop and of measuring"
end

-- perf.compare's result as a table. The wall time and the events with real differences are drawn.
-- @tparam[opt] boolean utf8 as for `bench`
-- @treturn string
function M.compare(c, utf8)
  local two, notes, pictures, least = #c.names == 2, {}, {}, {}
  if utf8 == nil then utf8 = strips.is_utf8() end
  local head, right = { "" }, { false }
  for i, name in ipairs(c.names) do
    name = unicode.isolated(unicode.line(name))
    head[#head + 1], right[#right + 1] = name, true
    if i > 1 then
      if two then
        head[#head + 1], right[#right + 1] = "ratio", true
        head[#head + 1], right[#right + 1] = "95 % interval", true
      end
      head[#head + 1], right[#right + 1] = two and "" or "to " .. c.baseline, false
    end
  end
  local rows = { head }
  local function times(v) return ("%.2f"):format(v) end
  for i = 0, #c do
    local row = i == 0 and c.wall or c[i]
    for _, v in pairs_of(row.candidates) do least[#least + 1] = v end
    local cells, drawn, real = { title(row) }, {}, i == 0
    for k, name in ipairs(c.names) do
      local v = row.candidates[name]
      drawn[k], real = { name = unicode.isolated(unicode.line(name)), values = v.values }, real or v.real
      cells[#cells + 1] = v.why and "-" or quantity(v.median, row.unit)
      if k > 1 then
        if two then
          cells[#cells + 1] = v.ratio and times(v.ratio) .. "x" or ""
          cells[#cells + 1] = v.ratio and interval(v.ratio_ci[1], v.ratio_ci[2], times) or ""
        end
        cells[#cells + 1] = v.verdict
        ratio_note(row, name, v, row.candidates[c.baseline], notes)
      end
    end
    local first = row.candidates[c.baseline]
    if first.why then blank_row({ label = row.label, why = first.why }, notes) end
    share_note({ label = row.label, share = row.share, note = row.note }, notes)
    rows[#rows + 1] = cells
    if real then strips.add(pictures, title(row), drawn, function(v) return quantity(v, row.unit) end, utf8) end
  end
  notes[#notes + 1] = M.near_zero(least)
  notes[#notes + 1] = c:rule()
  return finish({ M.head_of_compare(c) }, rows, right, pictures, notes,
    two and { { 5, 0 }, { 6, 10, cut = true }, { 1, 8 }, { 6, 0 } } or nil)
end

return M
