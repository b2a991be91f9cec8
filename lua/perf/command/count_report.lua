-- The results of luaperf stat as text: tables, and lines in perf stat's formats for other programs. See perf.command.counting for
-- the results.
local counts = require "perf.counts"
local format = require "perf.base.format"
local json = require "perf.base.json"

local M = {}

local function counts_of(part, wall_ns) return counts.plain(part.entries, wall_ns, "software") end

-- Call visit(part, entry, metrics of the part, index) for each event and each part, in perf's order.
local function each_row(result, visit)
  local metrics = {}
  for i, part in ipairs(result.parts) do metrics[i] = counts_of(part, result.wall_ns):metrics() end
  for k = 1, #result.parts[1].entries do
    for i, part in ipairs(result.parts) do
      if part.entries[k] then visit(part, part.entries[k], metrics[i], k) end
    end
  end
end

-- Lines for programs -------------------------------------------------------------------------------------------------

-- The amount of an entry without its unit, as in perf's lines, and the unit.
local function amount(e, mean)
  if e.value == nil then return e.unsupported and "<not supported>" or "<not counted>", e.unit == "ns" and "msec" or "" end
  if e.unit == "ns" then return ("%.2f"):format(tonumber(e.value) / 1e6), "msec" end
  if e.unit then return ("%.2f"):format(tonumber(e.value)), e.unit end
  return mean and ("%.0f"):format(e.value) or format.digits(e.value), ""
end

-- The metric of an entry. Like perf, without a clock there are no rates.
local function metric(part, e, m)
  local v, unit, digits
  if e.value then v, unit, digits = format.metric(e, m) end
  if v and unit:find "/sec$" then
    digits = 3
    local clock = counts.find(part.entries, "task-clock") or counts.find(part.entries, "cpu-clock")
    if e.unit == "ns" or not (clock and clock.value and clock.value ~= 0) then v = nil end
  end
  return v, unit, digits
end

local function runtime(e)
  local enabled, running = tonumber(e.enabled_ns or 0), tonumber(e.running_ns or 0)
  return running, enabled > 0 and 100 * running / enabled or 100
end

