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
require "perf.event" -- the methods of events
local open = require "perf.event.open"
local checks = require "perf.api.check"
local argument = require "perf.base.argument"
local modifiers = require "perf.names.modifiers"

local M = {}

local DEFAULT_FREQ = 999
local MOST_FREQ, LEAST_PERIOD = 20000, 50000 -- limits for clocks
local TIMELINE = 100000 -- samples

-- Options -------------------------------------------------------------------------------------------------------------

local check_options = checks.options "perf.profiler"

-- The event -----------------------------------------------------------------------------------------------------------

local software, is_clock = open.software_config, open.is_clock
local function is_breakpoint(attr) return attr.type == 5 or attr.type == "breakpoint" end
local numbers = { -- the system calls rt_sigreturn and process_vm_readv
  x86_64 = { 15, 310 }, aarch64 = { 139, 270 }, riscv64 = { 139, 270 } }

-- Whether the signal handler may make system calls. It may not if the profiled event counts them: each signal would cause another
-- one. For a tracepoint or a probe this is tested, more than once, since other activity may cause the event.
local function may_ask(spec, attr, filter, method)
  if software(attr) or open.is_hardware(attr) or is_breakpoint(attr) then return true end
  local counting = copy(attr)
  for _, field in ipairs { "sample_period", "sample_freq", "freq", "sample_type", "sigtrap", "remove_on_exec", "sig_data" } do
    counting[field] = nil
  end
  local ev = open.attr({ label = spec.label }, counting, {})
  local counted = ev and (not filter or ev:set_filter(filter)) and 1 or nil
  for _ = 1, counted and 3 or 0 do
    if counted ~= 0 then counted = ev:measure(core.handler_call, method == "registers").value end
  end
  if ev then ev:close() end
  return counted == 0
end

-- Set the period or frequency: that of the options, else the event's own, else a default by its kind. For events other than
-- clocks and hardware counters the default is a sample of every occurrence.
-- @return the requested rate if a clock's limit changed it
local function set_rate(attr, opts)
  if opts.period then
    attr.sample_period, attr.sample_freq, attr.freq = opts.period, nil, nil
  elseif opts.freq then
    attr.sample_freq, attr.sample_period = opts.freq, nil
  elseif not (attr.sample_period or attr.sample_freq) then
    if is_clock(attr) or open.is_hardware(attr) then attr.sample_freq = DEFAULT_FREQ else attr.sample_period = 1 end
  end
  if not is_clock(attr) then return end
  -- With less time between two signals their handler would leave none to the program, which would never end.
  local requested = math.floor(tonumber(attr.sample_freq or attr.sample_period))
  if attr.sample_freq then attr.sample_freq = math.min(requested, MOST_FREQ) end
  if attr.sample_period then attr.sample_period = math.max(requested, LEAST_PERIOD) end
  return requested ~= (attr.sample_freq or attr.sample_period) and requested or nil
end

-- A filter that excludes our own system calls: the return from the signal handler would be a sample and cause another signal, and
-- so would the call that the handler makes on LuaJIT if the stack is taken at a safe point.
local function filter_of(label, opts, method)
  local number = label:find "^raw_syscalls:" and numbers[select(2, core.uname())]
  local own = number and ("id >= 0 && id != %d"):format(number[1])
  if own and rawget(_G, "jit") and method ~= "registers" then own = ("%s && id != %d"):format(own, number[2]) end
  if own and opts.filter then return ("(%s) && %s"):format(opts.filter, own) end
  return own or opts.filter
end

-- "registers" or "safe point", and why the latter.
local function method_of(opts)
  if opts.coroutines == "creator" then return "safe point", "only there Lua tells which stack made a coroutine" end
  local ok, why = core.unwinds()
  if ok then return "registers" end
  return "safe point", why
end

local never = { ["syscalls:sys_enter_rt_sigreturn"] = true, ["syscalls:sys_exit_rt_sigreturn"] = true }

