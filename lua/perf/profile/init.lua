--- Profile any event by Lua line.
--
--     local prof = perf.profile({event = "page-faults", period = 1}, fn, ...)
--     print(prof)
--
-- @module perf.profile The event signals the thread that it counts at each overflow. The signal's handler unwinds the stack of
-- the interrupted code, and adds the event's count since the previous sample to it. Where the interpreter's structures are not
-- known, the stack is taken at its next safe point. See csrc/core/profile/sampler.h, csrc/binding/stack.
local copy = require "perf.base.copy"
local core = require "perf.core"
local late = require "perf.base.late"
require "perf.event" -- the methods of events
local is_clock = require "perf.event.open".is_clock
local checks = require "perf.api.check"
local argument = require "perf.base.argument"
local strict = require "perf.api.strict"
local event = require "perf.profile.event"

local M = {}

local TIMELINE = 100000 -- samples
local ALLOCATION_PERIOD = 2 ^ 19 -- bytes

-- These events are blocks of the Lua state's allocator: "alloc", each one; "heap", those that are not freed.
local allocations = { alloc = true, heap = true }

-- Options -------------------------------------------------------------------------------------------------------------

local row_of_pid = checks.rows "perf.profiler".pid

-- A process, or an array of them.
local function wrong_pid(v)
  local list = type(v) == "table" and v or { v }
  if #list == 0 then return "an empty list" end
  for _, pid in ipairs(list) do
    if type(pid) ~= "number" or checks.wrong_number(row_of_pid, pid) then
      return ("%s expected, got %s"):format(checks.number(row_of_pid), tostring(pid))
    end
  end
end

local check_options = checks.options("perf.profiler", { pid = wrong_pid, filter = checks.filter })

-- Profiler ------------------------------------------------------------------------------------------------------------

--- Profiles the thread that starts it, from `start` to `stop`; a fork's child is not profiled. Up to 64 can run at once, in one
-- thread or in many, if stacks are unwound (`Profile.method`). Only one in a process can take them at safe points.
-- @type Profiler
local Profiler = {}
Profiler.__index = Profiler
Profiler.__name = "perf.Profiler"

-- The sources whose frames are between the program and a function that it profiles or runs in a zone.
local hidden = { debug.getinfo(1, "S").source, debug.getinfo(require "perf.profile.zone".zone, "S").source }

-- The first and last address of the interpreter's code, by the mappings of the process.
local function interpreter_code()
  local here, of, found = core.object_address(), {}, {}
  for from, to, _, _, _, _, _, path in late "perf.kernel.host".maps() do
    if path:sub(1, 1) == "/" then
      from, to = tonumber(from, 16), tonumber(to, 16)
      local range = of[path] or { from, to }
      range[2], of[path] = to, range
      if here >= from and here < to then found = range end
    end
  end
  return found[1], found[2]
end

-- Make the sampler of other processes for the next start.
local function arm_outside(self)
  local attr = copy(self.spec.attrs[1])
  local requested = event.set_rate(attr, self.opts)
  local kind = event.outside_kind(self.spec.attrs[1], self.opts)
  if kind == "switch" then attr.sample_period, attr.sample_freq, attr.freq = 1, nil, nil end
  local session, message, code = late "perf.outside".open(self.spec, attr, self.opts.pid,
    { alone = self.opts.coroutines ~= "resumer", kind = kind, native = self.opts.native })
  if not session then return nil, message, code end
  self.ev, self.sampler, self.label, self.attr, self.method = nil, session, self.spec.label, attr, "registers"
  self.requested = requested
  self.unit = (kind == "switch" or is_clock(attr)) and "ns" or self.spec.unit or ""
  return true
end

