-- luaperf stat: counts the events of a script, a program, a process or the machine.
--
-- All counting is done from another process, so the counts do not include luaperf. A script runs under its interpreter as it
-- would without luaperf, and is counted from the moment when the interpreter opens it, so that the interpreter's start is not
-- included. Other programs are counted from their exec on.
local attempt = require "perf.base.attempt"
local core = require "perf.core"
local options = require "perf.command.options"
local counters = require "perf.command.counters"
local counts = require "perf.counts"
local format = require "perf.base.format"
local host = require "perf.kernel.host"
local run = require "perf.command.run"
local terminal = require "perf.command.terminal"
local threads = require "perf.event.threads"

local M = {}

local try, refuse = attempt.try, attempt.refuse

M.about = "count events while a script or a program runs"
M.usage = "luaperf stat [options] [--] script.lua|program [arguments]"
M.text = [[
Counts events of a script or program, with its threads and children, and prints them to stderr. A Lua script is counted from the
moment when the interpreter opens it, without the interpreter's start; any other program from its first instruction. With -p or -a
luaperf counts until the program that you give ends, for --timeout, or until ^C.]]
M.options = {
  { "events", "string", "the events, named as in luaperf list, with commas or several -e", short = "e", long = "event",
    arg = "EVENTS", list = true },
  options.pid, options.all_cpus,
  { "runs", "integer", "run it N times, and print means with their error", short = "r", long = "repeat", arg = "N",
    least = 1 },
  { "output", "string", "write to FILE instead of stderr; - is stdout; a name in .json gives JSON", short = "o", arg = "FILE" },
  { "no_inherit", "boolean", "leave out threads and children that start while counting" },
  { "timeout", "number", "with -p or -a: count for this time, in seconds", above = 0, arg = "SECONDS" },
  { "verbose", "boolean", "show for how long each event was counted", short = "v" },
}

local DEFAULT = "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses"

-- One result: {entries, wall_ns} --------------------------------------------------------------------------------------

local function warn_of_start(script, why)
  terminal.error(("%s: the counts include the start of the interpreter, since the start of the script is unknown: %s")
    :format(script, why))
end

-- Wait until the interpreter is about to open the script; returns the counters' values and the time at that moment.
local function at_script(process, script, all)
  local opened, message, code = process:until_open(script)
  if opened == nil then refuse(message, code) end
  if opened then
    local start = { before = all:values(), at = core.wall_ns() }
    process:go_on()
    return start
  end
  return { unopened = process:wait() == false }
end

-- Count a program from its exec on; a script, if possible, from the moment when it is opened.
local function from_program(argv, script, events, opts)
  local all, begun, traced, unopened
  local ended, message, code = run.run(argv, function(process)
    all = try(counters.open(events, { pid = process:pid(), inherit = not opts.no_inherit }, true))
    if script then
      local why
      traced, why = process:trace()
      if not traced then warn_of_start(script, why) end
    end
    begun = { at = core.wall_ns() }
  end, function(process)
    local start = traced and at_script(process, script, all) or {}
    if start.at then begun = start end
    unopened = start.unopened
  end)
  local wall = begun and core.wall_ns() - begun.at
  if not ended then
    if all then all:close() end
    return nil, message, code
  end
  local entries = all:entries(opts.events or all:refused(), begun.before)
  all:close()
  return { entries = entries, wall_ns = wall, unopened = unopened }, ended
end

-- The counters of a target; nil, message, code also if all events were refused for lack of permission.
local function open_one(events, target)
  local one, message, code = counters.open(events, target)
  if one then message, code = one:refused() end
  if one and not message then return one end
  if one then one:close() end
  return nil, message, code
end

-- The counters of all threads of processes and of their children, or of all CPUs: an array.
local function open_all(opts, events)
  if opts.pid then
    return threads.open(opts.pid, not opts.no_inherit, function(tid)
      return open_one(events, { pid = tid, inherit = not opts.no_inherit })
    end)
  end
  local list = {}
  for i, cpu in ipairs(host.cpus "online" or { 0 }) do
    local message, code
    list[i], message, code = open_one(events, { pid = -1, cpu = cpu })
    if not list[i] then
      for k = 1, i - 1 do list[k]:close() end
      return nil, message, code
    end
  end
  return list
end

local function from_others(opts, events, words, here)
  local all = try(open_all(opts, events))
  local ended, message, code = { exit = 0 }, nil, nil
  local start = core.wall_ns() -- read first, so that no thread seems to use more than a CPU
  for _, one in ipairs(all) do one:enable() end
  if #words > 0 then
    ended, message, code = run.run(run.program(here, words))
  else
    terminal.progress "counting; ^C ends it"
    local signal = run.wait(opts.timeout, function()
      return opts.pid and not host.any_runs(opts.pid)
    end)
    terminal.progress()
    ended = signal and { signal = signal } or ended
  end
  for _, one in ipairs(all) do one:disable() end
  local wall, lists = core.wall_ns() - start, {}
  for i, one in ipairs(all) do
    lists[i] = one:entries(true)
    one:close()
  end
  if not ended then return nil, message, code end
  return { entries = counters.add_up(lists, opts.events), wall_ns = wall }, ended
end

-- Text ----------------------------------------------------------------------------------------------------------------

