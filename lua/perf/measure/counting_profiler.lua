-- perf.hardware_profiler and related functions.
local copy = require "perf.base.copy"
local core = require "perf.core"
local argument = require "perf.base.argument"
local late = require "perf.base.late"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local counts = require "perf.counts"
local counts_read = require "perf.counts.read"
local readings = require "perf.counts.readings"
local kernel_group = require "perf.event.group"
local names = require "perf.names"
local open = require "perf.event.open"

local M = {}

--- The counters of one kind, each opened separately, so that an event that the machine lacks does not affect the others.
--
--     local p = assert(perf.hardware_profiler {pid = 1234})
--     p:enable() ... p:disable()
--     print(p:read())                      -- Counts
--     for _, m in ipairs(p.missing) do print(m.label, m.message) end
--     p:close()
--
-- perf.measure measures a list around a function, and puts events into as few kernel groups as possible. A profiler is for code
-- that runs elsewhere (`pid`, `cpu`, `cgroup`), and for counting all events of a machine: ten hardware counters at once take
-- turns on most CPUs, and their values are estimates then (running_ns below enabled_ns).
--
-- A profiler is the array of its Events. All are read by one meter, whose groups have one event each; on a hybrid CPU, an event
-- on each PMU that counts it, added up.
-- @type CountingProfiler
local Profiler = {}
Profiler.__index = Profiler

-- Errors that concern one event: the machine lacks it or refuses it. Other errors would occur with every event.
M.lacking = { ENOENT = true, EOPNOTSUPP = true, ENODEV = true, ENXIO = true, EINVAL = true, EACCES = true, EPERM = true }

local function open_event(spec, attr, opts, fallback)
  local a = copy(attr)
  a.read_format, a.disabled = open.group_format, true
  if opts.inherit then a.inherit = true end
  return (fallback and late "perf.event.user_only".allowed or open.attr)(spec, a, opts)
end

