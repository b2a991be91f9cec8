-- Sets: the same events on each CPU, or thread, or cgroup.
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local attempt = require "perf.base.attempt"
local core = require "perf.core"
local counts = require "perf.counts"
local host = require "perf.kernel.host"
local idle = require "perf.event.idle"
local lists = require "perf.names.lists"
local open = require "perf.event.open"
local read_records = require "perf.event.read_records"

local M = {}

local try, refuse, catch = attempt.try, attempt.refuse, attempt.catch

--- Events on many CPUs, threads or cgroups. `#set` and `set[i]` are its Events, which `ipairs` gives on every Lua; it prints as a
-- table of them. On Lua 5.4 `local s <close>` closes it.
-- @type Set
local Set = {}
Set.__index = Set

local function bad(text, ...)
  argument.raise(text:format(...), 2)
end

-- Refuse a hole, at which the list would end, and a CPU that appears twice, which would be counted twice.
local function check_cpus(requested)
  local key, hole = lists.invalid_item(requested)
  if key ~= nil then bad("option 'cpus': an array expected, got the key '%s'", tostring(key)) end
  if hole then bad("option 'cpus': nil at [%d]", hole) end
  local seen = {}
  for _, cpu in ipairs(requested) do
    if not host.is_cpu(cpu) then
      bad("option 'cpus': CPU number expected, got %s", tostring(cpu))
    end
    if seen[cpu] then bad("option 'cpus': CPU %d twice", cpu) end
    seen[cpu] = true
  end
end

