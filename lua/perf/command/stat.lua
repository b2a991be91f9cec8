-- luaperf stat: counts the events of a script, a program, a process or the machine.
--
-- All counting is done from another process, so the counts do not include luaperf. A script runs under its interpreter as it
-- would without luaperf, and is counted from the moment when the interpreter opens it, so that the interpreter's start is not
-- included. Other programs are counted from their exec on.
local attempt = require "perf.base.attempt"
local core = require "perf.core"
local format = require "perf.base.format"
local options = require "perf.command.options"
local counters = require "perf.command.counters"
local counting = require "perf.command.counting"
local host = require "perf.kernel.host"
local report = require "perf.command.count_report"
local run = require "perf.command.run"
local terminal = require "perf.command.terminal"

local M = {}

local try = attempt.try

M.about = "count events while a script or a program runs"
M.usage = "luaperf stat [options] [--] script.lua|program [arguments]"
M.words = "program"
M.text = [[
Counts events of a script or program, with its threads and children, and prints them to stderr. A Lua script is counted from the
moment when the interpreter opens it, without the interpreter's start; any other program from its first instruction. With -p, -a
or -C luaperf counts until the program that you give ends, for --timeout, or until ^C.]]
M.options = {
  { "events", "string", "the events, named as in luaperf list, with commas or several -e", short = "e", long = "event",
    arg = "EVENTS", list = true },
  { "detailed", "integer", "more events: caches; -d -d TLBs too; -d -d -d prefetches too", short = "d", times = true },
  options.pid, options.all_cpus,
  { "cpus", "string", "everything on these CPUs, such as 0-3,6", short = "C", long = "cpu", arg = "LIST", list = true,
    excludes = { "pid", "all_cpus" } },
  { "per_cpu", "boolean", "with -a or -C: each CPU by itself", short = "A", long = "no-aggr" },
  { "per_thread", "boolean", "with -p: each thread by itself" },
  { "runs", "integer", "run it N times, and print means with their error", short = "r", long = "repeat", arg = "N",
    least = 1, excludes = { "interval", "per_thread" } },
  { "interval", "integer", "print the counts of every MS milliseconds", short = "I", long = "interval-print", arg = "MS",
    least = 1 },
  { "separator", "string", "lines for other programs, with SEP between the fields, as perf stat -x", short = "x",
    long = "field-separator", arg = "SEP", excludes = { "lines" } },
  { "lines", "boolean", "an object of JSON for each event on its line, as perf stat -j", short = "j", long = "json-output" },
  { "output", "string", "write to FILE instead of stderr; - is stdout; a name in .json gives JSON", short = "o", arg = "FILE" },
  { "no_inherit", "boolean", "leave out threads and children that start while counting", short = "i" },
  { "timeout", "number", "with -p, -a or -C: count for this time, in seconds", above = 0, arg = "SECONDS" },
  { "verbose", "boolean", "show for how long each event was counted", short = "v" },
}

local DEFAULT = "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses"
local DETAILED = { "L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses",
  "L1-icache-loads,L1-icache-load-misses,dTLB-loads,dTLB-load-misses,iTLB-loads,iTLB-load-misses",
  "L1-dcache-prefetches,L1-dcache-prefetch-misses" }

