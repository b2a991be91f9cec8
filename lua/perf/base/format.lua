-- Numbers and tables as text.
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"
local utf8 = require "perf.base.utf8"

local M = {}

local WIDTH, LONG = 100, 60 -- columns of notes; characters of a reason in its row
local LEAST = 20 -- columns: a narrower terminal counts as this wide

-- The descriptor to which the text will be written; false for a file. If it is a terminal, no line is wider.
M.destination = 1

-- The columns for which text is made: those of the terminal, or $COLUMNS if that is less or there is no terminal; nil without
-- either, and for a file.
function M.columns()
  if not M.destination then return nil end
  local _, columns = core.terminal_size(M.destination)
  local wanted = tonumber((os.getenv "COLUMNS" or ""):match "^%d+$") or 0
  if columns == 0 or wanted > 0 and wanted < columns then columns = wanted end
  return columns > 0 and math.max(LEAST, columns) or nil
end

-- Make a text that will be written to another descriptor, by make(...).
-- @param destination as M.destination
-- @return its result
function M.text_for(destination, make, ...)
  local before = M.destination
  M.destination = destination
  local ok, text = pcall(make, ...)
  M.destination = before
  if not ok then error(text, 0) end
  return text
end

-- Shorten a text to n columns in its middle.
local function without_middle(text, n)
  if #text <= n or utf8.columns(text) <= n then return text end
  if n < 8 then return utf8.first(text, math.max(n, 0)) end
  local left = math.floor((n - 3) / 2)
  return utf8.first(text, left) .. "..." .. utf8.last(text, n - 3 - left)
end

-- Shorten a name to n columns: a path loses its first directories, another text its middle, but not the number of a line.
function M.shorten(text, n)
  if #text <= n or utf8.columns(text) <= n then return text end
  if n < 8 then return utf8.first(text, n) end
  local slash = text:match ".*()/"
  if slash then
    local before = text:sub(1, slash):match ".*()%s" or 0
    local head, directories, tail = text:sub(1, before), text:sub(before + 1, slash), text:sub(slash + 1)
    local room = n - utf8.columns(head) - utf8.columns(tail) - 3
    if room > 0 then return head .. "..." .. utf8.last(directories, room) .. tail end
    return M.shorten(head .. tail, n)
  end
  local file, line, rest = text:match "^(.-%.%w+)(:%d+)(.*)$"
  local room = n - #(line or "")
  if not line or room < 4 then return without_middle(text, n) end
  local most = math.max(room - utf8.columns(rest), math.floor(room / 2), room - 11)
  file = without_middle(file, most)
  return file .. line .. without_middle(rest, room - utf8.columns(file))
end

-- All digits of a 64-bit value: a number, a 64-bit cdata or a "0x" string.
function M.digits(v)
  if type(v) ~= "number" then return (tostring(v):gsub("U?LL$", "")) end
  return (math.type and math.type(v) == "integer" and "%d" or "%.0f"):format(v)
end

-- 1234567 -> "1,234,567"; fractions keep two digits.
function M.commas(v)
  local s = (type(v) ~= "number" or v == math.floor(v)) and M.digits(v) or ("%.2f"):format(v)
  local sign, int, frac = s:match "^(-?)(%d+)(.*)$"
  if not int then return s end
  int = int:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
  return sign .. int .. frac
end

-- "1 sample", "1,234 samples".
function M.count(n, what) return M.commas(n) .. " " .. what .. (n == 1 and "" or "s") end

local function scaled(v, format, units, rest)
  if v < 0 then return "-" .. scaled(0.0 - v, format, units, rest) end
  for i, unit in ipairs(units) do
    local size = 10 ^ (12 - 3 * i)
    if v >= size then return (format .. " %s"):format(v / size, unit) end
  end
  return rest:format(v)
end

-- A rate with its prefix: 1234567 -> "1.23 M".
function M.si(v) return scaled(v, "%.2f", { "G", "M", "K" }, "%.2f ") end

-- Nanoseconds in the unit that reads best: 1234567 -> "1.235 ms".
function M.ns(v) return scaled(v, "%.3f", { "s", "ms", "us" }, "%.0f ns") end

