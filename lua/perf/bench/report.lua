-- Tables of perf.bench and perf.compare.
local format = require "perf.base.format"

local M = {}

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

local function interval(lo, hi, show)
  return show(lo) .. " .. " .. show(hi)
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

local function finish(lines, rows, right, notes)
  lines[#lines + 1] = ""
  lines[#lines + 1] = format.align(rows, right)
  if #notes > 0 then lines[#lines + 1] = "" end
  for _, note in ipairs(notes) do lines[#lines + 1] = note end
  return table.concat(lines, "\n")
end

-- perf.bench's result as a table.
-- @treturn string
function M.bench(s)
  local rows, notes = { { "", "median", "95 % interval", "mean", "spread", "min", "max" } }, {}
  for i = 0, #s do
    local row = i == 0 and s.wall or s[i]
    if row.why then
      rows[#rows + 1] = { title(row), blank_row(row, notes) }
    else
      local function show(v) return quantity(v, row.unit) end
      local spread = show(row.mad)
      if row.mad ~= 0 and row.mad <= abs(row.median) then
        spread = ("%.1f %%"):format(100 * row.mad / abs(row.median))
      end
      rows[#rows + 1] = { title(row), show(row.median), interval(row.ci[1], row.ci[2], show), show(row.mean), spread,
        show(row.min), show(row.max) }
      share_note(row, notes)
    end
  end
  if s.n < 6 then
    notes[#notes + 1] = ("%d runs are too few for 95 %%: the interval is from the smallest to the largest value"):format(s.n)
  end
  local head = ("%s of %s; per call, less the %s of the loop and of measuring"):format(format.count(s.n, "run"),
    format.count(s.batch, "call"), quantity(s.overhead.wall, "ns"))
  return finish({ head }, rows, { false, true, true, true, true, true, true }, notes)
end

-- "30 runs of 100 calls each", or the numbers of calls by name if they differ.
local function runs_of(c)
  local same, sizes = true, {}
  for i, name in ipairs(c.names) do
    same = same and c.batch[name] == c.batch[c.baseline]
    sizes[i] = name .. " " .. format.commas(c.batch[name])
  end
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

-- perf.compare's result as a table.
-- @treturn string
function M.compare(c)
  local two, notes = #c.names == 2, {}
  local head, right = { "" }, { false }
  for i, name in ipairs(c.names) do
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
    local cells = { title(row) }
    for k, name in ipairs(c.names) do
      local v = row.candidates[name]
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
  end
  notes[#notes + 1] = c:rule()
  return finish({ runs_of(c) .. ", in turns; medians per call, less the cost of the loop and of measuring" }, rows, right, notes)
end

return M
