-- The difference of two profiles, as shares of the whole, since their durations may differ. Of profiles of memory, which have
-- bytes, it is the difference of the bytes.
local aligned = require "perf.profile.aligned"
local argument = require "perf.base.argument"
local format = require "perf.base.format"
local late = require "perf.base.late"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local text = require "perf.profile.report.frame_names"
local top = require "perf.profile.report.top"

local M = {}

--- The changes from one profile to another, in shares of the whole, since their durations may differ; of alloc and heap in bytes.
-- It prints as tables.
-- @type Difference
local Difference = {}
Difference.__index = Difference
strict.class(Difference, "Difference")

-- Join the rows of two tables by name, the largest change first.
-- @param measure "" or "_share": which of a row's numbers change
local function join(before, after, whole_before, whole_after, measure)
  local rows, by_name = {}, {}
  local function add(list, whole, key)
    for _, r in ipairs(list) do
      local row = by_name[r.name]
      if not row then
        row = { name = r.name, kind = r.kind, before = 0, after = 0, before_share = 0, after_share = 0 }
        by_name[r.name], rows[#rows + 1] = row, row
      end
      row[key], row[key .. "_share"] = r.self, whole > 0 and r.self / whole or 0
    end
  end
  add(before, whole_before, "before")
  add(after, whole_after, "after")
  for i = #rows, 1, -1 do
    local row = rows[i]
    row.change = row["after" .. measure] - row["before" .. measure]
    if row.before == 0 and row.after == 0 then table.remove(rows, i) end -- it has only callers' weight
  end
  table.sort(rows, function(a, b)
    local x, y = math.abs(a.change), math.abs(b.change)
    if x ~= y then return x > y end
    return a.name < b.name
  end)
  return rows
end

--- Compare a profile with an earlier one of the same event. If the program was edited in between, the earlier profile's lines and
-- functions are those that its code has now; code that is gone has "(removed)" after its name. Functions match by file and name,
-- lines by the source, of which profiles (and files in speedscope's format) have a digest (since 0.2.0).
-- @function Profile:diff
-- @tparam Profile before
-- @tparam[opt] integer n (since 0.2.0) as for `top`
-- @treturn Difference
function M.diff(prof, before, n)
  if type(before) ~= "table" or type(before.samples) ~= "function" then
    argument.raise_in_method("diff", "Profile expected, got " .. type(before), 2)
  end
  local why = text.other_event(prof, before)
  if why then argument.raise_in_method("diff", why, 2) end
  top.check_rows(n, "diff", 3)
  before = aligned(before, prof)
  local a, b, measure = top.top(before), top.top(prof), prof.unit == "bytes" and "" or "_share"
  local lines = join(a.lines, b.lines, a.whole, b.whole, measure)
  local functions = join(a.functions, b.functions, a.whole, b.whole, measure)
  local more = top.limit({ lines = lines, functions = functions }, n)
  return setmetatable({ event = prof.event, unit = prof.unit or "", after = prof, before = before, totals = { a.total, b.total },
    more = more, lines = printed.rows(lines), functions = printed.rows(functions), n = n }, Difference)
end

--- The difference as a flame graph: red has a larger share than before, or more bytes; blue a smaller one, or fewer.
-- @tparam[opt] string path the HTML file; without it the page is returned
-- @treturn string|boolean the page, or true @fails
function Difference:flamegraph(path)
  return late "perf.profile.report.flamegraph".flamegraph(self.after, path, { diff = self.before })
end
argument.check_methods(Difference, "Difference", "flamegraph")

local function part(d, heading, name)
  local rows, cells = d[name], { { "before", "%", "after", "%", "change", heading } }
  local shown, rest = top.shown(rows, d.n, d.more[name])
  for i = 1, shown do
    local row = rows[i]
    cells[i + 1] = { text.amount(row.before, d.unit), ("%.1f"):format(100 * row.before_share), text.amount(row.after, d.unit),
      ("%.1f"):format(100 * row.after_share), text.change(row.change, d.unit), text.line(row.name) }
  end
  if rest then cells[#cells + 1] = { "", "", "", "", "", rest } end
  return format.align(cells, { true, true, true, true, true }, { { 6, 24 }, { 1, 0 }, { 3, 0 }, { 2, 0 }, { 6, 8 } })
end

function Difference.__tostring(d)
  local title = ("%s: before %s, after %s"):format(d.event, text.amount(d.totals[1], d.unit), text.amount(d.totals[2], d.unit))
  title = format.folded(title)
  if #d.lines == 0 then return title .. "\nno samples" end
  return table.concat({ title, part(d, "Lua line", "lines"), part(d, "function", "functions") }, "\n\n")
end

return M