-- Wrap text: append lines of at most `width`, the first one after `first`, the others indented as far.
function M.wrap(lines, first, text, width)
  local indent = (" "):rep(#first)
  local line, empty = first, true
  for word in text:gmatch "%S+" do
    if not empty and #line + 1 + #word > width then
      lines[#lines + 1] = line
      line, empty = indent, true
    end
    line = line .. (empty and "" or " ") .. word
    empty = false
  end
  lines[#lines + 1] = line
end

-- Append rows {name, text}: each text beside its name, or below it if there are few columns.
function M.describe(lines, indent, rows, columns)
  local width = 0
  for _, row in ipairs(rows) do width = math.max(width, #row[1]) end
  for _, row in ipairs(rows) do
    if columns < width + 30 then
      lines[#lines + 1] = indent .. row[1]
      M.wrap(lines, indent .. "  ", row[2], columns)
    else
      M.wrap(lines, indent .. row[1] .. (" "):rep(width - #row[1] + 2), row[2], columns)
    end
  end
end

-- Append the paragraphs of a text, wrapped. Lines that begin with a space, which are commands to copy, stay as they are.
function M.paragraphs(lines, text, columns)
  local words = ""
  for line in (text .. "\n\n"):gmatch "([^\n]*)\n" do
    if line:find "^%S" then
      words = words .. line .. " "
    else
      if words ~= "" then M.wrap(lines, "", words, columns) end
      words = ""
      lines[#lines + 1] = line
    end
  end
  lines[#lines] = nil
end

-- Remove a column. If the next column's heading is only "%", it becomes "HEADING %", so that it still says of which value.
local function remove(rows, column)
  local head, beside = rows[1][column], rows[1][column + 1]
  if beside == "%" and head ~= "" then rows[1][column + 1] = head .. " %" end
  for _, row in ipairs(rows) do
    if row[column] then row[column] = "" end
  end
end

-- The columns of a cell. Without a terminal it is not known how many a character takes, so its bytes are counted.
local function width_of(cell, columns) return columns and utf8.columns(cell) or #cell end

local function widths_of(rows, columns)
  local width, sum = {}, -2
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do width[i] = math.max(width[i] or 0, width_of(cell, columns)) end
  end
  for _, w in ipairs(width) do sum = sum + (w > 0 and w + 2 or 0) end
  return width, sum
end

-- The widest column that is not aligned to the right.
local function widest(width, right)
  local found
  for i, w in ipairs(width) do
    if not right[i] and w > (found and width[found] or 0) then found = i end
  end
  return found
end

local function shortened(cell, n, cut)
  if utf8.columns(cell) <= n then return cell end
  return cut and utf8.first(cell, n - 3) .. "..." or M.shorten(cell, n)
end

-- The widths to which the first n steps shorten columns, and whether the table is narrow enough then.
local function settle(rows, steps, n, columns)
  local width, sum = widths_of(rows, columns)
  local limits = {}
  for k = 1, n do
    local column, least = steps[k][1], steps[k][2]
    local over, w = sum - columns, width[column] or 0
    if least > 0 and over > 0 and w > least then
      limits[column] = math.max(least, w - over)
      sum, width[column] = sum - w + limits[column], limits[column]
    end
  end
  return limits, sum <= columns
end

-- Make a table no wider than the terminal.
-- @param steps as for `align`
-- @return rows of its own, and the columns' widths
local function narrowed(rows, right, steps, columns)
  local copies, limits, cut = {}, {}, {}
  for n, row in ipairs(rows) do
    copies[n] = {}
    for i, cell in ipairs(row) do copies[n][i] = cell end
  end
  steps = steps or { { widest((widths_of(rows, columns)), right), 8 } }
  for n, step in ipairs(steps) do
    if step[2] == 0 then remove(copies, step[1]) end
    cut[step[1]] = step.cut
    local fits
    limits, fits = settle(copies, steps, n, columns)
    if fits then break end
  end
  for column, n in pairs_of(limits) do
    for _, row in ipairs(copies) do
      if row[column] then row[column] = shortened(row[column], n, cut[column]) end
    end
  end
  return copies, (widths_of(copies, columns))
end

-- Rows of cells as aligned text.
-- @param rows array of arrays of strings
-- @param right set of columns to align right: {[1]=true}
-- @param steps what is done to a table that is wider than the terminal, in this order, until it fits: {column, the least width to
-- which its cells are shortened, or 0 to leave it out; cut=true: cells lose their end}. By default the widest is shortened.
function M.align(rows, right, steps)
  local lines, columns = {}, M.columns()
  local width, sum = widths_of(rows, columns)
  right = right or {}
  local narrow = columns and sum > columns
  if narrow then rows, width = narrowed(rows, right, steps, columns) end
  for n, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      local pad = (" "):rep(width[i] - width_of(cell, columns))
      if width[i] > 0 or not narrow then cells[#cells + 1] = right[i] and pad .. cell or cell .. pad end
    end
    lines[n] = table.concat(cells, "  "):match "^.*%S" or ""
  end
  return table.concat(lines, "\n")
end

-- Wrap the lines of a text that are wider than the terminal.
function M.folded(text)
  local columns = M.columns()
  if not columns then return text end
  local lines = {}
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    if #line <= columns then
      lines[#lines + 1] = line
    else
      local indent = line:match "^ *"
      M.wrap(lines, #indent < columns / 2 and indent or "", line, columns)
    end
  end
  return table.concat(lines, "\n")
end

-- The value of an entry of Counts: "64", "1.235 ms", "4.20 Joules".
function M.value(e)
  return e.unit == "ns" and M.ns(e.value) or M.commas(e.value) .. (e.unit and " " .. e.unit or "")
end

local function share(e)
  return ("(counted %.1f%% of the time)"):format(100 * e.running_ns / e.enabled_ns)
end

local function is_shared(e) return e.value and e.enabled_ns and e.running_ns and e.running_ns < e.enabled_ns end

-- An entry of Counts, in a line.
function M.entry(e)
  if not e.value then return ("%s: not counted: %s"):format(e.label, e.why or "one side has no count") end
  local note = e.why and (" (%s)"):format(e.why) or ""
  return ("%s: %s%s%s"):format(e.label, M.value(e), is_shared(e) and " " .. share(e) or "", note)
end

-- The result of Counts' metrics() as a table.
function M.metrics(m)
  local rows = {}
  for name, v in pairs_of(m) do
    if name ~= "per_second" then rows[#rows + 1] = { name, ("%.4g"):format(v) } end
  end
  for label, v in pairs_of(m.per_second) do rows[#rows + 1] = { "per_second " .. label, M.si(v) } end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return M.align(rows)
end

local sizes = { G = 1e9, M = 1e6, K = 1e3 }

-- The metric that perf stat shows beside an event.
-- @param e an entry of Counts
-- @param m the metrics of these Counts
-- @return the number, its unit and the digits after its point; nil if the event has none
function M.metric(e, m)
  local base = e.label:gsub(":%a+$", "")
  if base == "instructions" and m.ipc then return m.ipc, "insn per cycle", 2 end
  if base == "branch-misses" and m.branch_miss_rate then return 100 * m.branch_miss_rate, "of all branches", 2 end
  if base == "cache-misses" and m.cache_miss_rate then return 100 * m.cache_miss_rate, "of all cache refs", 2 end
  if (base == "cycles" or base == "cpu-cycles") and m.ghz then return m.ghz, "GHz", 3 end
  if base == "task-clock" and m.cpus_utilized then return m.cpus_utilized, "CPUs utilized", 3 end
  local rate = m.per_second[e.label]
  if not rate then return nil end
  local prefix = M.si(rate):match "%a?$"
  return rate / (sizes[prefix] or 1), prefix .. "/sec", 2
end

-- The comment beside one event, as in perf stat.
local function remark(e, m)
  local v, unit, digits = M.metric(e, m)
  if not v or v == 0 and unit:find "/sec" then return "" end
  return ("%." .. digits .. "f%s %s"):format(v, unit:find "^of " and "%" or "", unit)
end

-- The reason why an entry has no value, for its row: of a long one only the beginning, since `remarks` has all of it.
function M.reason(e)
  local why, columns = e.why or "", M.columns()
  local room = columns and math.min(LONG, columns - 40) or LONG
  return #why > room and why:match "^(..-)%s*[;(]" or why
end

-- The notes of all entries, and the long reasons; a note that applies to several entries is printed once.
function M.remarks(entries)
  local order, labels = {}, {}
  for _, e in ipairs(entries) do
    if e.why and (e.value ~= nil or M.reason(e) ~= e.why) then
      if not labels[e.why] then
        order[#order + 1], labels[e.why] = e.why, { width = e.value == nil and WIDTH or math.huge }
      end
      table.insert(labels[e.why], e.label)
    end
  end
  local lines = { order[1] and "\n" }
  for _, why in ipairs(order) do
    M.wrap(lines, "  ", table.concat(labels[why], ", ") .. ": " .. why, labels[why].width)
  end
  return table.concat(lines, "\n")
end

-- The cells of an entry's row in a table like perf stat's: the number, its unit, the label, and a comment.
function M.cells(e, metrics)
  local unit, value, note = e.unit or ""
  if e.value == nil then
    value, note = e.unsupported and "<not supported>" or "<not counted>", M.reason(e)
  elseif e.unit == "ns" then
    value, unit = M.ns(e.value):match "^(%S+) (%S+)$"
    note = remark(e, metrics)
  else
    value, note = M.commas(e.value), remark(e, metrics)
  end
  if is_shared(e) then note = note .. (note == "" and "" or "  ") .. share(e) end
  return value, unit, e.label, note ~= "" and "# " .. note or ""
end

-- A table like perf stat's.
function M.counts(entries, wall_ns, source, metrics)
  local rows = {}
  for i, e in ipairs(entries) do
    local value, unit, label, note = M.cells(e, metrics)
    rows[i] = { "  " .. value, unit, label, note }
  end
  local text = M.align(rows, { true }, { { 4, 16, cut = true }, { 4, 0 }, { 3, 12 } })
  local from = source == "rusage" and "   (from the kernel's accounting: perf_event_open is refused here)" or ""
  return text .. M.folded(M.remarks(entries) .. ("\n\n  %s elapsed%s"):format(M.ns(wall_ns), from))
end

return M
