-- luaperf top: the lines and functions of a process that runs Lua, live.
local copy = require "perf.base.copy"
local core = require "perf.core"
local host = require "perf.kernel.host"
local options = require "perf.command.options"
local run = require "perf.command.run"
local terminal = require "perf.command.terminal"
local top_screen = require "perf.command.top_screen"

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
  options.zone,
  { "times", "integer", "end after N intervals", arg = "N", least = 1 },
}

local MOST = 64 * 2 ^ 20 -- bytes of stacks

local function open(opts, pids)
  return require "perf.profile".started { pid = pids, event = opts.events, freq = opts.freq, period = opts.period }
end

-- Select the samples of the zone that --zone names. There may be none yet, so that is not a mistake.
local function chosen(live, prof)
  local name = live.opts.zone
  return name and prof:zone(name) or prof
end

-- Show an interval: as text, or on the screen of a terminal, unless that belongs to another program at present.
local function show(live, prof)
  local screen = live.screen
  if not screen then return terminal.write(top_screen.plain(prof, live.opts.n or 15) .. "\n\n") end
  live.prof = prof
  if live.away then return true end
  live.rows, live.columns = core.terminal_size()
  return terminal.write(top_screen.drawn(screen:text(prof, live.rows)))
end

-- Profile the processes, or the one that the screen shows alone, from now on.
local function choose(live)
  local screen = live.screen
  live.p:close()
  screen.from, live.prof, live.drawn = nil, nil, false
  local p, message, code = open(live.opts, screen.alone and { screen.alone } or live.opts.pid)
  while not p and screen.alone do -- a process that does not run Lua, or has ended, is passed over
    screen:next_process()
    screen.note = message:match "^[^\n]*"
    p, message, code = open(live.opts, screen.alone and { screen.alone } or live.opts.pid)
  end
  if not p then return nil, message, code end
  live.p = p
  return true
end

-- The Profile of the interval that ends now; on a screen that says so, of the time since the beginning.
local function taken(live, over)
  local p, screen = live.p, live.screen
  if screen and screen.all then p.before = screen.from end
  if over then return p:stop() end
  return p:snapshot()
end

-- Do what the keys ask for that were pressed. @return "end", "show", "anew" or "process"; or nil
local function pressed(live)
  local key, why = core.key()
  if live.away then live.drawn = false end
  live.away = why == "away"
  if why == "gone" then return "end" end
  while key or why == "again" do
    local wish = key and live.screen:key(key)
    if wish then return wish end
    live.drawn = false
    key, why = core.key()
  end
end

local function is_resized(live)
  local rows, columns = core.terminal_size()
  return rows ~= live.rows or columns ~= live.columns
end

-- Wait for the end of the interval. @return the signal that came, what a key asked for; nil, nil: it is over
local function wait(live, ended)
  local screen, wish, deadline = live.screen, nil, core.wall_ns()
  if not screen then return run.wait(live.opts.delay or 2, ended) end
  local function done()
    wish = pressed(live)
    if not live.away and (not live.drawn or is_resized(live)) then
      show(live, live.prof)
      live.drawn = true
    end
    return wish or core.wall_ns() >= deadline + screen.delay * 1e9 or ended()
  end
  -- In the background nothing is read, so a line that is typed for another program would end each pause at once.
  return run.wait(nil, done, nil, function() return not live.away and 0 or nil end), wish
end

-- Show one interval.
-- @return true to go on; a signal, or 0, that ends it; or nil, message, code
local function interval(live, is_last)
  local opts, screen = live.opts, live.screen
  local function ended() return not host.any_runs(screen and screen.alone and { screen.alone } or opts.pid) end
  local signal, wish = wait(live, ended)
  if wish == "process" then return choose(live) end
  local all_ended = not host.any_runs(opts.pid)
  local over = signal or wish == "end" or all_ended or is_last
  local prof, message, code = taken(live, over)
  if not prof then return nil, message, code end
  local ok, memory = true, prof.memory
  prof = chosen(live, prof)
  if wish == "anew" then
    screen.from = live.p.before
  elseif over or not (screen and screen.paused) or wish == "show" then
    ok, message, code = show(live, prof)
  end
  if not ok then return nil, message, code end
  if over then return signal or 0 end
  if screen and screen.alone and ended() then
    screen.alone = nil
    return choose(live)
  end
  if memory < MOST then return true end
  live.p:stop() -- it has too many stacks: begin anew
  if screen then screen.from = nil end
  ok, message, code = live.p:start()
  if not ok and code == "ESRCH" then return 0 end
  return ok, message, code
end

local function intervals(live)
  local going, message, code = true, nil, nil
  local n = 0
  while going == true do
    n = n + 1
    going, message, code = interval(live, n == live.opts.times)
  end
  return going, message, code
end

-- Show the intervals; on a terminal, with keys.
local function live_view(p, opts)
  local live = { p = p, opts = opts, screen = core.keys() and top_screen.new(opts) or nil }
  local ok, going, message, code = pcall(intervals, live)
  if live.screen then core.keys_end() end
  live.p:close()
  if not ok then error(going, 0) end
  return going, message, code
end

-- Run the command. @return exit status; or nil, message, code
function M.run(opts, words, here)
  if not opts.pid then
    return nil, ("no process is given: luaperf top -p %s"):format(words[1] and words[1]:match "^%d+$" or "PID"), "USAGE"
  end
  if words[1] then return nil, ("'%s': luaperf top shows a process that runs already"):format(words[1]), "USAGE" end
  local goes_on, why, errno = run.by_interpreter_of(opts.pid, here)
  if not goes_on then return nil, why, errno end
  local p, message, code = open(opts, opts.pid)
  if not p then return nil, message, code end
  local ended
  ended, message, code = run.catching(live_view, p, opts)
  if not ended then return nil, message, code end
  return ended > 0 and 128 + ended or 0
end

return M
