--- luaperf stat: what a script, a program, a process or the machine costs, in events.
--
-- A script is counted from inside, from its first line to its end, so that the interpreter's own start is not in it; anything
-- else from outside, with its children.
-- @module perf.command.stat
local core = require "perf.core"
local counts = require "perf.counts"
local format = require "perf.format"
local host = require "perf.host"
local run = require "perf.command.run"
local say = require "perf.command.say"

local M = {}

M.about = "count events while a script or a program runs"
M.usage = "luaperf stat [options] [--] script.lua|program [arguments]"
M.text = [[
Counts events and prints them to stderr. A Lua script is counted from its first line to its end, without the interpreter's start;
any other program with its children. With -p or -a the counting goes on to the end of the program that is given, or for
--timeout, or until it is interrupted.]]
M.options = {
  { "e", "event", "EVENTS", "what to count, as luaperf list names it; several with commas or by -e again", kind = "list" },
  { "p", "pid", "PID", "a process that runs already, with its threads", kind = "integer" },
  { "a", "all-cpus", nil, "everything on all CPUs" },
  { "r", "repeat", "N", "run it N times: means, and how far the runs differ", kind = "integer" },
  { "o", "output", "FILE", "write there instead of stderr, - is stdout; JSON when its name ends in .json" },
  { nil, "timeout", "SECONDS", "with -p or -a: for so long", kind = "number", least = 0.001 },
  { "v", "verbose", nil, "say for how long each event was counted" },
}

local DEFAULT = "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses"
local USER = "task-clock,page-faults:u,cycles:u,instructions:u,branches:u,branch-misses:u"

-- What is counted when nothing is asked for: of user space where the kernel's part is not this user's to know.
local function default_events()
  local ev, _, code = require "perf".open "page-faults"
  if ev then ev:close() end
  return code == "EACCES" and USER or DEFAULT
end

---------------------------------------------------------------------------------------------------------------------
-- One result: {entries, wall_ns, source}

local function from_script(words, opts, here)
  local path = os.tmpname()
  local file = path .. ".json"
  local argv = run.script(here, words, { mode = "stat", events = opts.event, output = file })
  local ended, message, code = run.run(argv)
  local f = io.open(file, "rb")
  local text = f and f:read "*a"
  if f then f:close() end
  os.remove(file)
  os.remove(path)
  if not ended then return nil, message, code end
  local t = text and require "perf.json_decode".decode(text)
  return { entries = t and t.events, wall_ns = t and t.wall_ns, source = t and t.source }, ended
end

-- The counters of one task, process or CPU, with what is not there.
local function profiler(events, target, on_exec)
  local list = {}
  for i, name in ipairs(events) do
    list[i] = on_exec and type(name) == "string" and { event = name, label = name, enable_on_exec = true } or name
  end
  target.events = list
  return require "perf".software_profiler(target)
end