-- The same for allocations, which are not events of the kernel.
local function arm_allocations(self)
  local ok, why = core.unwinds()
  if not ok then return nil, self.spec.label .. ": " .. why, "ENOTSUP" end
  local period = self.opts.period or ALLOCATION_PERIOD
  local sampler, message, code = core.profiler(nil, { every = period, live = self.spec.label == "heap",
    survived = self.opts.survived or 0, coroutines = self.opts.coroutines, hidden = hidden })
  if not sampler then return nil, self.spec.label .. ": " .. message, code end
  self.sampler, self.label, self.attr = sampler, self.spec.label, { sample_period = period }
  self.method, self.unit = "registers", "bytes"
  return true
end

-- "registers" or "safe point", and why the latter.
local function method_of(opts)
  if opts.coroutines == "creator" then return "safe point", "only there Lua tells which stack made a coroutine" end
  local ok, why = core.unwinds()
  if ok then return "registers" end
  return "safe point", why
end

-- Open the event, and make the sampler for the next start.
local function arm(self)
  if self.opts.pid then return arm_outside(self) end
  if allocations[self.spec.label] then return arm_allocations(self) end
  local attr, weighed, requested = event.prepare(self.spec, self.opts)
  local ev, label, by_descriptor = event.open(self.spec, attr, weighed)
  if not ev then return nil, label, by_descriptor end
  local method, why = method_of(self.opts)
  local filter = event.filter(self.spec.label, self.opts, method)
  if filter then
    local ok, message, code = ev:set_filter(filter)
    if not ok then
      ev:close()
      return nil, message, code
    end
  end
  local from, to
  if self.opts.native then from, to = interpreter_code() end
  local sampler, message, code = core.profiler(ev, { exact = weighed == "exact", switches = weighed == "switches",
    native = self.opts.native, may_ask = event.may_ask(self.spec, attr, filter, method), by_descriptor = by_descriptor,
    coroutines = self.opts.coroutines, hidden = hidden, safe_point = method ~= "registers",
    freq = attr.sample_freq or is_clock(attr) and math.floor(1e9 / attr.sample_period) or nil,
    code_start = from, code_end = to, timeline = self.opts.timeline == true and TIMELINE or self.opts.timeline or 0 })
  if not sampler then
    ev:close()
    return nil, label .. ": " .. message, code
  end
  self.ev, self.sampler, self.label, self.attr, self.method, self.why = ev, sampler, label, attr, method, why
  self.requested, self.user_only = requested, is_clock(attr) and ev:info().attr.exclude_kernel == true or nil
  self.unit = (weighed == "switches" or is_clock(attr)) and "ns" or self.spec.unit or ""
  return true
end

local function disarm(self)
  if self.sampler then self.sampler:close() end
  if self.ev then self.ev:close() end
  if self.names then self.names:close() end
  self.sampler, self.ev, self.names = nil, nil, nil
end

-- The check is made here, since this file's functions are hidden: a profile shows nothing of its own stop.
local function check(p, method)
  return getmetatable(p) == Profiler and p or argument.check_object(p, Profiler, "Profiler", method)
end

local gives_up = _VERSION == "Lua 5.1" -- LuaJIT too has this version

-- Call a function of a profiler, in which finalizers and hooks of the program may run. They cannot change the profiler: if one of
-- them closes it, it is closed when the function has ended. The function may be called twice; here, since each call of a function
-- may need memory for the stack.
local function alone(self, fn)
  if self.busy then
    return nil, "the profiler is being started, stopped or read: a finalizer or hook cannot call it now", "EBUSY"
  end
  self.busy = true
  local ok, result, message, code = pcall(fn, self)
  -- LuaJIT and Lua 5.1 do not collect before they give up. The others do; and on Lua 5.3 a collection may not end in a finalizer
  -- while the state is being closed.
  if not ok and gives_up and tostring(result):find("not enough memory", 1, true) then
    collectgarbage()
    ok, result, message, code = pcall(fn, self)
  end
  self.busy = false
  if self.closed then disarm(self) end
  if not ok then error(result, 0) end
  if result then return result end -- alone, for print(p:stop())
  return nil, message, code
end

