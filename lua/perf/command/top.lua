-- luaperf top: the lines and functions of a process that runs Lua, live.
local copy = require "perf.base.copy"
local core = require "perf.core"
local host = require "perf.kernel.host"
local options = require "perf.command.options"
local run = require "perf.command.run"
local terminal = require "perf.command.terminal"

local M = {}

M.about = "show the lines and functions of a process that runs Lua, live"
M.usage = "luaperf top -p PID [options]"
M.text = [[
Profiles processes that run Lua by Lua line, with their threads and children, and shows the result of each interval, until ^C or
until all of them have ended.]]

M.options = {
  options.pid,
  { "events", "string", "the event to sample by: task-clock, page-faults, context-switches, a tracepoint ...", short = "e",
    long = "event", arg = "EVENT" },
  options.freq, copy(options.period, { [3] = options.period[3]:gsub("; for alloc and heap.*", "") }),
  { "delay", "number", "the length of an interval (2)", short = "d", arg = "SECONDS", above = 0 },
  { "n", "integer", "the rows of each table (15)", short = "n", long = "rows", arg = "N", least = 1 },
  { "times", "integer", "end after so many intervals", arg = "N", least = 1 },
}
M.mixed = true

local CLEAR = "\27[H\27[2J"
local MOST = 64 * 2 ^ 20 -- bytes of stacks

-- Show one interval.
-- @return true to go on; a signal, or 0, that ends it; or nil, message, code
local function interval(p, opts, is_last)
  local function ended() return not host.any_runs(opts.pid) end
  local signal = run.wait(opts.delay or 2, ended)
  local over = signal or ended() or is_last
  local prof, message, code
  if over then prof, message, code = p:stop() else prof, message, code = p:snapshot() end
  if not prof then return nil, message, code end
  local clear = core.is_terminal(1) and CLEAR or ""
  local ok
  ok, message, code = terminal.write(("%s%s\n"):format(clear, tostring(prof:top(opts.n or 15))))
  if not ok then return nil, message, code end
  if over then return signal or 0 end
  if prof.memory < MOST then return true end
  p:stop() -- it has seen so many stacks that it begins anew
  ok, message, code = p:start()
  if not ok and code == "ESRCH" then return 0 end
  return ok, message, code
end

local function show(p, opts)
  local going, message, code = p:start()
  local shown = 0
  while going == true do
    shown = shown + 1
    going, message, code = interval(p, opts, shown == opts.times)
  end
  return going, message, code
end

-- Run the command. @return exit status; or nil, message, code
function M.run(opts, words, here)
  if not opts.pid then return nil, "no process is given: luaperf top -p PID", "USAGE" end
  if words[1] then return nil, ("'%s': luaperf top shows a process that runs already"):format(words[1]), "USAGE" end
  local status, why, errno = run.by_interpreter_of(opts.pid, here)
  if status or why then return status, why, errno end
  local p, message, code = require "perf".profiler { pid = opts.pid, event = opts.events, freq = opts.freq,
    period = opts.period }
  if not p then return nil, message, code end
  local ended
  ended, message, code = run.catching(show, p, opts)
  p:close()
  if not ended then return nil, message, code end
  return ended > 0 and 128 + ended or 0
end

return M