local function text_of(result, title, opts)
  local c = counts.plain(result.entries, result.wall_ns, "software")
  local lines = { "", title .. ":", "", tostring(c), "" }
  if opts.verbose then
    for _, e in ipairs(result.entries) do
      lines[#lines + 1] = e.enabled_ns and ("  %s: enabled %s, counted %s"):format(e.label, format.ns(e.enabled_ns),
        format.ns(e.running_ns)) or ("  %s: %s"):format(e.label, e.why or "")
    end
    lines[#lines + 1] = ""
  end
  return table.concat(lines, "\n"), c
end

-- The mean of numbers, their standard deviation, and the standard error of the mean in percent.
local function mean_of(values)
  local sum, square = 0, 0
  for _, v in ipairs(values) do sum = sum + v end
  local mean = sum / #values
  for _, v in ipairs(values) do square = square + (v - mean) ^ 2 end
  local deviation = #values > 1 and math.sqrt(square / (#values - 1)) or 0
  return { mean = mean, stddev = deviation, percent = mean ~= 0 and 100 * deviation / math.sqrt(#values) / mean or 0 }
end

-- An array of {label=, unit=, why=, unsupported=, runs= the number of runs with a value, mean=, stddev=, percent=}, and the same
-- for the wall time.
local function means_of(results)
  local rows, walls = {}, {}
  for i, e in ipairs(results[1].entries) do
    local values = {}
    for _, r in ipairs(results) do
      local other = r.entries[i]
      if other and other.value then values[#values + 1] = tonumber(other.value) end
    end
    local row = #values > 0 and mean_of(values) or {}
    row.label, row.unit, row.why, row.unsupported, row.runs = e.label, e.unit, e.why, e.unsupported, #values
    rows[i] = row
  end
  for i, r in ipairs(results) do walls[i] = tonumber(r.wall_ns) end
  return rows, mean_of(walls)
end

local function amount(v, unit)
  if unit == "ns" then return format.ns(v) end
  return format.commas(v < 1000 and math.floor(v * 100 + 0.5) / 100 or math.floor(v + 0.5)) .. "   "
end

local function text_of_several(results, title, runs)
  local rows, wall = means_of(results)
  local missing = {}
  for i, e in ipairs(rows) do
    if not e.mean then missing[#missing + 1] = e end
    rows[i] = e.mean and { "  " .. amount(e.mean, e.unit), e.label, ("+- %.2f %%"):format(e.percent) }
      or { ("  %s   "):format(e.unsupported and "<not supported>" or "<not counted>"), e.label, format.reason(e) }
  end
  return ("\n%s, mean of %s runs:\n\n%s%s\n\n  %s elapsed  +- %.2f %%\n"):format(title, runs,
    format.align(rows, { true }), format.remarks(missing), format.ns(wall.mean), wall.percent)
end

-- The JSON for option -r: the means, and each run as without -r.
local function json_of_several(results)
  local events, wall = means_of(results)
  local runs = {}
  for i, r in ipairs(results) do runs[i] = counts.plain(r.entries, r.wall_ns, "software"):totable() end
  return require "perf.base.json".encode { events = events, wall_ns = wall, runs = runs }
end

local function deliver(text, json, opts)
  if not opts.output then
    io.stderr:write(text, "\n")
    return true
  end
  if opts.output == "-" then return terminal.write(text .. "\n") end
  local ok, message, code = require "perf.base.file".write(opts.output, function(put)
    put(opts.output:find "%.json$" and json() .. "\n" or text)
  end)
  if not ok then io.stderr:write(text, "\n") end -- so that the result is not lost
  return ok, message, code
end

local function count(opts, words, here)
  local others = opts.pid or opts.all_cpus
  if not others and #words == 0 then return nil, "no script or program is given: luaperf stat script.lua", "USAGE" end
  if opts.timeout and (not others or #words > 0) then return nil, "--timeout needs -p or -a, and no program", "USAGE" end
  if opts.runs and others then return nil, "-r needs a script or a program", "USAGE" end
  try(run.exists(words[1]))
  if opts.output and opts.output ~= "-" then -- fail before a long run rather than after it
    try(core.output(opts.output)):close()
  end
  local script = not others and run.is_script(words[1]) and words[1] or nil
  local events = try(counters.resolve(opts.events or DEFAULT))
  local results, runs, argv = {}, opts.runs or 1, not others and run.program(here, words)
  local ended, message, code = run.catching(function()
    for i = 1, runs do
      if runs > 1 then terminal.progress(("run %d of %d"):format(i, runs)) end
      local result, how, code
      if others then
        result, how, code = from_others(opts, events, words, here)
      else
        result, how, code = from_program(argv, script, events, opts)
      end
      if not result then return nil, how, code end
      local interrupted = core.caught_interrupt()
      if interrupted and i > 1 then -- leave a partial run out of the means
        if run.status(how) == 0 then how = { signal = interrupted } end
      else
        results[i] = result
        if result.unopened then warn_of_start(script, "a signal arrived before it was opened") end
      end
      if interrupted or run.status(how) ~= 0 or i == runs then return how end
    end
  end)
  if runs > 1 then terminal.progress() end
  if not ended then return nil, message, code end
  local title = opts.pid
    and (#opts.pid > 1 and "processes " or "process ") .. table.concat(opts.pid, ", ") or opts.all_cpus and "all CPUs"
  if #words > 0 then title = (title and title .. " during " or "") .. table.concat(words, " ") end
  local finished = #results < runs and ("%d of %d"):format(#results, runs) or tostring(runs)
  local text, c = text_of(results[1], runs > #results and #results == 1 and title .. ", run " .. finished or title, opts)
  if #results > 1 then text = text_of_several(results, title, finished) end
  try(deliver(text, function() return runs > 1 and json_of_several(results) or c:json() end, opts))
  return run.status(ended)
end

-- Run the command. @return exit status; or nil, message, code
function M.run(...) return attempt.catch(count, ...) end

return M