local function start(self)
  local state = self.sampler and self.sampler:state()
  if state == "running" then return nil, "the profiler is running already", "EBUSY" end
  if state ~= "new" then
    disarm(self)
    local ok, message, code = arm(self)
    if not ok then return nil, message, code end
  end
  late "perf.profile.collect" -- at the stop there may be no memory left to load it
  self.started, self.pid, self.tid = core.unix_time(), core.pid()
  self.before = nil
  self.pids = self.opts.pid
  if self.pids then self.pid, self.tid = self.pids[1], self.pids[1] end
  local ok, message, code = self.sampler:start()
  if not ok then return nil, self.label .. ": " .. message, code end
  if self.closed then return nil, self.label .. ": a finalizer or hook has closed the profiler meanwhile", "ECANCELED" end
  return true
end

--- Start profiling. The event counts the calling thread.
-- @treturn boolean true @fails "EBUSY" when it runs already, or 64 others do; at safe points also when another profiler of this
-- process runs, or LuaJIT's own; "ECANCELED" if a finalizer or hook closes it meanwhile; "ENOSPC" if the program has set more
-- than sixteen different actions of SIGTRAP; "EPERM" if a filter of system calls refuses the library's handler of SIGTRAP
function Profiler:start()
  if check(self, "start").closed then argument.raise_in_method("start", "Profiler is closed", 1) end
  return alone(self, start)
end

-- The Profile of what is new in a result of the sampler.
local function profile_of(self, found)
  local prof = late("perf.profile.collect").make(self, late "perf.profile.since"(found, self.before))
  self.before = found
  self.started = prof.started + tonumber(prof.duration_ns) / 1e9
  return prof
end

local function result_of(self) return profile_of(self, self.sampler:result()) end

local function found_by_snapshot(self)
  local found, message, code = self.sampler:snapshot()
  if not found then return nil, ("%s: %s"):format(self.label, message), code end
  return found
end

local function snapshot_of(self)
  local found, message, code = found_by_snapshot(self)
  if not found then return nil, message, code end
  return profile_of(self, found)
end


-- Make a Profile while the event, or the sampling of allocations, rests.
local function at_rest(self, make)
  local ok, message, code = true, nil, nil
  if self.ev then ok, message, code = self.ev:disable() end
  if not ok then return nil, message, code end
  local made, prof, why, errno = pcall(make, self)
  if self.ev then ok, message, code = self.ev:enable() end
  if allocations[self.spec.label] then self.sampler:resume() end
  if not made then error(prof, 0) end
  if not ok then return nil, message, code end
  return prof, why, errno
end

local function snapshot(self) return at_rest(self, snapshot_of) end

local function make_of(self, found) return late("perf.profile.collect").make(self, found) end

-- A host that sets `pause` does other work while the Profile is made: its blocks are sampled.
local function alive(self)
  local found, message, code = found_by_snapshot(self)
  if not found or self.pause then return found, message, code end
  return make_of(self, found)
end

local function live(self)
  local result, message, code = at_rest(self, alive)
  if result and self.pause then return make_of(self, result) end
  return result, message, code
end

-- Why a running profiler cannot be asked for a Profile by a method: message, code.
local function not_running(self, method)
  local state = check(self, method).sampler and self.sampler:state()
  if state == "inherited" then return core.inherited "Profiler", "ECHILD" end
  if state ~= "running" then return "the profiler is not running", "EINVAL" end
end

--- Return the Profile of the time since the start, or since the last snapshot, and go on. The Profiles of all snapshots and
-- that of the stop add up to the whole. What was counted after the last sample belongs to the next one; the work of
-- making the Profile belongs to none.
-- @treturn Profile @fails "EINVAL" if it is not running; "EBUSY" in a finalizer or hook that runs during another call of it;
-- "ECHILD" in the child of a fork; "EPERM" in another thread than the one that it profiles; "ENOTSUP" for heap
function Profiler:snapshot()
  local why, code = not_running(self, "snapshot")
  if why then return nil, why, code end
  if self.spec.label == "heap" then
    return nil, "heap: memory that is freed leaves a profile, so there are no parts that add up: p:live() shows what is alive",
      "ENOTSUP"
  end
  return alone(self, snapshot)