-- The CPUs to open on: the requested ones that are online and that the PMU counts on.
local function choose_cpus(requested, spec)
  local online = try(host.cpus "online")
  if requested == nil or requested == "online" then
    -- A PMU that several CPUs share names in its cpumask the CPUs to open its events on.
    requested = spec.cpumask and host.parse_cpus(spec.cpumask) or online
  end
  if type(requested) ~= "table" then
    bad("option 'cpus': \"online\" or an array of numbers expected, got %s",
      type(requested) == "string" and '"' .. requested .. '"' or type(requested))
  end
  check_cpus(requested)
  local possible, chosen = try(host.cpus "possible"), {}
  for _, cpu in ipairs(requested) do
    if not possible.has[cpu] then
      refuse(("%s: this machine has no CPU %d (possible: 0-%d)"):format(spec.label, cpu, #possible - 1), "EINVAL")
    end
    if online.has[cpu] then chosen[#chosen + 1] = cpu end
  end
  if #chosen == 0 then refuse(spec.label .. ": none of the requested CPUs is online", "ENODEV") end
  return chosen
end

-- The targets of the set's events: array of {pid=, cpu=, cgroup=}.
local function targets(spec, opts)
  local list = {}
  if opts.threads then
    for i, tid in ipairs((try(host.threads(opts.threads)))) do list[i] = { pid = tid } end
    return list
  end
  local cpus = choose_cpus(opts.cpus, spec)
  local cgroups = opts.cgroups or { opts.cgroup or false }
  for _, cgroup in ipairs(cgroups) do
    for _, cpu in ipairs(cpus) do
      list[#list + 1] = { pid = not cgroup and (opts.pid or -1) or nil, cpu = cpu, cgroup = cgroup or nil }
    end
  end
  return list
end

local own_checks = { threads = open.target.pid, cgroups = function(list)
  for i, cgroup in ipairs(list) do
    local wrong = open.cgroup_mistake(cgroup)
    if wrong then return ("[%d]: %s"):format(i, wrong) end
  end
end }

-- The program's descriptor in option bpf.
local function program_of(bpf)
  local fd = bpf
  if type(bpf) == "table" then fd = bpf.fd end
  if type(fd) ~= "number" or fd ~= math.floor(fd) or fd < 0 or fd >= 2 ^ 31 then
    bad("option 'bpf': a program's descriptor expected, got %s",
      type(fd) == "number" and tostring(fd) or type(bpf) == "table" and "a table without fd" or type(fd))
  end
  return fd
end

-- Open one of the events of a Set on all targets.
local function open_event(s, k, opts)
  local spec, n = s.specs[k], #s
  for _, target in ipairs(targets(spec, opts)) do
    for _, attr in ipairs(spec.attrs) do
      local a = open.mergeable(open.prepared(attr))
      a.disabled = true
      local ev, message, code = open.attr(spec, a, target)
      if ev then
        local i = #s + 1
        s[i], s.targets[i], s.place[i] = ev, target, k
      elseif #spec.attrs == 1 or code ~= "EINVAL" and code ~= "ENOENT" and code ~= "ENODEV" then
        refuse(message, code) -- on a hybrid CPU, each PMU counts only on its own CPUs
      end
    end
  end
  if #s == n then refuse(spec.label .. ": no requested CPU counts it", "ENODEV") end
end

local function open_events(s, opts, bpf)
  for k = 1, #s.specs do open_event(s, k, opts) end
  for _, ev in ipairs(bpf and s or {}) do try(ev:set_bpf(bpf)) end
  if not opts.deferred_enable then try(s:enable()) end
  return true
end

-- The resolved events of a list, or of one event.
local function specs_of(events)
  local names = late "perf.names"
  local list = events
  if type(events) == "string" then
    list = late "perf.event.group".events_of(events)
  elseif type(events) == "table" and (events[1] == nil and next(events) ~= nil) then
    list = { events }
  end
  if type(list) ~= "table" then argument.raise("event or list of events expected, got " .. type(list)) end
  local wrong = names.list_mistake(list)
  if wrong then argument.raise(wrong) end
  if #list == 0 then argument.raise "a set needs an event" end
  local specs, label = {}, {}
  for i, event in ipairs(list) do
    specs[i] = try(names.resolve(event))
    label[i] = specs[i].label
  end
  specs.label = table.concat(label, ",")
  return specs
end

--- Open events on each CPU, or on each thread or cgroup; return a Set. CPUs that are offline are left out. A CPU that goes
-- offline later keeps its count and the records in its ring; when it is back, only a set that is opened then counts it.
-- @tparam string|table events a name or attr table, as for `perf.open`; or several, as for `perf.measure`
-- @tparam[opt] table options
-- @treturn Set @fails nothing is left open
-- @raise for an unknown name, field or option
function M.set(events, opts)
  argument.check_dot(events)
  open.check_events(events, "event name or table")
  late "perf.api.check".check_no_options(events, "perf.set", 1)
  opts = open.check_target(opts, "perf.set", 2, own_checks)
  local bpf = opts.bpf and program_of(opts.bpf)
  local specs, message, code = catch(specs_of, events)
  if not specs then return nil, message, code end
  local s = setmetatable({ targets = {}, place = {}, specs = specs, wall_ns = 0 }, Set)
  local ok
  ok, message, code = catch(open_events, s, opts, bpf)
  if ok then return s end
  s:close()
  return nil, message, code
end

local function check(s, method) return argument.check_object(s, Set, "Set", method) end

local function check_open(s, method)
  if not check(s, method)[1]:is_open() then argument.raise_in_method(method, "Set is closed", 1) end
  if s[1]:is_inherited() then argument.raise_in_method(method, core.inherited "Set", 1) end
  return s
end

local function each(s, method, opts)
  check_open(s, method)
  for _, ev in ipairs(s) do
    local ok, message, code = ev[method](ev, opts)
    if not ok then return nil, message, code end
  end
  return true
end

-- Nanoseconds since it was enabled; 0 while it is disabled.
local function elapsed(s) return s.since_ns and core.wall_ns() - s.since_ns or 0 end

--- Start counting on every CPU.
-- @treturn boolean true @fails
function Set:enable()
  local before = core.wall_ns() -- read before, so that no event counts for longer than the wall time
  local ok, message, code = each(self, "enable")
  if not ok then return nil, message, code end
  if not self.since_ns then self.since_ns = before end
  return true
end

--- Stop counting on every CPU.
-- @treturn boolean true @fails
function Set:disable()
  local ok, message, code = each(self, "disable")
  if not ok then return nil, message, code end
  self.wall_ns, self.since_ns = self.wall_ns + elapsed(self), nil
  return true
end

--- The counts of each CPU.
-- @treturn {table,...} `{cpu=, pid=, cgroup=, label=, value=, raw=, enabled_ns=, ...}` @fails
function Set:per_cpu()
  local list = {}
  check_open(self, "per_cpu")
  for i, ev in ipairs(self) do
    local e, message, code = ev:read()
    if not e then return nil, message, code end
    local target = self.targets[i]
    e.cpu, e.pid, e.cgroup = target.cpu, target.pid, target.cgroup
    list[i] = e
  end
  return printed.table(list)
end

--- Set the counts to zero; the times go on, as they do in the kernel.
-- @treturn boolean true @fails
-- @since 0.2.0
function Set:reset()
  local ok, message, code = each(self, "reset")
  if ok then return true end
  return nil, message, code
end

-- The sum of the counts of one event. `list` are the entries of all events, `first` the index of its first Event.
local function sum_of(s, list, first)
  local spec = s.specs[s.place[first]]
  local sum = { label = spec.label, unit = spec.unit, raw = 0, enabled_ns = 0, running_ns = 0 }
  local longest = 0
  for i = first, #list do
    if s.place[i] ~= s.place[first] then break end
    local e = list[i]
    sum.raw = sum.raw + e.raw
    sum.enabled_ns = sum.enabled_ns + (e.enabled_ns or 0)
    sum.running_ns = sum.running_ns + (e.running_ns or 0)
    longest = math.max(longest, e.enabled_ns or 0)
    if e.value then sum.value = (sum.value or 0) + e.value end
    sum.why = sum.why or e.why
  end
  local info = s[first]:info()
  if sum.value then sum.why = info.note end
  local hardware = open.is_hardware(spec.attrs[1])
  if info.bound then
    -- The events of one task are all enabled while the task runs, but it runs on only one CPU at a time.
    sum.enabled_ns = longest
    if hardware and sum.value and sum.running_ns < longest then
      sum.value = counts.scaled(sum.raw, longest, sum.running_ns) * (spec.scale or 1)
    end
  end
  sum.scale, sum.bound = spec.scale, info.bound and not hardware or nil
  return sum, longest, hardware
end

-- Counts of a Set. Counts of a single event also have its entry's fields.
local function result(c)
  for k, v in pairs_of(#c == 1 and c[1] or {}) do c[k] = v end
  return c
end

--- The sum of the counts of each event, as Counts.
-- @treturn Counts with an entry for each event; those of a single one also have its fields (value, raw, enabled_ns ...) @fails
function Set:read()
  local list, message, code = check_open(self, "read"):per_cpu()
  if not list then return nil, message, code end
  local sums, longest, source, resets = {}, 0, "software", 0
  for i, ev in ipairs(self) do
    resets = resets + late "perf.event.group".resets(ev)
    if self.place[i] ~= self.place[i - 1] then
      local sum, enabled, hardware = sum_of(self, list, i)
      sums[#sums + 1], longest = sum, math.max(longest, enabled)
      if hardware then source = "hardware" end
    end
  end
  -- Events of a task are only enabled while the task runs, so the Set keeps the wall time itself. If the program enabled them one
  -- by one, the longest enabled time is used.
  local wall = self.wall_ns + elapsed(self)
  local c = result(counts.plain(sums, wall ~= 0 and wall or longest, source))
  c.cumulative, c.epoch = true, resets
  return c
end

-- In the child of a fork nothing was measured.
local function forked(before)
  local list = {}
  for i, e in ipairs(before) do list[i] = { label = e.label, unit = e.unit, why = counts.forked } end
  return result(counts.plain(list, 0, before.source))
end

local function finish(s, before, ...)
  if s[1]:is_inherited() then return forked(before), ... end
  local after, message = s:read()
  if not after then argument.raise(message, 0) end
  return result(after - before), ...
end

--- Count while a function runs; return Counts, then the function's results. A disabled set is enabled first and stays enabled. It
-- counts what its targets do meanwhile: of all processes on a CPU, unless `pid` or `cgroup` says otherwise.
-- @tparam function fn called with the other arguments; its error is raised again unchanged
-- @tparam any ... its arguments
-- @treturn Counts as `read` returns them, then the function's results
-- @since 0.2.0
function Set:measure(fn, ...)
  check_open(self, "measure")
  argument.check_callable(fn, 1, "measure")
  local before, message
  if not self.since_ns then
    before, message = self:enable()
    if not before then argument.raise(message, 0) end
  end
  before, message = self:read()
  if not before then argument.raise(message, 0) end
  return finish(self, before, fn(...))
end

--- The descriptors of its events, for other event loops: one is readable when its event has records.
-- @treturn {integer,...}
-- @since 0.2.0
function Set:fds()
  local list = {}
  for i, ev in ipairs(check_open(self, "fds")) do list[i] = ev:fd() end
  return printed.table(list)
end

--- Map the rings of all events.
-- @tparam[opt] table options
-- @treturn boolean true @fails
function Set:map(opts)
  local ok, message, code = each(self, "map", opts) -- not a tail call: mistakes are those of this call
  if ok then return true end
  return nil, message, code
end

read_records(Set, "Set", check)

--- Close every event. Idempotent.
function Set:close()
  check(self, "close")
  for i = #self, 1, -1 do self[i]:close() end
end

Set.__close = Set.close
Set.__name = "perf.Set"

function Set.__tostring(s)
  if not s[1]:is_open() then return ("Set(%s, closed)"):format(s.specs.label) end
  if s[1]:is_inherited() then return ("Set(%s, of the parent process)"):format(s.specs.label) end
  local list, message = s:per_cpu()
  if not list then return ("Set(%s, %s)"):format(s.specs.label, message) end
  local format, rows, most = late "perf.base.format", {}, 100
  for i = 1, math.min(#list, most) do
    local e = list[i]
    rows[i] = { e.cpu and "cpu " .. e.cpu or "thread " .. e.pid, e.value and format.commas(e.value) or "<not counted>", e.label }
  end
  return ("Set of %s\n%s%s"):format(format.count(#list, "event"), format.align(rows, { false, true }),
    #list > most and ("\n... and %s"):format(format.count(#list - most, "other")) or "")
end

--- The event for sampling CPU time: cycles if the machine counts them, else the CPU clock.
-- @tparam[opt=999] integer hz samples a second of CPU time
-- @treturn table attr for `perf.open`, `perf.set` or `perf.group`
function M.probe_cycles(hz)
  if hz == nil then hz = 999 end
  local wrong = late "perf.api.check".wrong({ "hz", "integer", least = 1 }, hz)
  if wrong then argument.raise(wrong, 1) end
  local names = late "perf.names"
  for _, name in ipairs { "cycles", "cpu-clock" } do
    local attr = names.attr(names.resolve(name))
    local ev, _, code = idle.open(attr, 0, -1)
    if not ev and code == "EACCES" then
      attr.exclude_kernel = true
      ev = idle.open(attr, 0, -1)
    end
    attr.sample_freq = math.tointeger and math.tointeger(hz) or hz
    if ev then
      ev:close()
      return attr
    end
    if name == "cpu-clock" then return attr end -- opening it will give the reason
  end
end

strict.class(Set, "Set")

return M