-- The events, and the labels of those that -d adds.
local function events_of(opts)
  local events = try(counters.resolve(opts.events or DEFAULT))
  local added = {}
  for i = 1, math.min(opts.detailed or 0, #DETAILED) do
    for _, event in ipairs(try(counters.resolve(DETAILED[i]))) do
      events[#events + 1], added[event.label] = event, true
    end
  end
  return events, added
end

-- The CPUs of -C; nil and the error if one of them is not there.
local function cpus_of(text)
  local list, seen, online = {}, {}, host.cpus "online"
  for word in (text .. ","):gmatch "([^,]*)," do
    local first, last = word:match "^(%d+)%-(%d+)$"
    first = tonumber(first or word:match "^%d+$")
    last = tonumber(last) or first
    if not first or last < first then
      return nil, ("option -C: CPUs such as 0-3,6 expected, got '%s'"):format(text)
    end
    for cpu = first, last do
      if online and not online.has[cpu] then return nil, ("option -C: no CPU %.0f is online, but %s"):format(cpu, online.text) end
      if not seen[cpu] then seen[cpu], list[#list + 1] = true, cpu end
    end
  end
  return list
end

-- The mistake in a combination of options, or nil.
local function mistake(opts, words)
  local others = opts.pid or opts.all_cpus or opts.cpus
  local machine = opts.separator or opts.lines
  if not others and #words == 0 then return "no script or program is given: luaperf stat script.lua" end
  if opts.timeout and (not others or #words > 0) then return "--timeout needs -p, -a or -C, and no program" end
  if opts.runs and others and #words == 0 then return "-r needs a script or a program" end
  if opts.per_cpu and not (opts.all_cpus or opts.cpus) then return "-A needs -a or -C" end
  if opts.per_thread and not opts.pid then return "--per-thread needs -p" end
  if opts.separator == "" then return "option -x needs a separator" end
  if not machine and (opts.output or ""):find "%.json$" and (opts.interval or opts.per_cpu or opts.per_thread) then
    return ("-o %s: -I, -A and --per-thread write an object for each line: add -j"):format(opts.output)
  end
end

local ENDINGS = { json = true, txt = true, csv = true, log = true, out = true, stat = true }

-- The mistake in the name of the output file, or nil. An ending of more than 6 characters may be one of mktemp's.
local function wrong_ending(output)
  local ending = (output or ""):match "[^/]%.(%w+)$"
  if ending and #ending <= 6 and not ENDINGS[ending:lower()] then
    return ("-o %s: unknown ending; .json gives JSON, and .txt, .csv, .log and names without an ending give text"):format(output)
  end
end

local function put_to_stderr(text)
  io.stderr:write(text)
  return true
end

-- The function that writes the lines of intervals, each at once.
local function sink(output)
  if not output then return put_to_stderr end
  if output == "-" then return terminal.write end
  local f = try(io.open(output, "w"))
  return function(text)
    local ok, message = f:write(text)
    if ok then ok, message = f:flush() end
    return ok, message and output .. ": " .. message, "EIO"
  end
end

local function deliver(text, opts)
  if not opts.output then return put_to_stderr(text) end
  if opts.output == "-" then return terminal.write(text) end
  local ok, message, code = require "perf.base.file".write(opts.output, function(put) put(text) end)
  if not ok then put_to_stderr(text) end -- so that the result is not lost
  return ok, message, code
end

local function title_of(opts, words)
  local title = opts.pid and (#opts.pid > 1 and "processes " or "process ") .. table.concat(opts.pid, ", ")
    or opts.all_cpus and "all CPUs" or opts.cpus and (#opts.on > 1 and "CPUs " or "CPU ") .. opts.cpus
  if #words > 0 then title = (title and title .. " during " or "") .. table.concat(words, " ") end
  return title
end

-- Whether the machine counts one of the events that have these labels.
local function counts_some(result, labels)
  for _, part in ipairs(result.parts) do
    for _, e in ipairs(part.entries) do
      if not e.unsupported and (labels[e.label] or labels[e.label:gsub(":u$", "")]) then return true end
    end
  end
  return false
end

-- The text of the results, in the format that the options and the file's name select.
local function text_of(results, runs, title, opts)
  local means = runs > 1 and report.means(results)
  local lines = report.lines(means or results[1], opts, means)
  if lines then return lines end
  if (opts.output or ""):find "%.json$" then
    return (means and report.json_of_means(means, results) or report.json(results[1])) .. "\n"
  end
  local finished = #results < runs and ("%d of %d"):format(#results, runs) or tostring(runs)
  if #results > 1 then return report.table_of_means(means, title, finished) end
  return report.table(results[1], runs > 1 and title .. ", run " .. finished or title, opts.verbose)
end

-- Count as often as the options say. Returns the results, and how the last program ended.
local function count_all(results, runs, opts, events, words, here)
  local others = opts.pid or opts.all_cpus or opts.cpus
  local script = not others and run.is_script(words[1]) and words[1] or nil
  local argv = run.program(here, words)
  for i = 1, runs do
    if runs > 1 then terminal.progress(("run %d of %d"):format(i, runs)) end
    local result, how, code
    if others then
      result, how, code = counting.others(opts, events, argv)
    else
      result, how, code = counting.program(argv, script, events, opts)
    end
    if not result then return nil, how, code end
    local interrupted = core.caught_interrupt()
    if interrupted and i > 1 then -- leave a partial run out of the means
      if run.status(how) == 0 then how = { signal = interrupted } end
    else
      results[i] = result
      if result.unopened then counting.warn_of_start(script, "a signal arrived before it was opened") end
    end
    if interrupted or run.status(how) ~= 0 or i == runs then return how end
  end
end

-- The descriptor of the terminal for which the tables are made, as format.destination.
local function destination(output)
  if not output then return 2 end
  return output == "-" and 1
end

local function count(opts, words, here)
  local wrong = mistake(opts, words)
  if not wrong and opts.cpus then opts.on, wrong = cpus_of(opts.cpus) end
  if wrong then return nil, wrong, "USAGE" end
  if opts.separator == "\\t" then opts.separator = "\t" end -- as perf does
  try(run.exists(words[1]))
  format.destination = destination(opts.output)
  wrong = wrong_ending(opts.output)
  if wrong then return nil, wrong, "USAGE" end
  local events, added = events_of(opts)
  opts.all = (opts.events or opts.separator or opts.lines) and true or nil
  opts.separate = opts.per_cpu or opts.per_thread
  if opts.interval then
    local put, first = sink(opts.output), true
    function opts.tell(result)
      try(put(report.lines(result, opts) or report.interval(result, first)))
      first = false
    end
  elseif opts.output and opts.output ~= "-" then -- fail before a long run rather than after it
    try(core.output(opts.output)):close()
  end
  local results, runs = {}, opts.runs or 1
  local ended, message, code = run.catching(count_all, results, runs, opts, events, words, here)
  if runs > 1 then terminal.progress() end
  if not ended then return nil, message, code end
  if not opts.tell then
    local text = text_of(results, runs, title_of(opts, words), opts)
    if not (opts.separator or opts.lines) and (opts.output or "-") == "-" then text = text .. "\n" end
    try(deliver(text, opts))
  end
  if results[1] and next(added) and not counts_some(results[1], added) then
    terminal.error "-d: this machine counts none of the events that it adds"
  end
  return run.status(ended)
end

-- Run the command. @return exit status; or nil, message, code
function M.run(...) return attempt.catch(count, ...) end

return M