-- The attr of an event, the weight of its samples ("exact", "switches" or nil), and the result of set_rate.
local function prepare(spec, opts)
  local attr = copy(spec.attrs[1])
  local requested = set_rate(attr, opts)
  attr.disabled, attr.read_format, attr.inherit = true, {}, nil
  attr.sigtrap, attr.remove_on_exec, attr.sig_data = true, true, core.profiler_number()
  attr.sample_type = opts.native and { "read", "callchain" } or { "read" }
  if opts.timeline then
    for _, what in ipairs { "time", "addr", "cpu" } do table.insert(attr.sample_type, what) end
    attr.use_clockid, attr.clockid = true, "monotonic"
  end
  if software(attr) == 3 and not (opts.period or spec.attrs[1].sample_period) then
    attr.sample_type = { "tid", "time", "read", "cpu", opts.native and "callchain" or nil }
    attr.sample_period, attr.sample_freq, attr.freq = 1, nil, nil
    attr.context_switch, attr.sample_id_all = true, true
    return attr, "switches"
  end
  return attr, attr.sample_period == 1 and "exact" or nil, requested
end

-- Whether the event's name, or its attr, asks for the kernel.
local function names_kernel(label, attr)
  local letters = label:match "[:/](%a+)$"
  return attr.exclude_user or letters and not modifiers.check(letters) and letters:find "k" ~= nil
end

-- Open the event: without the kernel if that is not permitted and the event does not ask for it; with the descriptor's signal if
-- the kernel has no sigtrap.
local function open_event(spec, attr, weighed)
  local label, by_descriptor = spec.label, false
  local why = open.no_count_reason(attr)
  if why then return nil, label .. ": " .. why, "EACCES" end
  -- arm64 reports a breakpoint before the instruction runs, and the kernel lets it run only if no signal comes first: after the
  -- handler the same breakpoint would be reported again, forever.
  if is_breakpoint(attr) and select(2, core.uname()) == "aarch64" then
    return nil, label .. ": arm64 cannot continue after a signal at a breakpoint; read the event's samples from its ring instead",
      "ENOTSUP"
  end
  local function try() return open.attr({ label = label, unit = spec.unit, scale = spec.scale }, attr, {}) end
  local ev, message, code = try()
  if not ev and code == "EACCES" and not attr.exclude_kernel and not names_kernel(label, attr) then
    attr.exclude_kernel = true
    local again = not open.no_count_reason(attr) and try()
    if again then
      ev = again
      if not is_clock(attr) then label = label .. (label:find ":%a+$" and "u" or ":u") end
    end
  end
  if not ev and (code == "EINVAL" or code == "E2BIG") and weighed ~= "switches" then
    attr.sigtrap, attr.remove_on_exec, attr.sig_data = nil, nil, nil
    ev = try()
    by_descriptor = ev ~= nil
  end
  if not ev then return nil, message, code end
  return ev, label, by_descriptor
end

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
  for from, to, _, _, _, _, _, path in require "perf.kernel.host".maps() do
    if path:sub(1, 1) == "/" then
      from, to = tonumber(from, 16), tonumber(to, 16)
      local range = of[path] or { from, to }
      range[2], of[path] = to, range
      if here >= from and here < to then found = range end
    end
  end
  return found[1], found[2]
end

-- Open event and sampler for the next start.
local function arm(self)
  local attr, weighed, requested = prepare(self.spec, self.opts)
  local ev, label, by_descriptor = open_event(self.spec, attr, weighed)
  if not ev then return nil, label, by_descriptor end
  local method, why = method_of(self.opts)
  local filter = filter_of(self.spec.label, self.opts, method)
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
    native = self.opts.native, may_ask = may_ask(self.spec, attr, filter, method), by_descriptor = by_descriptor,
    coroutines = self.opts.coroutines, hidden = hidden, safe_point = method ~= "registers",
    freq = attr.sample_freq or is_clock(attr) and math.floor(1e9 / attr.sample_period) or nil,
    code_start = from, code_end = to, timeline = self.opts.timeline == true and TIMELINE or self.opts.timeline or 0 })
  if not sampler then
    ev:close()
    return nil, label .. ": " .. message, code
  end
  self.ev, self.sampler, self.label, self.attr, self.method, self.why = ev, sampler, label, attr, method, why
  self.requested = requested
  self.unit = (weighed == "switches" or is_clock(attr)) and "ns" or self.spec.unit or ""
  return true
end

