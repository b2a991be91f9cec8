-- The command luaperf.
--
-- Each command is a module perf.command.NAME with `usage`, `about`, `text`, `options` (see perf.command.options), `words`,
-- the kind of its arguments ("program", "file", "event", or an array of words; nil if it has none), and `run(opts, words, here)`,
-- which returns the exit status. A Lua script runs under the same interpreter as luaperf, in a separate process that begins with
-- perf.command.session. Other programs are counted and recorded from outside.
local format = require "perf.base.format"
local options = require "perf.command.options"
local report_error = require("perf.command.terminal").error

local M = {}

-- The exit statuses for a mistake in the options, and for a refusal by the machine. They are the same as perf's.
M.USAGE, M.REFUSED = 129, 255

M.commands = { "stat", "record", "report", "annotate", "top", "list", "doctor", "completion", "manual" }
local commands = M.commands

-- The message about a name that luaperf does not have: with what to use instead of perf's, if it is one of those.
local function unknown(message, command, name)
  local instead = (require "perf.command.of_perf"[command] or {})[name]
  return instead and ("%s; %s"):format(message:match "^[^;]*", instead) or message
end

local function overview()
  local lines, rows, width = {}, {}, options.width()
  format.wrap(lines, "usage: ", "luaperf COMMAND [options] [--] script.lua [args]", width)
  lines[#lines + 1] = ""
  for i, name in ipairs(commands) do rows[i] = { name, require("perf.command." .. name).about } end
  format.describe(lines, "  ", rows, width)
  lines[#lines + 1] = ""
  format.wrap(lines, "", "luaperf COMMAND --help describes a command. LUA=lua5.4 luaperf ... runs it under that interpreter.",
    width)
  return table.concat(lines, "\n")
end

local function known(name)
  for _, c in ipairs(commands) do
    if c == name then return require("perf.command." .. name) end
  end
end

-- Run the command.
-- @param arg the command line
-- @return exit status
function M.main(arg)
  local name = arg[1]
  if (name == "help" or name == "--help") and arg[2] then arg, name = { arg[2], "--help" }, arg[2] end
  if name == nil or name == "-h" or name == "--help" or name == "help" then
    (name and io.stdout or io.stderr):write(format.text_for(name and 1 or 2, overview), "\n")
    return name and 0 or M.USAGE
  end
  if name == "--version" or name == "-v" then
    print("luaperf " .. require "perf.version")
    return 0
  end
  local command = known(name)
  if not command then
    local hint = require "perf.base.suggest".hint(name, commands)
    if name:find "%.lua$" then hint = ("; did you mean 'luaperf stat %s'?"):format(name) end
    report_error(unknown(("unknown command '%s'%s"):format(name, hint), "commands", name))
    report_error "luaperf --help lists them"
    return M.USAGE
  end
  local opts, words, option = options.parse(command.options, arg, 2, command.words ~= "program")
  if not opts then
    report_error(unknown(words, name, option))
    report_error(("luaperf %s --help lists the options"):format(name))
    return M.USAGE
  end
  if opts.help then
    print(options.help(command))
    return 0
  end
  -- The modules raise an error for a mistake (an unknown event), which is a mistake of the user here.
  local ok, status, message, code = pcall(command.run, opts, words, { interpreter = arg })
  if ok and status then return status end
  if not ok and tostring(status):find "interrupted!$" then return 128 + 2 end -- the interpreter raises this after ^C
  report_error(ok and message or status)
  local refused = ok and code ~= "USAGE" or status == "not enough memory"
  return refused and M.REFUSED or M.USAGE
end

return M