-- The Events of one spec, one for each PMU that counts it: array, or nil, message, code.
local function open_spec(spec, opts, fallback)
  local events = {}
  for _, attr in ipairs(spec.attrs) do
    local ev, message, code = open_event(spec, attr, opts, fallback)
    if not ev then
      for i = #events, 1, -1 do events[i]:close() end
      return nil, message, code
    end
    events[#events + 1] = ev
  end
  return events
end

-- list: names or attrs, an array. Returns a Profiler, or nil, message, code and nothing left open. Its `lacks` has the entries of
-- `missing` by their places in the list.
local function gather(kind, list, opts, fallback)
  local p = setmetatable({ kind = kind, missing = printed.table {}, lacks = {}, groups = {} }, Profiler)
  local target = { pid = opts.pid, cpu = opts.cpu, cgroup = opts.cgroup, inherit = opts.inherit }
  local rows, slots, specs = {}, 0, {}
  -- Resolve all names first: an unknown one raises, before any event is open.
  local what = fallback and "" or "option 'events': " -- without that option they are the profiler's own
  for i, event in ipairs(list) do specs[i] = { argument.call_as_argument(1, what, names.resolve, event) } end
  for i, event in ipairs(list) do
    local spec, message, code = specs[i][1], specs[i][2], specs[i][3]
    local events
    if spec then events, message, code = open_spec(spec, target, fallback) end
    if events then
      local row = { label = spec.label, unit = spec.unit, scale = spec.scale, slots = {} }
      for _, ev in ipairs(events) do
        local info = ev:info()
        row.label, row.bound = info.label, info.bound
        row.why, row.note = row.why or info.why, row.note or info.note
        p[#p + 1] = ev
        p.groups[#p.groups + 1] = kernel_group.build { ev }
        row.slots[#row.slots + 1] = { #p.groups - 1, slots }
        slots = slots + 1
      end
      rows[#rows + 1] = row
    elseif M.lacking[code] then
      p.lacks[i] = { label = spec and spec.label or tostring(event), message = message, code = code }
      p.missing[#p.missing + 1] = p.lacks[i]
    else
      p:close()
      return nil, message, code
    end
  end
  if #p == 0 then return p end
  p.meter = core.meter(p.groups)
  kernel_group.joined(p.groups, p.meter)
  p.layout, p.words = counts.layout(rows, #p.groups, open.source(p)), p.meter:words()
  p.reading = counts.layout(rows, #p.groups, open.source(p), true)
  return p
end

-- The requested events, or all of the profiler's.
local function listed(opts, all)
  local list = opts.events
  if list == nil then return all(), true end
  if type(list) == "string" then list = argument.call_as_argument(1, "option 'events': ", kernel_group.events_of, list) end
  local wrong = late "perf.names".list_mistake(list)
  if wrong then argument.raise("option 'events': " .. wrong) end
  if #list == 0 then argument.raise("option 'events': the list has no event") end
  return list, false
end

local function all_hardware() return late "perf.names.constructors".all_hardware() end

local idle = { dummy = true, ["bpf-output"] = true } -- they count nothing

local function all_software()
  local list = {}
  for _, attr in ipairs(late "perf.names.constructors".all_software()) do
    if not idle[attr.label] then list[#list + 1] = attr end
  end
  return list
end

local function all_cache() return late "perf.names.constructors".hardware_cache(nil, { "load", "store" }) end

-- A profiler of all events of a kind, or of those in option events.
local function profiler(kind, all, opts)
  opts = open.check_target(opts, "perf.hardware_profiler", 1)
  local list, fallback = listed(opts, all)
  local p, message, code = gather(kind, list, opts, fallback)
  if p and #p == 0 then return nil, p.missing[1].message, p.missing[1].code end
  return p, message, code
end

--- Count the generic hardware events: cycles, instructions, cache references and misses, branches and their misses,
-- bus cycles, stalled cycles, reference cycles.
-- @tparam[opt] table options
-- @treturn CountingProfiler disabled @fails if it counts none of them
-- @raise for an unknown option or event
function M.hardware_profiler(opts)
  local p, message, code = profiler("hardware", all_hardware, opts)
  if p then return p end
  return nil, message, code
end

--- Count the software events: clocks, faults, context switches, migrations.
-- @tparam[opt] table options
-- @treturn CountingProfiler disabled @fails
function M.software_profiler(opts)
  local p, message, code = profiler("software", all_software, opts)
  if p then return p end
  return nil, message, code
end

--- Count loads and stores of every cache, and their misses: L1, last level, TLBs, branch predictor, NUMA node.
-- @tparam[opt] table options
-- @treturn CountingProfiler disabled @fails
function M.cache_profiler(opts)
  local p, message, code = profiler("cache", all_cache, opts)
  if p then return p end
  return nil, message, code
end

-- Count a list of events; in user space only, if counting the kernel is not permitted.
-- @tparam table list names or attrs, an array
-- @tparam table opts `pid`, `cpu`, `cgroup`, `inherit`
-- @return Profiler, perhaps of no event; or nil, message, code
function M.allowed(list, opts) return gather("software", list, opts, true) end

local function open_meter(p, method)
  return argument.check_object(p, Profiler, "CountingProfiler", method).meter
    or argument.raise_in_method(method, "CountingProfiler is closed", 1)
end

--- Start counting.
-- @function CountingProfiler:enable
-- @treturn boolean true @fails

--- Stop counting.
-- @function CountingProfiler:disable
-- @treturn boolean true @fails

--- Set the counts to zero; the times go on, as they do in the kernel.
-- @function CountingProfiler:reset
-- @treturn boolean true @fails

for _, name in ipairs { "enable", "disable", "reset" } do
  Profiler[name] = function(self)
    local meter = open_meter(self, name)
    return meter[name](meter)
  end
end

--- The Counts since it was opened or last reset.
-- @treturn Counts the events in the requested order, without those that are `missing` @fails
function Profiler:read()
  local meter = open_meter(self, "read")
  return readings.snap(meter, self.reading, self.words)
end

--- Count while a function runs; return Counts, then the function's results. They are differences, whatever was counted before. A
-- disabled profiler is enabled and stays enabled.
-- @tparam function fn called with the other arguments; its error is raised again unchanged
-- @tparam any ... its arguments
-- @treturn Counts then the function's results
function Profiler:measure(fn, ...)
  local meter = open_meter(self, "measure")
  argument.check_callable(fn, 1, "measure")
  return counts_read.finish(meter, counts_read.begin(meter, self.layout, self.words), fn(...))
end

--- Close every event. Idempotent.
function Profiler:close()
  if self.meter then self.meter:forget() end
  self.meter = nil
  for i = #self.groups, 1, -1 do self.groups[i]:close() end
end

argument.check_methods(Profiler, "CountingProfiler", "close")
Profiler.__close = Profiler.close
Profiler.__name = "perf.CountingProfiler"

function Profiler.__tostring(p)
  if not p.meter then return ("CountingProfiler(%s, closed)"):format(p.kind) end
  local text = tostring(p:read())
  if #p.missing == 0 then return text end
  local labels = {}
  for i, m in ipairs(p.missing) do labels[i] = m.label end
  return ("%s\n\n  not counted here: %s"):format(text, table.concat(labels, ", "))
end

strict.class(Profiler, "CountingProfiler")

return M