local function disarm(self)
  if self.sampler then self.sampler:close() end
  if self.ev then self.ev:close() end
  self.sampler, self.ev = nil, nil
end

-- The check is made here, since this file's functions are hidden: a profile shows nothing of its own stop.
local function check(p, method)
  return getmetatable(p) == Profiler and p or argument.check_object(p, Profiler, "Profiler", method)
end

--- Start profiling. The event counts the calling thread.
-- @treturn boolean true @fails "EBUSY" when it runs already, or 64 others do; at safe points also when another profiler of this
-- process runs, or LuaJIT's own
function Profiler:start()
  check(self, "start")
  if self.closed then argument.raise_in_method("start", "Profiler is closed", 1) end
  local state = self.sampler and self.sampler:state()
  if state == "running" then return nil, "the profiler is running already", "EBUSY" end
  if state ~= "new" then
    disarm(self)
    local ok, message, code = arm(self)
    if not ok then return nil, message, code end
  end
  self.started, self.pid, self.tid = core.unix_time(), core.pid()
  local ok, message, code = self.sampler:start()
  if not ok then return nil, self.label .. ": " .. message, code end
  return true
end

local gives_up = _VERSION == "Lua 5.1" -- LuaJIT too has this version

local function profile_of(self) return require("perf.profile.collect").make(self, self.sampler:result()) end

--- Stop profiling; return the Profile.
-- @treturn Profile @fails "EINVAL" if it is not running; "ECHILD" in the child of a fork, which is not profiled
function Profiler:stop()
  local state = check(self, "stop").sampler and self.sampler:state()
  -- "stopped": the state is being closed, and has stopped it before
  if state ~= "running" and state ~= "inherited" and state ~= "stopped" then
    return nil, state == "closed" and "the profiler was closed with its Lua state" or "the profiler is not running", "EINVAL"
  end
  local ok, message, code = self.sampler:stop()
  if state == "inherited" then
    disarm(self)
    return nil, core.inherited "Profiler", "ECHILD"
  end
  if not ok then
    disarm(self)
    return nil, self.label .. ": " .. message, code
  end
  local made, prof = pcall(profile_of, self)
  -- LuaJIT and Lua 5.1 do not collect before they give up. The others do; and on Lua 5.3 a collection may not end in a finalizer
  -- while the state is being closed.
  if not made and gives_up and tostring(prof):find("not enough memory", 1, true) then
    collectgarbage()
    made, prof = pcall(profile_of, self)
  end
  if not made then error(prof, 0) end
  disarm(self)
  return prof
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
  disarm(check(self, "close"))
  self.closed = true
end
argument.check_methods(Profiler, "Profiler", "is_running")
Profiler.__close = Profiler.close

local function new(opts)
  opts = check_options(type(opts) == "string" and { event = opts } or opts, 1)
  local spec, message, code = require("perf.names").resolve(opts.event)
  if not spec then return nil, message, code end
  if #spec.attrs > 1 then
    return nil, ("%s: is counted by %d PMUs of this machine: name it with its PMU"):format(spec.label, #spec.attrs), "EINVAL"
  end
  if never[spec.label] then
    return nil, spec.label .. ": the profiler's signal handler ends with this call, which would be profiled again, without end",
      "EINVAL"
  end
  local self = setmetatable({ opts = opts, spec = spec }, Profiler)
  local ok
  ok, message, code = arm(self)
  if not ok then return nil, message, code end
  return self
end

--- Make a Profiler, to profile from its start() to its stop().
-- @tparam[opt] string|table options the options, or (since 0.2.0) the name of the event
-- @treturn Profiler @fails
-- @raise for an unknown event or option
function M.profiler(opts)
  local p, message, code = new(opts) -- not a tail call, so that an error has this function's name
  return p, message, code
end

-- Make a Profiler and start it.
-- @return Profiler; or nil, message, code. Raises for an unknown event or option
function M.started(opts)
  local p, message, code = new(opts)
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
-- @tparam[opt] string|table options the options, or (since 0.2.0) the name of the event
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
  argument.check_callable((...), 2)
  local p, message, code = M.started(opts)
  if not p then return nil, message, code end
  return finish(p, pcall(...))
end

return M