end

--- Return the Profile of the memory that is alive now, and go on; for the event heap. It has only memory that was allocated since
-- the start. Nothing that is allocated while the Profile is made is in it, or in a later one.
-- @treturn Profile @fails "EINVAL" if it is not running; "EBUSY" in a finalizer or hook that runs during another call of it;
-- "ECHILD" in the child of a fork; "EPERM" in another thread than the one that it profiles; "ENOMEM" if memory was
-- refused for the count of collections or the sums; "ENOTSUP" for other events
function Profiler:live()
  local why, code = not_running(self, "live")
  if why then return nil, why, code end
  if self.spec.label ~= "heap" then return nil, self.spec.label .. ": only the event heap has live memory", "ENOTSUP" end
  return alone(self, live)
end

local function stop(self)
  local inherited = self.sampler:state() == "inherited"
  local ok, message, code = self.sampler:stop()
  if inherited then
    disarm(self)
    return nil, core.inherited "Profiler", "ECHILD"
  end
  if not ok then
    disarm(self)
    return nil, self.label .. ": " .. message, code
  end
  local prof = result_of(self)
  disarm(self)
  return prof
end

--- Stop profiling; return the Profile.
-- @treturn Profile @fails "EINVAL" if it is not running; "EBUSY" in a finalizer or hook that runs during another call of it;
-- "ECHILD" in the child of a fork, which is not profiled
function Profiler:stop()
  local state = check(self, "stop").sampler and self.sampler:state()
  -- "stopped": the state is being closed, and has stopped it before
  if state ~= "running" and state ~= "inherited" and state ~= "stopped" then
    return nil, state == "closed" and "the profiler was closed with its Lua state" or "the profiler is not running", "EINVAL"
  end
  return alone(self, stop)
end

--- Whether it is running, in this process.
-- @treturn boolean
function Profiler:is_running()
  return self.sampler ~= nil and self.sampler:state() == "running"
end

function Profiler:__tostring()
  local attr = self.attr
  local how = attr.sample_freq and ("%d Hz"):format(attr.sample_freq) or ("every %s"):format(tostring(attr.sample_period))
  return ("perf.Profiler(%s, %s, %s)"):format(self.label, how, self:is_running() and "running" or "stopped")
end

--- Close the event, and drop the samples so far. Idempotent.
function Profiler:close()
  check(self, "close").closed = true
  if not self.busy then disarm(self) end
end
argument.check_methods(Profiler, "Profiler", "is_running")
Profiler.__close = Profiler.close

-- Why another process cannot be profiled so; nil if it can.
local function outside_refuses(spec, opts)
  local attr = spec.attrs[1]
  for _, pid in ipairs(opts.pid) do
    if pid == core.pid() then return "the own process is profiled without the option 'pid'" end
  end
  if event.is_breakpoint(attr) then
    return "a breakpoint is in the memory of the own process"
  end
  local kind = event.outside_kind(attr, opts)
  if (kind == "tracepoint" or kind == "probe") and (opts.freq or (opts.period or attr.sample_period or 1) ~= 1) then
    return "in another process, a tracepoint or probe is sampled each time"
  end
  if opts.filter then
    return "the option 'filter' is for the own process and for perf.record: a BPF program sees a tracepoint before its filter"
  end
  if opts.timeline then return "the option 'timeline' is for the own process" end
  return opts.coroutines == "creator" and "only Lua in the process itself tells what made a coroutine" or nil
end

-- Why allocations cannot be profiled so; nil if they can.
local function allocations_refuse(opts)
  if opts.pid then
    return ("a process profiles only its own memory: luaperf record -e %s script.lua, or perf.profiler in the program")
      :format(opts.event)
  end
  for _, name in ipairs { "freq", "native", "timeline", "filter" } do
    if opts[name] then return ("the option '%s' is for events of the kernel"):format(name) end
  end
  return opts.coroutines == "creator" and "the stack that made a coroutine is known at safe points only" or nil
end