local function entries_of(p)
  local list, lacking = {}, {}
  for _, e in ipairs(p:read()) do list[#list + 1] = e end
  for _, m in ipairs(p.missing) do lacking[#lacking + 1] = m end
  return list, lacking
end

-- Adds the entries of several counters of the same events.
local function add_up(lists)
  local out, by_label = {}, {}
  for _, list in ipairs(lists) do
    for _, e in ipairs(list) do
      local sum = by_label[e.label]
      if not sum then
        sum = { label = e.label, unit = e.unit, why = e.why, enabled_ns = 0, running_ns = 0, raw = 0 }
        by_label[e.label], out[#out + 1] = sum, sum
      end
      if e.value then sum.value = (sum.value or 0) + e.value end
      sum.raw = sum.raw + (e.raw or 0)
      sum.enabled_ns, sum.running_ns = sum.enabled_ns + (e.enabled_ns or 0), sum.running_ns + (e.running_ns or 0)
      if sum.value then sum.why = nil end
    end
  end
  return out
end

-- What was asked for and is not there says why; of what is looked for by itself it is left out.
local function with_lacking(list, lacking, asked)
  if not asked then return list end
  for _, m in ipairs(lacking) do list[#list + 1] = { label = m.label, why = m.message:gsub("^.-: ", "", 1) } end
  return list
end

local function from_program(argv, events, asked)
  local p
  local start
  local ended, message, code = run.run(argv, function(process)
    local why, errno
    p, why, errno = profiler(events, { pid = process:pid(), inherit = true }, true)
    start = core.wall_ns()
    return p and true, why, errno
  end)
  local wall = start and core.wall_ns() - start
  if not ended then
    if p then p:close() end
    return nil, message, code
  end
  local list, lacking = entries_of(p)
  p:close()
  return { entries = with_lacking(list, lacking, asked), wall_ns = wall, source = "software" }, ended
end

-- The profilers of a process's threads, or of all CPUs.
local function open_all(opts, events)
  local all, targets = {}, {}
  if opts.pid then
    local tids, message, code = require "perf.recorder_state".threads(opts.pid)
    if not tids then return nil, code == "ESRCH" and ("no process %d"):format(opts.pid) or message, code end
    for i, tid in ipairs(tids) do targets[i] = { pid = tid, inherit = true } end
  else
    local _, online = host.cpus "online"
    for i, cpu in ipairs(require "perf.set".parse_cpus(online or "0")) do targets[i] = { pid = -1, cpu = cpu } end
  end
  local lacking
  for _, target in ipairs(targets) do
    local p, message, code = profiler(events, target)
    if not p and code ~= "ESRCH" then
      for _, other in ipairs(all) do other:close() end
      return nil, message, code
    end
    all[#all + 1] = p
    lacking = lacking or p and p.missing
  end
  if #all == 0 then return nil, ("process %d has ended"):format(opts.pid), "ESRCH" end
  return all, lacking
end

local function from_others(opts, events, words, here)
  local all, lacking, code = open_all(opts, events)
  if not all then return nil, lacking, code end
  for _, p in ipairs(all) do p:enable() end
  local start, ended, message = core.wall_ns(), { exit = 0 }, nil
  if #words > 0 then
    ended, message, code = run.run(run.program(here, words))
  else
    say.progress "counting; ^C ends it"
    local waited, signal = run.wait(opts.timeout, function()
      return opts.pid and not host.readable(("/proc/%d/stat"):format(opts.pid))
    end)
    say.progress()
    ended = waited and signal and { signal = signal } or ended
  end
  local wall, lists = core.wall_ns() - start, {}
  for i, p in ipairs(all) do
    p:disable()
    lists[i] = entries_of(p)
    p:close()
  end
  if not ended then return nil, message, code end
  return { entries = with_lacking(add_up(lists), lacking, opts.event), wall_ns = wall, source = "software" }, ended
end

---------------------------------------------------------------------------------------------------------------------
-- Text

local function text_of(result, title, opts)
  local c = counts.plain(result.entries, result.wall_ns, result.source)
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

local function mean_of(values)
  local sum, square = 0, 0
  for _, v in ipairs(values) do sum = sum + v end
  local mean = sum / #values
  for _, v in ipairs(values) do square = square + (v - mean) ^ 2 end
  -- Of the mean: what chance alone moves it by.
  local spread = #values > 1 and math.sqrt(square / (#values - 1) / #values) or 0
  return mean, mean ~= 0 and 100 * spread / mean or 0
end

local function amount(v, unit)
  if unit == "ns" then return format.ns(v) end
  return format.commas(v < 1000 and math.floor(v * 100 + 0.5) / 100 or math.floor(v + 0.5)) .. "   "
end

local function text_of_several(results, title)
  local rows, walls = {}, {}
  for i, e in ipairs(results[1].entries) do
    local values = {}
    for _, r in ipairs(results) do
      local other = r.entries[i]
      if other and other.value then values[#values + 1] = tonumber(other.value) end
    end
    local mean, spread = mean_of(values)
    rows[i] = #values > 0 and { "  " .. amount(mean, e.unit), e.label, ("+- %.2f %%"):format(spread) }
      or { "  <not counted>   ", e.label, e.why or "" }
  end
  for i, r in ipairs(results) do walls[i] = tonumber(r.wall_ns) end
  local wall, spread = mean_of(walls)
  return ("\n%s, mean of %d runs:\n\n%s\n\n  %s elapsed  +- %.2f %%\n"):format(title, #results,
    format.align(rows, { true }), format.ns(wall), spread)
end

local function deliver(text, json, opts)
  if not opts.output then
    io.stderr:write(text, "\n")
    return true
  end
  if opts.output == "-" then return say.out(text .. "\n") end
  local ok, message, code = require "perf.report.file".write(opts.output, function(put)
    put(opts.output:find "%.json$" and json() .. "\n" or text)
  end)
  if not ok then io.stderr:write(text, "\n") end -- not lost
  return ok, message, code
end

--- Run the command. @return exit status; or nil, message, code
function M.run(opts, words, here)
  local others = opts.pid or opts["all-cpus"]
  if opts.pid and opts["all-cpus"] then return nil, "options -p and -a exclude each other", "USAGE" end
  if not others and #words == 0 then return nil, "what is to be run? luaperf stat script.lua", "USAGE" end
  if opts.timeout and (not others or #words > 0) then return nil, "--timeout goes with -p or -a, without a program", "USAGE" end
  if opts["repeat"] and others then return nil, "-r goes with a script or a program", "USAGE" end
  if opts.output and opts.output ~= "-" then -- before an hour's run rather than after it
    local out, message, code = core.output(opts.output)
    if not out then return nil, message, code end
    out:close()
  end
  local script = not others and run.is_script(words[1])
  local events = not script and require "perf.group".events_of(opts.event or default_events())
  local results, ended, message, code = {}, nil, nil, nil
  local runs = opts["repeat"] or 1
  for i = 1, runs do
    local result
    if runs > 1 then say.progress(("run %d of %d"):format(i, runs)) end
    if others then
      result, ended, code = from_others(opts, events, words, here)
    elseif script then
      result, ended, code = from_script(words, opts, here)
    else
      result, ended, code = from_program(words, events, opts.event)
    end
    if not result then
      message = ended
      break
    end
    if not result.entries then -- it was killed, or could not be counted and has said why
      if ended.signal then say.error(("%s: killed by signal %d, and its counts with it"):format(words[1], ended.signal)) end
      return run.status(ended)
    end
    results[i] = result
    if run.status(ended) ~= 0 then break end
  end
  if runs > 1 then say.progress() end
  if message then return nil, message, code end
  local title = opts.pid and #words == 0 and "process " .. opts.pid or #words > 0 and table.concat(words, " ") or "all CPUs"
  local text, c = text_of(results[1], title, opts)
  if #results > 1 then text = text_of_several(results, title) end
  local ok
  ok, message, code = deliver(text, function()
    if #results == 1 then return c:json() end
    return require "perf.json".encode { runs = results }
  end, opts)
  if not ok then return nil, message, code end
  return run.status(ended)
end

return M
