-- Runs programs for luaperf: Lua scripts under this interpreter, with a session inside, and other programs.
local attempt = require "perf.base.attempt"
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"
local host = require "perf.kernel.host"
local terminal = require "perf.command.terminal"

local M = {}

local refuse, catch = attempt.refuse, attempt.catch

local MISTAKE = 129 -- the exit status for mistakes in the options, see perf.command
local SIGINT, SIGTERM, GRACE = 2, 15, 60 -- looks

local function head(path)
  local f = io.open(path, "rb")
  if not f then return nil end
  local line, why = f:read(256) -- nil for an empty file; nil and a reason for a directory
  f:close()
  return not why and (line or ""):match "^[^\n]*" or nil
end

-- Whether a word names a Lua script: a file that ends in .lua, or one that names an interpreter of Lua in its first line.
function M.is_script(word)
  local first = head(word)
  if not first then return false end
  return word:find "%.lua$" ~= nil or first:find "^#!.*lua" ~= nil
end

-- The command line of the interpreter that runs this.
local function interpreter(arg)
  local chosen = os.getenv "LUA"
  local words = {}
  for word in (chosen or ""):gmatch "%S+" do words[#words + 1] = word end
  if #words > 0 then return words end
  local i = 0
  while arg[i - 1] do i = i - 1 end
  return { arg[i] or "lua" }
end

-- Warn if a script's first line names another interpreter, since the script may behave differently under this one.
local function warn_of_interpreter(path, chosen)
  local wanted = (head(path) or ""):match "^#!%s*(.*)"
  wanted = wanted and wanted:gsub("^%S*/env%s+", ""):match "^(%S+)"
  wanted = wanted and wanted:match "[^/]*$"
  local runs = chosen:match "[^/]*$"
  if wanted and wanted ~= "lua" and wanted ~= runs then
    terminal.error(("%s: its first line names %s, but it runs under %s; set LUA=%s to change that"):format(path, wanted, runs,
      wanted))
  end
end

-- The command line that runs a program, or a script without a session; nil if there is none.
function M.program(here, words)
  if #words == 0 then return nil end
  local argv = {}
  if M.is_script(words[1]) then
    argv = interpreter(here.interpreter)
    warn_of_interpreter(words[1], argv[1])
  end
  for _, word in ipairs(words) do argv[#argv + 1] = word end
  return argv
end

-- The message for a program that cannot be run; a clearer one if a file of that name exists but is not executable.
function M.why(word, message, code)
  local refusal
  message, refusal = message:gsub("exec: ", "", 1)
  if refusal == 0 then return message end
  if code == "EACCES" and host.readable(word .. "/.") then return word .. ": Is a directory" end
  if code == "EACCES" and head(word) then
    return message .. " (it is not executable: chmod +x makes it so; the name of a Lua script ends in .lua)"
  end
  if code ~= "ENOENT" or word:find "/" then return message end
  if word:find "%.lua$" and select(3, host.read_file(word)) == "EACCES" then return word .. ": Permission denied" end
  if host.readable(word .. "/.") then
    return word .. (word:find "%.lua$" and ": Is a directory" or ": no program in PATH has this name, and here it is a directory")
  end
  if not head(word) and word:find "^%d+$" and host.is_running(tonumber(word)) then
    return ("%s: no program in PATH; -p %s is the process with this number"):format(word, word)
  end
  if not head(word) then return message end
  return word .. ": no program in PATH; and the file of that name here is not a Lua script: its name does not end in .lua, "
    .. "nor does its first line name an interpreter of Lua"
end

-- Whether there is a file for the program, here or in PATH; a script can also be read. Commands ask before they open an output
-- file.
-- @string[opt] word the program's name
-- @return true; or nil, message, code
function M.exists(word)
  if not word or M.is_script(word) then return true end
  if word == "" then return nil, "the name of the script or program is empty", "ENOENT" end
  if word:find "%.lua$" and select(3, host.read_file(word)) == "EACCES" then
    return nil, word .. ": Permission denied", "EACCES"
  end
  local dirs = word:find "/" and "" or os.getenv "PATH" or "/bin:/usr/bin"
  for dir in (dirs .. ":"):gmatch "([^:]*):" do
    local code = select(3, host.line(dir == "" and word or dir .. "/" .. word))
    if code ~= "ENOENT" and code ~= "ENOTDIR" then return true end
  end
  return nil, M.why(word, word .. ": exec: No such file or directory", "ENOENT"), "ENOENT"
end

local function literal(v)
  if type(v) == "string" then return (("%q"):format(v):gsub("\n", "n")) end
  return tostring(v)
end

-- The command line that runs a script with a session inside.
-- @tab here {interpreter = the command line of luaperf}
-- @tab words the script and its arguments
-- @tab session options of perf.command.session
function M.script(here, words, session)
  session.terminated, session.mistake, session.hidden = true, MISTAKE, true
  -- The script's interpreter must find the module where this program found it.
  local code = { ("package.path, package.cpath = %s, %s "):format(literal(package.path), literal(package.cpath)) }
  local fields = {}
  for key, value in pairs_of(session) do fields[#fields + 1] = key .. "=" .. literal(value) end
  table.sort(fields)
  code[#code + 1] = ("require('perf.command.session').start{%s}"):format(table.concat(fields, ","))
  local argv = interpreter(here.interpreter)
  warn_of_interpreter(words[1], argv[1])
  argv[#argv + 1], argv[#argv + 2] = "-e", table.concat(code)
  for _, word in ipairs(words) do argv[#argv + 1] = word end
  argv.session = true
  return argv
end

-- Wait for a running program, at most `wait` seconds, and pass on the signals that it may not have got. A script with a session
-- gets SIGTERM instead of SIGINT: timeout(1) interrupts the whole process group, so the script has had that SIGINT, and a second
-- one would end it at once, without a result. After a SIGTERM, a program that has not ended gets it again; a script with a
-- session gets SIGHUP and SIGQUIT again too, which may have another meaning for other programs. The second signal ends such a
-- script without a result (perf.command.session). At state.deadline a program gets SIGTERM.
local function look(process, state, wait)
  core.watch({ process:ending() }, wait) -- returns as soon as the program ends, so that times are right
  local status = process:wait()
  if status then return status end
  local signal, sent, times = core.caught_interrupt()
  if not signal and state.deadline and core.wall_ns() >= state.deadline then signal, times = SIGTERM, 0 end
  if signal == SIGTERM or sent then
    if times ~= state.times then state.times, state.looks = times, 0 end
    local ends = signal == SIGTERM or state.script and signal ~= SIGINT
    if state.looks == 0 or ends and state.looks % GRACE == 0 then
      process:kill(state.script and signal == SIGINT and SIGTERM or signal)
    end
    state.looks = state.looks + 1
  end
  return false
end

-- Call a function that runs programs. An interrupt from the terminal ends only the program; luaperf continues and reports, also
-- if the interrupt comes between two programs.
-- @func f calls M.run or M.wait, and returns their results
-- @return its results; or nil, message, code
function M.catching(f, ...)
  local caught, message, code = core.catch_interrupts()
  if not caught then return nil, message, code end
  local function release(ok, ...)
    core.release_interrupts()
    if not ok then error((...), 0) end
    return ...
  end
  return release(pcall(f, ...))
end

-- Calls a function at regular times while a program runs, once `start` was called.
local Beat = {}
Beat.__index = Beat

-- @number interval seconds
-- @func call called at the end of each interval
function M.beat(interval, call) return setmetatable({ interval = interval * 1e9, call = call, next = math.huge }, Beat) end

function Beat:start(now) self.next = now + self.interval end

-- Call the function if an interval has ended. One call is for all intervals that have ended.
-- @return the seconds until the next one ends
function Beat:left()
  local now = core.wall_ns()
  if now >= self.next then
    self.call()
    self.next = self.next + self.interval * math.ceil((now - self.next + 1) / self.interval)
  end
  return math.max(0, self.next - core.wall_ns()) / 1e9
end

local function to_its_end(process, argv, hooks)
  if hooks.opened then hooks.opened(process) end
  local ok, message, code = process:start()
  if not ok then refuse(M.why(argv[1], ("%s: %s"):format(argv[1], message), code), code) end
  if hooks.started then hooks.started(process) end
  local timeout, beat = hooks.timeout, hooks.beat
  local state, wait = { script = argv.session, deadline = timeout and core.wall_ns() + timeout * 1e9 }, 0.0005
  while true do
    local status = look(process, state, beat and math.min(wait, beat:left()) or wait)
    if status then return status end
    wait = math.min(0.05, wait * 1.5)
  end
end

-- Run a program to its end, in a function that M.catching calls.
-- @tab argv its command line
-- @tab[opt] hooks `opened`: called with the process before it runs; a refusal that it raises ends the program; `started`: called
-- with the process when it runs, likewise; `timeout`: seconds after which it gets SIGTERM; `beat`: see M.beat
-- @return {exit = status} or {signal = number}; or nil, message, code
function M.run(argv, hooks)
  local process, message, code = core.spawn(argv)
  if not process then return nil, message, code end
  local status, why, errno = catch(to_its_end, process, argv, hooks or {})
  process:close()
  return status, why, errno
end

-- Wait for some seconds, for an interrupt, or until `ended` returns true, in a function that M.catching calls.
-- @param[opt] beat see M.beat
-- @func[opt] fd returns a descriptor, or nil: `ended` is called at once when there is something to read
-- @return the signal that came, or nil
function M.wait(seconds, ended, beat, fd)
  local deadline = seconds and core.wall_ns() + seconds * 1e9
  while not core.caught_interrupt() and not (deadline and core.wall_ns() >= deadline) and not (ended and ended()) do
    local left = deadline and math.max(0, (deadline - core.wall_ns()) / 1e9) or math.huge
    core.watch({ fd and fd() }, math.min(0.1, left, beat and beat:left() or math.huge))
  end
  return (core.caught_interrupt())
end

-- The exit status for a program's end, by the rules of shells.
function M.status(ended)
  return ended.exit or 128 + ended.signal
end

-- Go on as luaperf under the interpreter of the processes, if that is another one and is installed, unless the user has chosen
-- one. It replaces this process: a child would stay if this process were killed, and ^Z would stop the two one after the other.
-- @string[opt] known the interpreter, if the caller has found it
-- @return true if this interpreter goes on; or nil, message, code
function M.by_interpreter_of(pids, here, known)
  local seen = require "perf.outside.seen"
  local name = not os.getenv "LUA" and (known or seen.first_interpreter(pids))
  if not name or name == seen.own() or not M.exists(name) then return true end
  local argv = { "env", "-u", "LUA_CPATH", "LUA=" .. name, here.interpreter[0] } -- its modules are for another interpreter
  for _, word in ipairs(here.interpreter) do argv[#argv + 1] = word end
  return core.exec(argv)
end

return M
