-- The tables that a printed profile shows: its weight by Lua line and by function.
--
-- A stack's weight belongs to the `self` of its innermost Lua line, even if that line was in a C function, the kernel or the
-- collector. It is added to the `total` of every line in the stack, once for each line. In the table of functions, `self` is the
-- weight of stacks whose innermost frame, of any kind, is the function.
local argument = require "perf.base.argument"
local checks = require "perf.api.check"
local format = require "perf.base.format"
local keys = require "perf.base.keys"
local lua_frame = require "perf.profile.lua_frame"
local memo = require "perf.base.memo"
local pairs_of = require "perf.base.pairs"
local printed = require "perf.base.printed"
local text = require "perf.profile.report.frame_names"
local utf8 = require "perf.base.utf8"

local M = {}

local Top = {}
Top.__index = Top

M.SHOWN = 20 -- rows of a table as text, if no number is given

-- Sums of weights by name.
local function tally()
  local rows, by_name = {}, {}
  return rows, function(name, frame)
    local row = by_name[name]
    if not row then
      row = { name = name, self = 0, total = 0, count = 0, kind = frame and frame.kind, file = frame and frame.file,
        line = frame and frame.line, func = frame and frame.func, seen = 0 }
      by_name[name], rows[#rows + 1] = row, row
    end
    return row
  end
end

-- Sort the rows of a table.
-- @string[opt] by "self" (when not given) or "total"
function M.sort(rows, by)
  local first, second = by or "self", by == "total" and "self" or "total"
  table.sort(rows, function(a, b)
    if a[first] ~= b[first] then return a[first] > b[first] end
    if a[second] ~= b[second] then return a[second] > b[second] end
    return a.name < b.name
  end)
  for _, row in ipairs(rows) do row.seen = nil end
  return rows
end

-- Check the number of rows that a report's method got as an argument.
-- @string method its name
-- @int arg the argument's number
function M.check_rows(n, method, arg)
  local wrong = n ~= nil and n ~= math.huge and checks.wrong({ "n", "integer", least = 1 }, n)
  if wrong then argument.raise_in_method(method, wrong, arg) end
end

-- Keep the first n rows of each table.
-- @tab tables {name = rows}
-- @int[opt] n nil: keep all
-- @return {name = the number of removed rows}
function M.limit(tables, n)
  local more = {}
  for name, rows in pairs_of(tables) do
    more[name] = math.max(0, #rows - (n or #rows))
    for i = #rows, #rows - more[name] + 1, -1 do rows[i] = nil end
  end
  return more
end

-- How many rows of a table the text shows, and the text about the others, or nil.
function M.shown(rows, n, more)
  local shown = math.min(n or M.SHOWN, #rows)
  local left = #rows - shown + more
  return shown, left > 0 and ("... and %d more"):format(left) or nil
end

-- The name of a frame's function.
function M.function_of(f)
  if not lua_frame.is(f) then return f.name end
  local line = f.linedefined or 0
  return table.concat { f.func or "?", " ", f.file or "?", line > 0 and ":" .. line or "" } -- none: a main chunk
end

-- A frame's rows in the tables, looked up only once.
local function rows_of(add_line, add_function)
  return memo(function(f)
    return { fn = add_function(M.function_of(f), f), line = lua_frame.is(f) and add_line(f.name, f) }
  end)
end

local function has_lua(rows)
  for _, row in ipairs(rows) do
    if lua_frame.is(row) then return true end
  end
  return false
end

--- The lines, functions and zones with the largest weight. A stack's weight belongs to its innermost Lua line, as `self`; every
-- other line of the stack has it in its `total`, once. The table of functions uses the innermost frame of any kind.
-- @function Profile:top
-- @tparam[opt] integer n the largest number of rows of each table; without it they have all rows, of which the text shows 20
-- @treturn table `{lines=, functions=, zones=, more=, total=, unit=, event=}`, which prints as tables. `lines`, `functions` and
-- `zones` are arrays, the largest first, of `{name=, self=, total=, count=, kind=, file=, line=, func=}`, where `count` is the
-- number of its own samples; `more` (since 0.2.0) has the numbers of rows that `n` left out: `{lines=, functions=, zones=}`
function M.top(prof, n)
  M.check_rows(n, "top", 2)
  local lines, add_line = tally()
  local functions, add_function = tally()
  local zones, add_zone = tally()
  local known = rows_of(add_line, add_function)
  local number, sum, stamp = text.number, 0, 0
  local function once(row, weight)
    if row.seen ~= stamp then
      row.seen, row.total = stamp, row.total + weight
    end
  end
  for _, sample in ipairs(prof:samples()) do
    local weight, count, stack = number(sample.weight), number(sample.count or 1), sample.stack
    local found
    stamp, sum = stamp + 1, sum + weight
    for i = 1, #stack do
      local k = known[stack[i]]
      once(k.fn, weight)
      if i == 1 then k.fn.self, k.fn.count = k.fn.self + weight, k.fn.count + count end
      if k.line then
        once(k.line, weight)
        found = found or k.line
      end
    end
    if not found then -- the stack has no Lua line
      local frame = stack[1] or { name = "(no stack)", kind = "state" }
      found = add_line(frame.name, frame)
      once(found, weight)
    end
    found.self, found.count = found.self + weight, found.count + count
    if sample.zone then
      local zone = add_zone(sample.zone)
      zone.self, zone.total, zone.count = zone.self + weight, zone.total + weight, zone.count + count
    end
  end
  local top = M.whole(prof, sum)
  top.lines, top.functions, top.zones = M.sort(lines), M.sort(functions), M.sort(zones)
  -- Without Lua lines (a perf.data file of another program) the table of lines would be that of functions again.
  top.by_line, top.n = has_lua(lines) or #functions == 0, n
  top.more = M.limit({ lines = lines, functions = functions, zones = zones }, n)
  for _, rows in ipairs { lines, functions, zones } do printed.rows(rows) end
  return setmetatable(top, Top)
end

-- The fields of a report's table that describe the whole profile.
-- @number sum the weight of all samples
function M.whole(prof, sum)
  local total = text.number(prof.total)
  return { event = prof.event, unit = prof.unit or "", total = total, whole = math.max(total, sum), sampled = sum,
    lost = text.number(prof.lost), samples = text.number(prof.sample_count), freq = prof.freq, period = prof.period,
    requested = prof.requested, method = prof.method, method_reason = prof.method_reason, user_only = prof.user_only,
    failures = prof.failures }
end

-- The first lines of the text: the sum, and remarks on how the stacks were taken.
-- @tab top has the fields of `whole`
function M.title(top)
  local amount = text.amount(top.total, top.unit)
  local how = top.freq and (" at %d Hz"):format(top.freq)
    or (top.period or 1) ~= 1 and (", one for every %s"):format(text.amount(top.period, top.unit))
  local line = ("%s: %s in %s%s"):format(top.event, amount, format.count(top.samples, "sample"), how or "")
  -- Folded stacks do not say what their numbers count, or how many samples they are of.
  if top.event == "samples" and top.unit == "" and top.total == top.samples then line = "total: " .. amount end
  local lines = { top.lost > 0 and ("%s, %s lost"):format(line, format.count(top.lost, "sample")) or line }
  local used = top.freq or top.period
  if top.requested and used then
    lines[2] = (top.freq and "%s Hz were requested; a clock is sampled at %s Hz at most"
      or "a period of %s ns was requested; that of a clock is %s ns at least")
      :format(format.commas(top.requested), format.commas(used))
  end
  if top.method == "safe point" then
    lines[#lines + 1] = "stacks were taken at the interpreter's safe points"
      .. (top.method_reason and ": " .. top.method_reason or "")
  end
  if top.user_only then
    lines[#lines + 1] = "samples were taken in user space only; time in the kernel is in the next sample"
  end
  local reasons, sum = {}, 0
  for i, reason in ipairs(keys(top.failures or {})) do
    sum, reasons[i] = sum + text.number(top.failures[reason]), ("%s: %s"):format(reason, format.commas(top.failures[reason]))
  end
  if sum > 0 then
    lines[#lines + 1] = ("stack missing or cut in %s (%s)"):format(format.count(sum, "sample"), table.concat(reasons, ", "))
  end
  return format.folded(table.concat(lines, "\n"))
end

-- The text of one table.
-- @tab top as M.top returns it; `n`: the rows to show
-- @string heading of the names
-- @string name "lines", "functions" or "zones"
function M.part(top, heading, name)
  local rows, cells = top[name], { { "self", "%", "total", "%", heading } }
  local shown, rest = M.shown(rows, top.n, top.more[name])
  for i = 1, shown do
    local row = rows[i]
    cells[i + 1] = { text.amount(row.self, top.unit), text.percent(row.self, top.whole),
      text.amount(row.total, top.unit), text.percent(row.total, top.whole), utf8.isolated(text.line(row.name)) }
  end
  if rest then cells[#cells + 1] = { "", "", "", "", rest } end
  return format.align(cells, { true, true, true, true }, { { 5, 24 }, { 3, 0 }, { 1, 0 }, { 5, 8 } })
end

function Top.__tostring(top)
  local parts = { M.title(top) }
  if #top.lines == 0 then
    parts[2] = "no samples"
    return table.concat(parts, "\n")
  end
  if top.by_line then parts[2] = M.part(top, "Lua line", "lines") end
  if #top.functions > 0 then parts[#parts + 1] = M.part(top, "function", "functions") end
  if #top.zones > 0 then parts[#parts + 1] = M.part(top, "zone", "zones") end
  return table.concat(parts, "\n\n")
end

return M
