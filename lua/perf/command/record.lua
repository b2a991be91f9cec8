-- luaperf record: writes a script's profile by Lua line, or a perf.data file of any program, a process or the machine.
local format = require "perf.base.format"
local checks = require "perf.api.check"
local copy = require "perf.base.copy"
local options = require "perf.command.options"
local run = require "perf.command.run"
local save = require "perf.profile.save"
local terminal = require "perf.command.terminal"

local M = {}

M.about = "profile a script by Lua line, or record a program into perf.data"
M.usage = "luaperf record [options] [--] script.lua|program [arguments]"
M.text = [[
Profiles a Lua script by Lua line, from its first line to its end. The name of the output file chooses the format: .html is a
flame graph, .folded folded stacks, .pb.gz a file for go tool pprof, .data a file for perf report, .json a profile for
luaperf report and www.speedscope.app. The profile is also written if ^C or --timeout ends the script. Any other program, a
process (-p) or all CPUs (-a) are recorded into a perf.data file. The recording of -p and -a lasts until the program that you
give ends, for --timeout, or until ^C.]]
local profiler, record = checks.rows "perf.profiler", checks.rows "perf.record"

M.options = {
  { "events", "string", "the event to sample by: task-clock, page-faults, cycles, a tracepoint ...", short = "e", long = "event",
    arg = "EVENT", list = true },
  copy(profiler.freq, { short = "F", arg = "N" }),
  copy(profiler.period, { short = "c", long = "count", arg = "N" }),
  { "g", "boolean", "for a script, C and kernel functions too; for others, call chains", short = "g", long = false },
  copy(record.call_graph, { "call_graph", "string", "as -g; for others, by frame pointers (fp), or with stacks that perf "
    .. "report unwinds (dwarf)", arg = "MODE" }),
  options.pid, options.all_cpus,
  { "output", "string", "the file (luaperf.json for a script, perf.data otherwise)", short = "o", arg = "FILE" },
  copy(profiler.coroutines, { [3] = "for a script: " .. profiler.coroutines[3], arg = "UNDER" }),
  copy(record.timeout, { arg = "SECONDS" }),
  { "verbose", "boolean", "print the profile at the end", short = "v" },
}

local function of_script(opts, words, here)
  local ended, message, code = run.catching(run.run, run.script(here, words, { mode = "record", events = opts.events,
    freq = opts.freq, period = opts.period, native = opts.g or opts.call_graph ~= nil, coroutines = opts.coroutines,
    output = opts.output or "luaperf.json", verbose = opts.verbose }), nil, nil, opts.timeout)
  if not ended then return nil, message, code end
  if ended.signal then terminal.error(("%s: killed by signal %d; its profile is lost"):format(words[1], ended.signal)) end
  return run.status(ended)
end

local function of_others(opts, words, here)
  if opts.coroutines then return nil, "--coroutines is for scripts", "USAGE" end
  local output = opts.output or "perf.data"
  local kind = output:find "%.%w+$" and save.kind(output)
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
    call_graph = opts.call_graph or opts.g, output = output, timeout = opts.timeout, during = during })
  terminal.progress()
  if not result then return nil, run.why(words[1], message, code), code end
  local lost = result.lost > 0 and (", %s%d lost: a lower -F, or a larger -c, loses fewer")
    :format(result.at_least and "at least " or "", result.lost) or ""
  local others = result.lost_records or 0
  if others > 0 then lost = ("%s; %s of programs and maps lost"):format(lost, format.count(others, "record")) end
  io.stderr:write(("[ luaperf: %s in %s%s ]\n"):format(format.count(result.samples, "sample"), output, lost))
  if opts.verbose then
    for _, prof in ipairs(require "perf.profile.load".load(output) or {}) do io.stderr:write(tostring(prof), "\n") end
  end
  return result.status or result.interrupted and 128 + result.interrupted or 0
end

-- Run the command. @return exit status; or nil, message, code
function M.run(opts, words, here)
  local others = opts.pid or opts.all_cpus
  if not others and #words == 0 then return nil, "no script or program is given: luaperf record script.lua", "USAGE" end
  if opts.output == "-" then return nil, "-o -: stdout is the program's; name a file", "USAGE" end
  if not others and run.is_script(words[1]) then return of_script(opts, words, here) end
  local found, message, code = run.exists(words[1])
  if not found then return nil, message, code end
  return of_others(opts, words, here)
end

return M
