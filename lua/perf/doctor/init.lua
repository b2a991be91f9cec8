-- Reports the features that work here, those that do not, the reasons, and the remedies.
--
-- The checks are functions that add rows to a report: perf.doctor.access, perf.doctor.events, perf.doctor.limits,
-- perf.doctor.build. A row's `ok` is true, false if something can be improved, nil if there is nothing to judge.
local argument = require "perf.base.argument"
local late = require "perf.base.late"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local core = require "perf.core"
local format = require "perf.base.format"
local host = require "perf.kernel.host"

local M = {}

local LABEL, WIDTH, NARROW = 22, 100, 60 -- columns; below NARROW, the detail is below the label

local check_text = require "perf.api.check".options "DoctorReport:text"

--- The result of `perf.doctor`: an array of `{check=, ok=, detail=, fix=}`; `ok` is true, false if something can be improved, nil
-- if there is nothing to judge; `fix` is a text of commands, one a line, or nil. It prints as a report of at most 100 columns
-- (except for longer commands).
-- @type DoctorReport
local Report = {}
Report.__index = Report

local marks = { [true] = "ok", [false] = "no" }
local colours = { [true] = "\27[32m", [false] = "\27[31m" }

--- The report as text.
-- @tparam[opt] table options
-- @treturn string
function Report:text(opts)
  opts = check_text(opts, 2)
  local width, lines = opts.width or math.min(WIDTH, format.columns() or WIDTH), {}
  local better, capability = 0, false
  for _, row in ipairs(self) do
    local mark = marks[row.ok] or "-"
    local at = #lines + 1
    if width < NARROW then
      lines[at] = ("%3s  %s"):format(mark, row.check)
      format.wrap(lines, "     ", row.detail, width)
    else
      format.wrap(lines, ("%3s  %-" .. LABEL .. "s "):format(mark, row.check), row.detail, width)
    end
    if opts.colour and row.ok ~= nil then
      lines[at] = lines[at]:gsub(mark, colours[row.ok] .. mark .. "\27[0m", 1)
    end
    if row.ok == false then better = better + 1 end
    for command in (row.fix or ""):gmatch "[^\n]+" do
      lines[#lines + 1] = "     -> " .. command -- not wrapped, so that it can be copied
      capability = capability or command:find "^setcap" ~= nil
    end
  end
  if capability then
    lines[#lines + 1] = ""
    format.wrap(lines, "", "setcap: use a copy of the interpreter, since every script that it runs has the capability. A program "
      .. "with a capability cannot be traced, so luaperf stat counts its start too.", width)
  end
  lines[#lines + 1] = ""
  format.wrap(lines, "", better == 0 and "nothing to improve"
    or ("%d of %d could be better: the lines with -> show how; run the commands as root"):format(better, #self), width)
  table.insert(lines, 1, format.folded(self.title))
  table.insert(lines, 2, "")
  return table.concat(lines, "\n")
end

argument.check_methods(Report, "DoctorReport", "text")
Report.__tostring = function(report) return report:text() end

--- Report what works on this machine, what does not, why, and what would change that. Takes some milliseconds and leaves nothing
-- open.
--
--     print(perf.doctor())
--     for _, row in ipairs(perf.doctor()) do if row.ok == false then print(row.check, row.fix) end end
--
-- @treturn DoctorReport
function M.doctor(...)
  argument.check_dot((...))
  if ... ~= nil then argument.raise("no argument expected; the report's text() has options") end
  local report = setmetatable({}, Report)
  local release, machine = core.uname()
  report.title = ("lua-perf %s on Linux %s %s, uid %d%s"):format(require "perf.version", release, machine,
    host.uid() or core.euid(), host.container() and ", in a container" or "")
  local function add(check, ok, detail, fix)
    if type(fix) == "table" then fix = table.concat(fix, "\n") end
    if ok == true or fix == "" then fix = nil end
    report[#report + 1] = printed.table { check = check, ok = ok, detail = detail, fix = fix }
  end
  for _, part in ipairs { "access", "events", "limits", "build" } do
    for _, check in ipairs(late("perf.doctor." .. part)) do check(add) end
  end
  return report
end

strict.class(Report, "DoctorReport")

return M
