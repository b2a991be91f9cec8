-- Profiles or counts the program that this interpreter runs, from now to its end: for perf.auto and for luaperf's scripts.
--
-- The session ends in a finalizer when the state is closed (also after an error), or at SIGTERM, SIGHUP or SIGQUIT. os.exit does
-- not close the state, so it is replaced by a function that first ends the session. In the child of a fork the session does
-- nothing.
local at_exit = require "perf.base.at_exit"
local core = require "perf.base.core"
local file = require "perf.base.file"
local format = require "perf.base.format"
local formats = require "perf.profile.report.formats"
local save = require "perf.command.save"
local terminal = require "perf.command.terminal"

local M = {}

local REFUSED = 255

local function refuse(message, status)
  terminal.error(message)
  os.exit(status or REFUSED)
end

-- Remove the session's own arguments, "-e" and its chunk, from arg, so that the script sees the same arg as without the session.
-- Does nothing on Lua 5.1 and 5.2, which set arg later.
local function hide()
  local arg, i = rawget(_G, "arg"), -1
  if type(arg) ~= "table" then return end
  while arg[i - 2] do
    arg[i] = arg[i - 2]
    i = i - 1
  end
  arg[i], arg[i - 1] = nil, nil
end

-- Each returns three functions. The first begins the session, and returns true, or nil and a message; the second ends it, and may
-- be called again; the third writes the result. No other code of this file may run between the first two, since that would be in
-- the result.
local modes = {}

function modes.record(opts)
  local perf = require "perf"
  local p, message = perf.profiler { event = opts.events, freq = opts.freq, period = opts.period, native = opts.native,
    coroutines = opts.coroutines, filter = opts.filter }
  if not p then return nil, message end
  if p.method == "registers" then
    local ok, profile = pcall(require, rawget(_G, "jit") and "jit.profile" or nil)
    core.stop_points(ok and profile or nil)
  end
  if p.requested and not opts.quiet then
    terminal.error(("%s: samples are at least 50,000 ns apart"):format(p.label))
  end
  return function() return p:start() end, function() p.sampler:stop() end, function()
    local prof, why = p:stop()
    p:close()
    if not prof then return terminal.error(why) end
    local path = save(prof, opts.place)
    if path == opts.place then path = opts.output end
    if path and not (opts.quiet and path == opts.output) then
      io.stderr:write(("[ luaperf: %s of %s in %s ]\n"):format(format.count(prof.sample_count, "sample"), prof.event, path))
    end
    if opts.verbose and not opts.quiet then io.stderr:write(format.text_for(2, tostring, prof), "\n") end
  end
end

function modes.stat(opts)
  local counts_read = require "perf.counts.read"
  local set, message = require "perf.measure".lookup(opts.events)
  if not set then return nil, message end
  local c, counts
  return function()
    c = counts_read.begin(set.meter, set.layout, set.words)
    return true
  end, function() counts = counts or counts_read.finish(set.meter, c) end, function()
    if not opts.output then
      if not opts.quiet then io.stderr:write("\n", format.text_for(2, tostring, counts), "\n") end
      return
    end
    local json = opts.output:find "%.json$"
    local ok, why = file.write(opts.place, function(put)
      put((json and counts:json() or format.text_for(false, tostring, counts)) .. "\n")
    end)
    if not ok then
      terminal.error(why)
      io.stderr:write(format.text_for(2, tostring, counts), "\n")
    end
  end
end

-- Begin the session, which ends by itself. If it cannot begin, the interpreter exits with status 255 and a message.
-- @tab opts `mode` "record" or "stat"; `events`, `freq`, `period`, `native`, `coroutines`, `filter`, `output`, `verbose`,
-- `quiet`; `elsewhere`: the end of the message about an output file that cannot be made; `source`: the beginning of messages
-- about the events; `mistake`: the exit status for a mistake in these options, by default REFUSED; `hidden`: true if -e began
-- it, which the script must not see; `running`: the path of a file that has some bytes while the session runs; `terminated`:
-- true: report a signal that asks for the end by the exit status, rather than by dying of it
function M.start(opts)
  if opts.hidden then hide() end
  if opts.output then -- fail before a long run rather than after it
    local kind, wrong = formats.of(opts.output)
    if opts.mode == "record" and not kind then refuse(wrong, opts.mistake) end
    local out, message = core.output(opts.output)
    if not out then refuse(message .. (opts.elsewhere or "")) end
    out:close()
    opts.place = file.absolute(opts.output) -- since the program may change its directory
  end
  local pid, exit = core.pid(), os.exit
  local halt, finish
  local function stop()
    local last = finish
    if not last or core.pid() ~= pid then return end
    halt() -- first, so that the result has no system calls of the code that follows
    finish = nil
    core.hold_signals() -- a signal that arrives while the result is written ends the process afterwards
    local done, err = pcall(last)
    if not done then terminal.error(err) end
    if opts.running then os.remove(opts.running) end
    return core.on_terminate()
  end
  local function stop_and_answer()
    local signal = stop()
    if signal and opts.terminated then exit(128 + signal) end
    if signal then core.end_by(signal) end
  end
  core.on_terminate(function(signal)
    stop()
    if opts.running and core.pid() == pid then os.remove(opts.running) end -- also if the script has not begun
    return opts.terminated and 128 + signal or nil
  end)
  if opts.running then file.write(opts.running, function(put) put "runs" end) end
  local function demand(ok, first, ...)
    if ok and first then return first, ... end
    if opts.running then os.remove(opts.running) end
    if not ok and tostring(first):find "interrupted!$" then os.exit(128 + 2) end -- the interpreter raises this after ^C
    local source = opts.source or ""
    refuse(source .. (ok and (...) or terminal.plain(first)), not ok and opts.mistake or nil)
  end
  local begin, halting, finishing = demand(pcall(modes[opts.mode], opts))
  M.kept = at_exit(stop_and_answer) -- made after the profiler, since finalizers run in the reverse order
  exit = os.exit -- on Lua 5.1 that of at_exit, which must run after the profile has ended
  os.exit = function(...) -- luacheck: ignore 122
    stop_and_answer()
    return exit(...)
  end
  demand(pcall(begin)) -- nothing after this may allocate memory, since that would be in the profile
  halt, finish = halting, finishing
end

return M
