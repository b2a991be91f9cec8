-- luaperf record: writes a script's profile by Lua line, or a perf.data file of any program, a process or the machine.
local format = require "perf.base.format"
local core = require "perf.core"
local formats = require "perf.profile.report.formats"
local checks = require "perf.api.check"
local copy = require "perf.base.copy"
local options = require "perf.command.options"
local host = require "perf.kernel.host"
local run = require "perf.command.run"
local save = require "perf.command.save"
local terminal = require "perf.command.terminal"

local M = {}

M.about = "profile a script by Lua line, or record a program into perf.data"
M.usage = "luaperf record [options] [--] script.lua|program [arguments]"
M.words = "program"
M.text = [[
Profiles a Lua script by Lua line, from its first line to its end. The name of the output file chooses the format: .html is a
flame graph, .folded folded stacks, .pb.gz a file for go tool pprof, .data a file for perf report, .json a profile for
luaperf report and www.speedscope.app. The profile is also written if ^C or --timeout ends the script. A process that runs Lua
(-p) is profiled by Lua line too, with its threads and children, unless -o names a .data file. Any other program, process or all
CPUs (-a) are recorded into a perf.data file. The recording of -p and -a lasts until the program that you give ends, for
--timeout, or until ^C.]]
local profiler, record = checks.rows "perf.profiler", checks.rows "perf.record"

M.options = {
  { "events", "string", "the event to sample: task-clock, page-faults, cycles, a tracepoint ...; of a script also alloc, heap",
    short = "e", long = "event", arg = "EVENT", list = true },
  options.freq, options.period,
  { "g", "boolean", "C and kernel functions too; of programs without Lua, call chains", short = "g", long = false },
  copy(record.call_graph, { "call_graph", "string", "as -g; of programs without Lua, by frame pointers (fp), or with "
    .. "stacks that perf report unwinds (dwarf)", arg = "MODE" }),
  options.pid, options.all_cpus,
  { "output", "string", "the file (luaperf.json for a script, perf.data otherwise)", short = "o", arg = "FILE" },
  copy(profiler.filter, { [3] = "record only the hits of a tracepoint for which this expression is true, such as 'fd == 1'",
    arg = "FILTER", once = true }),
  copy(profiler.coroutines, { [3] = "for Lua: " .. profiler.coroutines[3], arg = "UNDER" }),
  copy(record.switch_output, { [3] = "for perf.data: begin a new file after a size (10M) or a time (30s)", arg = "LIMIT" }),
  copy(record.switch_max_files, { [3] = "with --switch-output: keep only the N latest files", arg = "N" }),
  copy(record.timeout, { arg = "SECONDS" }),
  { "verbose", "boolean", "print the profile at the end", short = "v" },
}

local SIGTRAP = 5 -- the signal of samples
local OTHER = " (-o FILE names another file)"

-- Why a profile of Lua's memory cannot have these options, by their names in the command line; nil if it can.
local function memory_refuses(opts)
  if opts.events ~= "alloc" and opts.events ~= "heap" then return nil end
  local option = opts.g and "-g" or opts.call_graph and "--call-graph" or opts.freq and "-F"
    or opts.filter and "--filter"
  return option and ("%s: %s is for events of the kernel, not for Lua's memory"):format(opts.events, option)
end

local function of_script(opts, words, here)
  local refused = memory_refuses(opts)
  if refused then return nil, refused, "USAGE" end
  local made, running = pcall(os.tmpname)
  local ended, message, code = run.catching(run.run, run.script(here, words, { mode = "record",
    running = made and running or nil, events = opts.events,
    freq = opts.freq, period = opts.period, native = opts.g or opts.call_graph ~= nil, coroutines = opts.coroutines,
    filter = opts.filter, output = opts.output or "luaperf.json",
    elsewhere = not opts.output and OTHER or nil, verbose = opts.verbose }),
    { timeout = opts.timeout })
  local still_runs = made and (host.read_file(running) or "") ~= ""
  if made then os.remove(running) end
  if not ended then return nil, message, code end
  if still_runs and not ended.signal then
    terminal.error(("%s: it called exec or _exit, which end the script at once; its profile is lost"):format(words[1]))
  end
  if ended.signal then
    local by_sample = still_runs and ended.signal == SIGTRAP
    terminal.error(("%s: killed by signal %d; its profile is lost%s"):format(words[1], ended.signal,
      by_sample and " (a script that calls exec while a sample is taken is killed so)" or ""))
  end
  return run.status(ended)
end

-- The beginning and the end of a profile of processes: until the given program ends, for the timeout, or until all have ended.
local function until_end(p, opts, during)
  local ok, message, code = p:start()
  if not ok then return nil, message, code end
  if during then return run.run(during, { timeout = opts.timeout }) end
  if not opts.timeout then terminal.progress "profiling; ^C ends it" end
  return { signal = run.wait(opts.timeout, function() return not host.any_runs(opts.pid) end) }
end

-- The end of a refusal's message, by its code: a recording needs no BPF program.
local hint = "\n-o FILE.data records it without Lua lines"
local without_lines = { EPERM = hint, EACCES = hint, ENOTSUP = hint }

