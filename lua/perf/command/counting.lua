-- The counting of luaperf stat: from the begin of a script, a program, processes or CPUs to their end, or by intervals.
--
-- A result is {parts=, wall_ns=, at=}: `at` is the time in seconds from the begin to the end of an interval. A part is
-- {entries=, name=, key=, id=}; `name` is nil if there is one part for everything, otherwise "CPU0" or "luajit-1234", `key` "cpu"
-- or "thread", and `id` its value in JSON.
local attempt = require "perf.base.attempt"
local core = require "perf.core"
local counters = require "perf.command.counters"
local host = require "perf.kernel.host"
local run = require "perf.command.run"
local terminal = require "perf.command.terminal"
local threads = require "perf.event.threads"

local M = {}

local try, refuse = attempt.try, attempt.refuse

function M.warn_of_start(script, why)
  terminal.error(("%s: the counts include the start of the interpreter, since the start of the script is unknown: %s")
    :format(script, why))
end

-- The results of the intervals, and of the whole time.
local Clock = {}
Clock.__index = Clock

-- @func read returns the parts since an earlier state, or since the begin; and the state
-- @tab opts the options of luaperf stat, with `tell`: called with the result of each interval, if there are intervals
local function clock(read, opts)
  local self = setmetatable({ read = read, tell = opts.tell }, Clock)
  self.beat = opts.tell and run.beat(opts.interval / 1000, function() self:interval() end) or nil
  return self
end

function Clock:start(state)
  self.began, self.first = core.wall_ns(), state
  self.last, self.state = self.began, state
  if self.beat then self.beat:start(self.began) end
end

function Clock:interval()
  local now = core.wall_ns()
  local parts, state = self.read(self.state)
  self.tell { parts = parts, wall_ns = now - self.last, at = (now - self.began) / 1e9 }
  self.last, self.state = now, state
end

-- The result of the whole time; tells the last interval.
function Clock:stop()
  local wall = core.wall_ns() - self.began
  if self.tell then self:interval() end
  return { parts = (self.read(self.first)), wall_ns = wall }
end

-- Wait until the interpreter is about to open the script; returns the counters' values and true at that moment.
local function at_script(process, script, all)
  local opened, message, code = process:until_open(script)
  if opened == nil then refuse(message, code) end
  if not opened then return nil, false, process:wait() == false end
  return all:values(), true
end

-- Count a program from its exec on; a script, if possible, from the moment when it is opened.
-- @tab argv the command line
-- @string[opt] script the script in it
-- @tab events the result of counters.resolve
-- @tab opts the options of luaperf stat; `all`: whether the result has the events that could not be opened
-- @return a result, with `unopened`: whether the script's begin was missed; and how the program ended. Or nil, message, code
function M.program(argv, script, events, opts)
  local all, time, traced, unopened
  local hooks = {}
  local function read(before)
    local values = all:values()
    return { { entries = all:entries(opts.all or all:refused(), values, before) } }, values
  end
  time = clock(read, opts)
  hooks.beat = time.beat
  function hooks.opened(process)
    all = try(counters.open(events, { pid = process:pid(), inherit = not opts.no_inherit }, true))
    if script then
      local why
      traced, why = process:trace()
      if not traced then M.warn_of_start(script, why) end
    end
    time:start()
  end
  function hooks.started(process)
    local values, opened
    if traced then values, opened, unopened = at_script(process, script, all) end
    if opened then
      time:start(values)
      process:go_on()
    end
  end
  local ended, message, code = run.run(argv, hooks)
  local result = ended and time:stop()
  if all then all:close() end
  if not ended then return nil, message, code end
  result.unopened = unopened
  return result, ended
end

-- The counters of a target; nil, message, code also if all events were refused for lack of permission.
local function open_one(events, target)
  local one, message, code = counters.open(events, target)
  if one then message, code = one:refused() end
  if one and not message then return one end
  if one then one:close() end
  return nil, message, code
end

local function thread_part(tid)
  local name = host.line(("/proc/%d/comm"):format(tid)) or "?"
  return { name = ("%s-%d"):format(name, tid), key = "thread", id = ("%s-%d"):format(name, tid) }
end

-- The counters of all threads of processes and of their children, or of CPUs: an array, and an array of parts without entries.
local function open_all(opts, events)
  local list, parts = {}, {}
  if opts.pid then
    local message, code
    list, message, code = threads.open(opts.pid, not opts.no_inherit, function(tid, opened)
      local one, why, errno = open_one(events, { pid = tid, inherit = not opts.no_inherit })
      if one then parts[#opened + 1] = thread_part(tid) end
      return one, why, errno
    end)
    return list, parts, message, code
  end
  for i, cpu in ipairs(opts.on or host.cpus "online" or { 0 }) do
    local message, code
    list[i], message, code = open_one(events, { pid = -1, cpu = cpu })
    parts[i] = { name = "CPU" .. cpu, key = "cpu", id = tostring(cpu) }
    if not list[i] then
      for k = 1, i - 1 do list[k]:close() end
      return nil, nil, message, code
    end
  end
  return list, parts
end

-- Count processes or CPUs, until the given program ends, for the timeout, until an interrupt, or until the processes have ended.
-- @tab opts the options of luaperf stat; `separate`: whether each thread or CPU has a part; `on`: the CPUs
-- @tab[opt] argv the program
-- @return as for `program`
function M.others(opts, events, argv)
  local all, named, why, errno = open_all(opts, events)
  if not all then refuse(why, errno) end
  local function read(before)
    local lists, state = {}, {}
    for i, one in ipairs(all) do
      state[i] = one:values() or false
      lists[i] = one:entries(true, state[i] or nil, before and before[i] or nil)
    end
    if not opts.separate then return { { entries = counters.add_up(lists, opts.all) } }, state end
    local parts = {}
    for i, part in ipairs(named) do
      parts[i] = { name = part.name, key = part.key, id = part.id, entries = counters.add_up({ lists[i] }, opts.all) }
    end
    return parts, state
  end
  local time = clock(read, opts)
  local ended, message, code = { exit = 0 }, nil, nil
  time:start() -- first, so that no thread seems to use more than a CPU
  for _, one in ipairs(all) do one:enable() end
  if argv then
    ended, message, code = run.run(argv, { beat = time.beat })
  else
    if not opts.tell then terminal.progress "counting; ^C ends it" end
    local signal = run.wait(opts.timeout, function()
      return opts.pid and not host.any_runs(opts.pid)
    end, time.beat)
    terminal.progress()
    ended = signal and { signal = signal } or ended
  end
  for _, one in ipairs(all) do one:disable() end
  local result = ended and time:stop()
  for _, one in ipairs(all) do one:close() end
  if not ended then return nil, message, code end
  return result, ended
end

return M
