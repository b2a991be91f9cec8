-- luaperf manual: the manual page, from the declarations of the commands and their options.
local format = require "perf.base.format"
local options = require "perf.command.options"

local M = {}

local WIDTH = 78 -- columns of the page's source

M.about = "print the manual page, for man -l -"
M.usage = "luaperf manual | man -l -"
M.options = {}

local DESCRIPTION = [[
luaperf counts, records and profiles Lua scripts, and other programs, by the kernel's perf_event_open. Its options are those of
perf(1). A profile of a script, or of a process that runs Lua, is by Lua line. A file whose name ends in .lua, or whose first line
names an interpreter of Lua, is a script; everything else is a program.]]

local examples = {
  { "luaperf stat -r 10 app.lua", "the means of ten runs" },
  { "luaperf stat -e page-faults,task-clock -x, app.lua", "counts for a spreadsheet" },
  { "luaperf record app.lua && luaperf report", "where a script spends its time" },
  { "luaperf record -e alloc -o memory.html app.lua", "which lines allocate memory, as a flame graph" },
  { "luaperf record -p 1234 --timeout 10 -o server.html", "ten seconds of a server that runs Lua" },
  { "luaperf report --diff before.json after.json", "what a change of the program has changed" },
  { "luaperf list 'syscalls:*read*'", "the events of some system calls" },
}

local statuses = {
  { "0 to 255", "that of the script or program" },
  { "128 + N", "signal N ended the script or program, or the recording of other processes" },
  { "127", "no interpreter has the module" },
  { "129", "a mistake in the options" },
  { "255", "the machine refused something; a message says what, and what to do about it" },
}

local files = {
  { "luaperf.json", "the profile that luaperf record writes by default" },
  { "perf.data", "the recording of a program that is not a script" },
}

-- Text as lines of roff. A line that begins with a dot would be a request.
local function roff(text)
  local lines = {}
  text = options.plain(text):gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("'", "\\(aq")
  format.wrap(lines, "", text, WIDTH)
  for i, line in ipairs(lines) do lines[i] = line:gsub("^%.", "\\&.") end
  return table.concat(lines, "\n")
end

local function add_list(out, rows)
  for _, row in ipairs(rows) do
    out[#out + 1] = (".TP\n\\fB%s\\fR\n%s"):format(roff(row[1]), roff(row[2]))
  end
end

local function add_command(out, name, command)
  out[#out + 1] = (".SS %s\n\\fB%s\\fR\n.P\n%s"):format(roff("luaperf " .. name), roff(command.usage),
    roff(command.text or command.about))
  for _, row in ipairs(options.all(command)) do
    local forms = {}
    for i, form in ipairs(options.forms(row)) do
      forms[i] = ("\\fB%s\\fR%s"):format(roff(form), row.arg and " \\fI" .. roff(row.arg) .. "\\fR" or "")
    end
    out[#out + 1] = (".TP\n%s\n%s"):format(table.concat(forms, ", "), roff(row[3]))
  end
end

-- The page's text.
function M.page()
  local time = tonumber(os.getenv "SOURCE_DATE_EPOCH" or "")
  local out = { ('.TH LUAPERF 1 "%s" "luaperf %s" "User Commands"'):format(os.date("!%Y-%m-%d", time), require "perf.version"),
    ".SH NAME\nluaperf \\- count, record and profile Lua scripts and other programs",
    ".SH SYNOPSIS\n.B luaperf\n\\fICOMMAND\\fR [\\fIoptions\\fR] [\\-\\-] \\fIscript.lua\\fR|\\fIprogram\\fR [\\fIarguments\\fR]",
    ".SH DESCRIPTION\n" .. roff(DESCRIPTION), ".SH COMMANDS" }
  for _, name in ipairs(require "perf.command".commands) do add_command(out, name, require("perf.command." .. name)) end
  local function section(name, rows)
    out[#out + 1] = ".SH " .. name
    add_list(out, rows)
  end
  section("EXIT STATUS", statuses)
  local variables = { { "LUA", "the interpreter that runs luaperf and its scripts, perhaps with options: LUA=\"luajit -joff\"" } }
  for _, row in ipairs(options.variables) do
    variables[#variables + 1] = { options.variable(row), "for a program that loads perf.auto: " .. row[3] }
  end
  section("ENVIRONMENT", variables)
  section("FILES", files)
  out[#out + 1] = ".SH EXAMPLES"
  for _, row in ipairs(examples) do out[#out + 1] = (".TP\n%s\n%s"):format(roff(row[1]), roff(row[2])) end
  out[#out + 1] = ".SH SEE ALSO\n.BR perf (1),\n.BR perf_event_open (2)"
  return table.concat(out, "\n") .. "\n"
end

-- Run the command. @return exit status; or nil, message, code
function M.run(_, words)
  if #words > 0 then return nil, "luaperf manual takes no arguments", "USAGE" end
  local ok, message, code = require "perf.command.terminal".write(M.page())
  return ok and 0, message, code
end

return M