local function spec_of(opts)
  if opts.survived and opts.event ~= "heap" then argument.raise("the option 'survived' is for the event heap", 1) end
  if not allocations[opts.event] then return late("perf.names").resolve(opts.event) end
  local refused = allocations_refuse(opts)
  if refused then return nil, ("%s: %s"):format(opts.event, refused), "EINVAL" end
  return { label = opts.event, attrs = { {} } }
end

local never = { ["syscalls:sys_enter_rt_sigreturn"] = true, ["syscalls:sys_exit_rt_sigreturn"] = true }

-- The options of a profiler: a table of them, or the event's name, which a table of the others may follow.
local function options_of(opts, others)
  if type(opts) ~= "string" then return check_options(opts, 1) end
  if others == nil then return check_options({ event = opts }, 1) end
  check_options(others, 2)
  if others.event ~= nil then argument.raise("option 'event': the event is the argument before", 2) end
  return check_options(copy(others, { event = opts }), 2)
end

local function new(opts, others)
  opts = options_of(opts, others)
  if type(opts.pid) == "number" then opts.pid = { opts.pid } end
  local spec, message, code = spec_of(opts)
  if not spec then return nil, message, code end
  if #spec.attrs > 1 then
    return nil, ("%s: is counted by %d PMUs of this machine: name it with its PMU"):format(spec.label, #spec.attrs), "EINVAL"
  end
  if never[spec.label] then
    return nil, spec.label .. ": the profiler's signal handler ends with this call, which would be profiled again, without end",
      "EINVAL"
  end
  local refused = opts.pid and outside_refuses(spec, opts)
  if refused then return nil, ("%s: %s"):format(spec.label, refused), "ENOTSUP" end
  -- A field that a stop or close sets exists already: a new one needs memory, and a program without it would lose its profile.
  local self = setmetatable({ opts = opts, spec = spec, busy = false, closed = false }, Profiler)
  local ok
  ok, message, code = arm(self)
  if not ok then return nil, message, code end
  return self
end

--- Make a Profiler, to profile from its start() to its stop().
-- @tparam[opt] string|table event (since 0.2.0) the event's name; a table without a name before it is the options
-- @tparam[opt] table options
-- @treturn Profiler @fails
-- @raise for an unknown event or option
function M.profiler(opts, others)
  local p, message, code = new(opts, others) -- not a tail call, so that an error has this function's name
  if p then return p end
  return nil, message, code
end

-- Make a Profiler and start it.
-- @return Profiler; or nil, message, code. Raises for an unknown event or option
function M.started(opts, others)
  local p, message, code = new(opts, others)
  if not p then return nil, message, code end
  local ok
  ok, message, code = p:start()
  if ok then return p end
  p:close()
  return nil, message, code
end

local function finish(p, ok, ...)
  local prof, message, code = p:stop()
  p:close()
  if not ok then argument.rethrow(...) end
  if not prof then return nil, message, code end
  return prof, ...
end

--- Run a function; return a Profile by Lua line, then its results.
-- @function perf.profile
-- @tparam[opt] string|table event (since 0.2.0) the event's name; a table without a name before it is the options
-- @tparam[opt] table options
-- @tparam function fn its error is raised again unchanged, with the profiler stopped
-- @tparam any ... its arguments
-- @treturn Profile then fn's results @fails and fn is not called
-- @raise for an unknown event or option
function M.profile(opts, ...)
  if type(opts) == "function" then return M.profile({}, opts, ...) end
  argument.check_dot(opts)
  if select("#", ...) == 0 and type(opts) ~= "table" and type(opts) ~= "string" then
    argument.raise("function or table of options expected, got " .. type(opts), 1)
  end
  local others, at = ..., 2
  if type(opts) ~= "string" or type(others) ~= "table" or getmetatable(others) then others, at = nil, 1 end
  argument.check_callable((select(at, ...)), at + 1)
  local p, message, code = M.started(opts, others)
  if not p then return nil, message, code end
  return finish(p, pcall(select(at, ...)))
end

strict.class(Profiler, "Profiler")

return M