-- Profile processes by Lua line.
-- @string[opt] interpreter found by by_line
local function of_processes(opts, words, here, interpreter)
  if opts.coroutines == "creator" then
    return nil, "--coroutines creator: only Lua in the process itself tells what made a coroutine; use resumer or alone", "USAGE"
  end
  local goes_on, why_not, refused = run.by_interpreter_of(opts.pid, here, interpreter)
  if not goes_on then return nil, why_not, refused end
  local output = opts.output or "luaperf.json"
  local kind, wrong = formats.of(output)
  if not kind then return nil, wrong, "USAGE" end
  local out, message, code = core.output(output) -- fail before a long profile rather than after it
  if not out then return nil, message .. (opts.output and "" or OTHER), code end
  out:close()
  local p
  p, message, code = require "perf".profiler { pid = opts.pid, event = opts.events, freq = opts.freq, period = opts.period,
    coroutines = opts.coroutines, filter = opts.filter, native = opts.g or opts.call_graph ~= nil }
  if not p then return nil, message .. (without_lines[code] or ""), code end
  local during = run.program(here, words)
  local ended, why, errno = run.catching(until_end, p, opts, during)
  terminal.progress()
  local prof = ended and assert(p:stop())
  p:close()
  if not ended then return nil, during and run.why(words[1], why, errno) or why, errno end
  output = save(prof, output)
  if not output then return require "perf.command".REFUSED end
  local sum = prof.accounting
  io.stderr:write(("[ luaperf: %s of %s in %s: %s with a Lua stack, %s without, %s lost ]\n"):format(
    format.count(sum.samples, "sample"), prof.event, output, format.commas(sum.resolved), format.commas(sum.labelled),
    format.commas(sum.dropped)))
  if opts.verbose then io.stderr:write(format.text_for(2, tostring, prof), "\n") end
  return ended.exit or ended.signal and 128 + ended.signal or 0
end

-- Say that a process is recorded without Lua lines if it cannot be told whether it runs Lua.
local function warn_of_unreadable(pids)
  for _, pid in ipairs(pids) do
    local _, _, code = host.maps(pid)
    if code == "EACCES" or code == "EPERM" then
      terminal.error(require "perf.outside.access".refusal(pid)
        .. "\nluaperf cannot tell whether it runs Lua, and records it without Lua lines")
    end
  end
end

-- Whether processes are profiled by Lua line: as the output file's name says, else if one of them runs Lua.
-- @return boolean; the interpreter, if it was looked for and found
local function by_line(opts)
  if not opts.pid then return false end
  local ending = (opts.output or ""):match "%.(%w+)$"
  if ending then return ending ~= "data" end
  local interpreter = require "perf.outside.seen".first_interpreter(opts.pid)
  if not interpreter then warn_of_unreadable(opts.pid) end
  return interpreter ~= nil, interpreter
end

local function of_others(opts, words, here)
  if opts.coroutines then return nil, "--coroutines is for scripts and processes that run Lua", "USAGE" end
  local output = opts.output or "perf.data"
  local kind = output:find "%.%w+$" and formats.of(output)
  if kind and kind ~= "perf_data" then
    local what = words[1] and not (opts.pid or opts.all_cpus) and words[1] .. " is not a Lua script, and is" or "processes are"
    return nil, ("-o %s: %s recorded into a perf.data file: use -o FILE.data, then luaperf report FILE.data -o %s")
      :format(output, what, output), "USAGE"
  end
  local target, during = words, nil
  if opts.pid or opts.all_cpus then
    target, during = opts.pid or -1, run.program(here, words)
    if not (during or opts.timeout) then terminal.progress "recording; ^C ends it" end
  end
  local result, message, code = require "perf".record(target, { events = opts.events, freq = opts.freq, period = opts.period,
    call_graph = opts.call_graph or opts.g, filter = opts.filter, output = output, timeout = opts.timeout, during = during,
    switch_output = opts.switch_output, switch_max_files = opts.switch_max_files })
  terminal.progress()
  if not result then
    local other = not opts.output and message:sub(1, #output + 2) == output .. ": " and OTHER or ""
    return nil, run.why(words[1], message, code) .. other, code
  end
  local lost = result.lost > 0 and (", %s%d lost: a lower -F, or a larger -c, loses fewer")
    :format(result.at_least and "at least " or "", result.lost) or ""
  local others = result.lost_records or 0
  if others > 0 then lost = ("%s; %s of programs and maps lost"):format(lost, format.count(others, "record")) end
  local older = result.files and #result.files > 1 and " and " .. format.count(#result.files - 1, "older file") or ""
  io.stderr:write(("[ luaperf: %s in %s%s%s ]\n"):format(format.count(result.samples, "sample"), output, older, lost))
  if opts.verbose then
    for _, prof in ipairs(require "perf.profile.load".all(output) or {}) do
      io.stderr:write(format.text_for(2, tostring, prof), "\n")
    end
  end
  return result.status or result.interrupted and 128 + result.interrupted or 0
end

-- The mistake in the options for several files, or nil.
local function wrong_files(opts, profile)
  if opts.switch_max_files and not opts.switch_output then return "--switch-max-files needs --switch-output" end
  if opts.switch_output and profile then
    return "--switch-output is for perf.data: a profile by Lua line has one sum for each stack, and does not grow with time"
  end
  local wrong = opts.switch_output and require "perf.data.rotation".wrong(opts.switch_output)
  return wrong and "option --switch-output: " .. wrong
end

-- Run the command. @return exit status; or nil, message, code
function M.run(opts, words, here)
  local others = opts.pid or opts.all_cpus
  if not others and #words == 0 then return nil, "no script or program is given: luaperf record script.lua", "USAGE" end
  if opts.output == "-" then return nil, "-o -: stdout is the program's; name a file", "USAGE" end
  local script = not others and run.is_script(words[1])
  local wrong = wrong_files(opts, script)
  if wrong then return nil, wrong, "USAGE" end
  if script then return of_script(opts, words, here) end
  local found, message, code = run.exists(words[1])
  if not found then return nil, message, code end
  local lines, interpreter = by_line(opts)
  wrong = wrong_files(opts, lines)
  if wrong then return nil, wrong, "USAGE" end
  if lines then return of_processes(opts, words, here, interpreter) end
  return of_others(opts, words, here)
end

return M
