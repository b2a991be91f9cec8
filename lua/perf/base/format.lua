-- Numbers and tables as text.
local pairs_of = require "perf.base.pairs"

local M = {}

local WIDTH, LONG = 100, 60 -- columns of notes; characters of a reason in its row

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

-- Rows of cells as aligned text.
-- @param rows array of arrays of strings
-- @param right set of columns to align right: {[1]=true}
function M.align(rows, right)
  local width, lines = {}, {}
  right = right or {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do width[i] = math.max(width[i] or 0, #cell) end
  end
  for n, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      local pad = (" "):rep(width[i] - #cell)
      cells[i] = right[i] and pad .. cell or cell .. pad
    end
    lines[n] = table.concat(cells, "  "):match "^.*%S" or ""
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
  local why = e.why or ""
  return #why > LONG and why:match "^(..-)%s*[;(]" or why
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
  local text = M.align(rows, { true })
  local from = source == "rusage" and "   (from the kernel's accounting: perf_event_open is refused here)" or ""
  return text .. M.remarks(entries) .. ("\n\n  %s elapsed%s"):format(M.ns(wall_ns), from)
end

return M