-- Fields with a separator, as perf stat -x.
local function fields(separator, result, several)
  local lines = {}
  each_row(result, function(part, e, m)
    local value, unit = amount(e, several)
    local v, metric_unit, digits = metric(part, e, m)
    local running, percent = runtime(e)
    local line = {}
    if result.at then line[#line + 1] = ("%16.9f"):format(result.at) end
    line[#line + 1] = part.name
    line[#line + 1], line[#line + 2], line[#line + 3] = value, unit, e.label
    if several then line[#line + 1] = ("%.2f%%"):format(e.percent or 0) end
    line[#line + 1], line[#line + 2] = ("%.0f"):format(running), ("%.2f"):format(percent)
    line[#line + 1], line[#line + 2] = v and ("%." .. digits .. "f"):format(v) or "", v and metric_unit or ""
    lines[#lines + 1] = table.concat(line, separator)
  end)
  return lines
end

-- An object of JSON on each line, as perf stat -j.
local function objects(result, several)
  local lines = {}
  each_row(result, function(part, e, m)
    local value, unit = amount(e, several)
    if e.value then value = ("%.6f"):format(tonumber(e.value) / (e.unit == "ns" and 1e6 or 1)) end
    local v, metric_unit = metric(part, e, m)
    local running, percent = runtime(e)
    local line = {}
    local function add(key, pattern, content) line[#line + 1] = ('"%s" : ' .. pattern):format(key, content) end
    if result.at then add("interval", "%.9f", result.at) end
    if part.key then add(part.key, "%s", json.encode(part.id)) end
    add("counter-value", '"%s"', value)
    add("unit", "%s", json.encode(unit))
    add("event", "%s", json.encode(e.label))
    if several then add("variance", "%.2f", e.percent or 0) end
    add("event-runtime", "%.0f", running)
    add("pcnt-running", "%.2f", percent)
    add("metric-value", "%.6f", v or 0)
    add("metric-unit", "%s", json.encode(v and metric_unit or ""))
    lines[#lines + 1] = "{" .. table.concat(line, ", ") .. "}"
  end)
  return lines
end

-- The lines of -x or -j; nil without them.
-- @tab result one, or the means of several runs
-- @tab opts `separator`, `lines`
-- @bool[opt] several means
function M.lines(result, opts, several)
  local lines = opts.lines and objects(result, several) or opts.separator and fields(opts.separator, result, several)
  return lines and table.concat(lines, "\n") .. "\n"
end

-- Tables -------------------------------------------------------------------------------------------------------------

-- The rows of an interval, aligned with the rows of the other intervals.
-- @bool first whether it needs a heading
function M.interval(result, first)
  local named = result.parts[1] and result.parts[1].name
  local lines, columns = {}, format.columns()
  if first and columns and columns < 60 then
    lines[1] = "# time counts unit event\n"
  elseif first then
    lines[1] = ("#%15s %s%18s %-4s event\n"):format("time", named and (" "):rep(17) or "", "counts", "unit")
  end
  each_row(result, function(part, e, m)
    local value, unit, label, note = format.cells(e, m)
    if e.unsupported and not first then note = "" end
    local line = ("%16.9f %s%18s %-4s %-28s %s"):format(result.at, named and ("%-16s "):format(part.name) or "", value, unit,
      label, note)
    if columns and #line > columns then line = line:gsub(" +", " "):gsub("^ ", ""):sub(1, columns) end
    lines[#lines + 1] = line:match "^.*%S" .. "\n"
  end)
  return table.concat(lines)
end

-- The rows of several threads or CPUs.
local function table_of_parts(result)
  local rows, all = {}, {}
  each_row(result, function(part, e, m, i)
    local value, unit, label, note = format.cells(e, m)
    rows[#rows + 1] = { "  " .. part.name, value, unit, label, note }
    all[i] = all[i] or e
  end)
  local text = format.align(rows, { false, true }, { { 5, 16, cut = true }, { 5, 0 }, { 4, 12 }, { 1, 8 } })
  return text .. format.folded(format.remarks(all) .. ("\n\n  %s elapsed"):format(format.ns(result.wall_ns)))
end

-- The table of a result.
-- @string title what was counted
-- @bool verbose also the times
function M.table(result, title, verbose)
  local lines = { "", format.folded(title .. ":"), "", "", "" }
  for _, part in ipairs(result.parts) do
    local c = counts_of(part, result.wall_ns)
    if not part.name then lines[4] = tostring(c) end
    for _, e in ipairs(verbose and part.entries or {}) do
      local name = part.name and part.name .. ": " or ""
      lines[#lines + 1] = e.enabled_ns and ("  %s%s: enabled %s, counted %s"):format(name, e.label, format.ns(e.enabled_ns),
        format.ns(e.running_ns)) or ("  %s%s: %s"):format(name, e.label, e.why or "")
    end
  end
  if result.parts[1].name then lines[4] = table_of_parts(result) end
  if verbose then lines[#lines + 1] = "" end
  return table.concat(lines, "\n")
end

-- The JSON of a result without parts, as counts:json().
function M.json(result) return counts_of(result.parts[1], result.wall_ns):json() end

-- Several runs -------------------------------------------------------------------------------------------------------

-- The mean of numbers, their standard deviation, and the standard error of the mean in percent.
local function mean_of(values)
  local sum, square = 0, 0
  for _, v in ipairs(values) do sum = sum + v end
  local mean = sum / #values
  for _, v in ipairs(values) do square = square + (v - mean) ^ 2 end
  local deviation = #values > 1 and math.sqrt(square / (#values - 1)) or 0
  return { mean = mean, stddev = deviation, percent = mean ~= 0 and 100 * deviation / math.sqrt(#values) / mean or 0 }
end

-- The mean of a field over the entries that have it; nil if none has.
local function mean_field(entries, name)
  local values = {}
  for _, e in ipairs(entries) do
    if e[name] then values[#values + 1] = tonumber(e[name]) end
  end
  return values[1] and mean_of(values), #values
end

-- The means of a part of all results: an array of {label=, unit=, why=, unsupported=, runs= the number of runs with a value,
-- mean=, stddev=, percent=, enabled_ns=, running_ns=}.
local function means_of(results, p)
  local rows = {}
  for i, e in ipairs(results[1].parts[p].entries) do
    local entries = {}
    for _, r in ipairs(results) do entries[#entries + 1] = r.parts[p].entries[i] end
    local row, runs = mean_field(entries, "value")
    row = row or {}
    row.label, row.unit, row.why, row.unsupported, row.runs = e.label, e.unit, e.why, e.unsupported, runs
    for _, name in ipairs { "enabled_ns", "running_ns" } do
      local mean = mean_field(entries, name)
      row[name] = mean and mean.mean
    end
    rows[i] = row
  end
  return rows
end

-- The means of several results: a result whose entries have `percent` too.
function M.means(results)
  local walls = {}
  for i, r in ipairs(results) do walls[i] = tonumber(r.wall_ns) end
  local wall = mean_of(walls)
  local result = { parts = {}, wall_ns = wall.mean, wall = wall }
  for p, part in ipairs(results[1].parts) do
    local rows = means_of(results, p)
    for _, row in ipairs(rows) do row.value = row.mean end
    result.parts[p] = { name = part.name, key = part.key, id = part.id, entries = rows }
  end
  return result
end

local function mean_text(v, unit)
  if unit == "ns" then return format.ns(v) end
  return format.commas(v < 1000 and math.floor(v * 100 + 0.5) / 100 or math.floor(v + 0.5)) .. "   "
end

-- The table of means.
-- @string runs how many runs, as text
function M.table_of_means(means, title, runs)
  local rows, missing = {}, {}
  each_row(means, function(part, e)
    if not e.mean then missing[#missing + 1] = e end
    local row = e.mean and { mean_text(e.mean, e.unit), e.label, ("+- %.2f %%"):format(e.percent) }
      or { ("%s   "):format(e.unsupported and "<not supported>" or "<not counted>"), e.label, format.reason(e) }
    if part.name then table.insert(row, 1, "  " .. part.name) else row[1] = "  " .. row[1] end
    rows[#rows + 1] = row
  end)
  return ("\n%s, mean of %s runs:\n\n%s%s\n\n  %s elapsed  +- %.2f %%\n"):format(title, runs,
    format.align(rows, means.parts[1].name and { false, true } or { true }), format.remarks(missing), format.ns(means.wall.mean),
    means.wall.percent)
end

-- The JSON of several runs: the means, and each run.
function M.json_of_means(means, results)
  local events, runs = {}, {}
  for i, row in ipairs(means.parts[1].entries) do
    events[i] = { label = row.label, unit = row.unit, why = row.why, unsupported = row.unsupported, runs = row.runs,
      mean = row.mean, stddev = row.stddev, percent = row.percent }
  end
  for i, r in ipairs(results) do runs[i] = counts_of(r.parts[1], r.wall_ns):totable() end
  return json.encode { events = events, wall_ns = means.wall, runs = runs }
end

return M
