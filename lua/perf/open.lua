--- Opening events and groups.
-- @module perf.open
local core = require "perf.core"
local counts = require "perf.counts"
local fast = require "perf.fast"

local M = {}

-- Loaded on the first open: names reads sysfs, explain reads /proc, and require should do neither.
local function names() return require "perf.names" end
local function explain() return require "perf.explain" end

local SOFTWARE = 1
local in_kernel = { [3] = "context switches", [4] = "migrations", [11] = "cgroup switches" }

-- The config of a software event, or nil.
local function software_config(attr)
  if attr.type == SOFTWARE or attr.type == "software" then return attr.config or 0 end
end

--- Why an event that opens can count nothing, or nil.
function M.silent(attr)
  local what = in_kernel[software_config(attr) or -1]
  if what and attr.exclude_kernel and attr.exclude_kernel ~= 0 then
    return what .. " happen in the kernel, which exclude_kernel (:u) leaves out"
  end
end

local function copy(t)
  local r = {}
  for k, v in pairs(t) do r[k] = v end
  return r
end
M.copy = copy

-- Whom to count: pid, cpu and flags of perf_event_open from options; opens the cgroup's directory.
local cgroup_root

local function find_cgroup_root()
  if cgroup_root then return cgroup_root end
  local f = io.open "/proc/self/mounts"
  local text = f and f:read "*a" or ""
  if f then f:close() end
  cgroup_root = text:match "%S+ (%S+) cgroup %S*perf_event%S* " or text:match "%S+ (%S+) cgroup2 " or "/sys/fs/cgroup"
  return cgroup_root
end

local allowed = { pid = "number", cpu = "number", group = "userdata", cgroup = true }

--- Check the table of options that says whom to count: the second argument of the public function `name`.
-- @param[opt] extra more options: {name = type, or true for any}
function M.check_target(opts, name, extra)
  local function bad(text, ...)
    error(("bad argument #2 to '%s' (%s)"):format(name, text:format(...)), 4)
  end
  if opts == nil then return {} end
  if type(opts) ~= "table" then bad("table of options expected, got %s", type(opts)) end
  for k, v in pairs(opts) do
    local want = allowed[k] or (extra and extra[k])
    if not want then bad("unknown option '%s'", tostring(k)) end
    if want ~= true and type(v) ~= want then bad("option '%s': %s expected, got %s", k, want, type(v)) end
    if want == "number" and v ~= math.floor(v) then bad("option '%s': integer expected", k) end
  end
  return opts
end

-- Returns pid, flags, keep (an object that holds the cgroup open), or nil, message, code.
local function target(opts)
  local cgroup = opts.cgroup
  if cgroup == nil then return opts.pid or 0, 0 end
  if type(cgroup) == "number" then return cgroup, 4 end
  if type(cgroup) ~= "string" then
    error("option 'cgroup': path or descriptor expected, got " .. type(cgroup), 4)
  end
  local path = cgroup:sub(1, 1) == "/" and cgroup or find_cgroup_root() .. "/" .. cgroup
  local dir, message, code = core.opendir(path)
  if not dir then return nil, "cgroup " .. message, code end
  return dir:fd(), 4, dir
end

local clock = { [0] = true, [1] = true, [9] = true } -- cpu-clock, task-clock, dummy: the same with and without the kernel

--- Open one attr; explains what the machine refuses.
-- @param spec {label=, unit=, scale=}
-- @param attr plain attr fields
-- @param opts {pid=, cpu=, group=Event, cgroup=}
-- @return Event, or nil, message, code
function M.attr(spec, attr, opts)
  local pid, flags, keep = target(opts)
  if not pid then return nil, flags, keep end
  local info = { label = spec.label, unit = spec.unit, scale = spec.scale, attr = attr, leader = opts.group,
    why = M.silent(attr), pid = pid, cpu = opts.cpu or -1 }
  local ev, message, code = core.open(attr, pid, opts.cpu or -1, opts.group, flags, info)
  if not ev and code == "EACCES" and clock[software_config(attr) or -1] and not attr.exclude_kernel then
    -- A clock runs the same whether the kernel is excluded or not, and excluding it needs no permission.
    local user = copy(attr)
    user.exclude_kernel = true
    info.attr = user
    ev, message, code = core.open(user, pid, opts.cpu or -1, opts.group, flags, info)
  end
  if keep then keep:close() end
  if ev then return ev end
  return explain()(spec.label, attr, message, code, opts)
end

local single_format = { "total_time_enabled", "total_time_running", "id" }

-- The attr to open from the attr a name stands for: disabled until enabled, times and id with the count.
local function prepared(attr, format)
  local a = copy(attr)
  if a.disabled == nil then a.disabled = true end
  a.read_format = format or a.read_format or single_format
  return a
end

--- Open an event.
-- @param event a name as perf stat -e takes it, or a table of perf_event_attr fields
-- @param[opt] opts `pid` (0: the calling thread, the default; -1: every one on that CPU), `cpu` (-1: any, the default),
-- `group` (the Event that leads its group), `cgroup` (path, from the cgroup mount or absolute, or descriptor; needs `cpu`)
-- @return Event, disabled unless its attr says `disabled=false`; or nil, message, code.
-- Raises for an unknown name, field or option.
function M.open(event, opts)
  opts = M.check_target(opts, "open")
  local spec, message, code = names().resolve(event)
  if not spec then return nil, message, code end
  if #spec.attrs > 1 then
    return nil, ("%s: is counted by %d PMUs of this machine, and an Event is one of them: name it with its PMU, or use "
      .. "perf.measure or perf.set, which add them up"):format(spec.label, #spec.attrs), "EINVAL"
  end
  return M.attr(spec, prepared(spec.attrs[1]), opts)
end

--- Build a Group around opened events: its layout and its behaviour.
-- @param events Events, the leader first
-- @param asleep whether the leader was opened disabled
-- @return Group
function M.gather(events, asleep)
  local rows = {}
  for i, ev in ipairs(events) do
    local info = ev:info()
    rows[i] = { label = info.label, unit = info.unit, scale = info.scale, why = info.why, slots = { { 0, i - 1 } } }
  end
  local g = core.group(events, asleep)
  events.layout = counts.layout(rows, 1, M.source(events))
  events.words = g:words()
  return g
end

--- "hardware" when any of the events is counted by a PMU of the CPU.
function M.source(events)
  for _, ev in ipairs(events) do
    if M.is_hardware(ev:info().attr) then return "hardware" end
  end
  return "software"
end

local soft_types = { software = true, tracepoint = true, breakpoint = true, [1] = true, [2] = true, [5] = true }
local soft_pmus

--- Whether an attr is counted by hardware: every PMU but the kernel's own software ones.
function M.is_hardware(attr)
  if soft_types[attr.type] then return false end
  if not soft_pmus then
    soft_pmus = {}
    for _, name in ipairs { "kprobe", "uprobe", "software", "tracepoint", "breakpoint" } do
      local f = io.open("/sys/bus/event_source/devices/" .. name .. "/type")
      if f then
        soft_pmus[tonumber(f:read "*a") or -1] = true
        f:close()
      end
    end
  end
  return not soft_pmus[attr.type]
end

local group_format = { "total_time_enabled", "total_time_running", "id", "group" }
M.group_format = group_format

--- Open one kernel group: its events count over the same instants or not at all, and one read returns them all.
-- @param list names or attr tables, the leader first; or one string, "cycles:u,instructions:u"
-- @param[opt] opts `pid`, `cpu`, `cgroup` as in `open`
-- @return Group, disabled; or nil, message, code, and nothing left open
function M.group(list, opts)
  opts = copy(M.check_target(opts, "group"))
  if type(list) == "string" then list = names().split(list) end
  if type(list) ~= "table" then
    error(("bad argument #1 to 'group' (array of events expected, got %s)"):format(type(list)), 2)
  end
  if #list == 0 then error("bad argument #1 to 'group' (a group needs an event)", 2) end
  if #list > 128 then error("bad argument #1 to 'group' (a group has at most 128 events)", 2) end
  local events, asleep = {}, true
  local function abandon(message, code)
    for i = #events, 1, -1 do events[i]:close() end
    return nil, message, code
  end
  for i, event in ipairs(list) do
    local spec, message, code = names().resolve(event)
    if not spec then return abandon(message, code) end
    if #spec.attrs > 1 then
      return abandon(("%s: is counted by %d PMUs of this machine, which one group cannot span: name it with its PMU")
        :format(spec.label, #spec.attrs), "EINVAL")
    end
    local attr = prepared(spec.attrs[1], group_format)
    if i == 1 then
      asleep = attr.disabled ~= false and attr.disabled ~= 0
    elseif spec.attrs[1].disabled == nil then
      attr.disabled = false -- it follows its leader
    end
    local ev, m, c = M.attr(spec, attr, opts)
    if not ev then
      return abandon(m, c)
    end
    events[i] = ev
    opts.group = events[1]
  end
  return M.gather(events, asleep)
end

local function check_group(g, method)
  if getmetatable(g) ~= core.Group then
    error(("bad argument #1 to '%s' (Group expected, got %s)"):format(method, type(g)), 3)
  end
  return g:members()
end

---------------------------------------------------------------------------------------------------------------------
-- Event and Group: the methods that are Lua

local Event, Group = core.Event.__index, core.Group.__index
local begin, finish, snap, entry = fast.begin, fast.finish, fast.snap, counts.entry

--- The name the event was asked for by.
function Event:label() return self:info().label end

--- The attr it was opened with: a table of perf_event_attr fields.
function Event:attr() return copy(self:info().attr) end

local function event_entry(info, scan)
  local v = scan[1]
  if not v then return entry(info, 0, 0, 0, nil) end
  return entry(info, v.value, scan.enabled_ns, scan.running_ns, v.id)
end

--- Read the count.
-- @return {label=, value=, raw=, enabled_ns=, running_ns=, unit=, id=, why=}, with what its read_format has; an event that
-- reads its whole group has the others' counts in `members`. Or nil, message, code
function Event:read()
  local scan, message, code = self:scan()
  if not scan then return nil, message, code end
  local e = event_entry(self:info(), scan)
  if e.id == nil and scan[1] then e.id = self:id() end
  if scan[1] and scan[1].lost then e.lost = scan[1].lost end
  if #scan > 1 then e.members = scan end
  return e
end

local function event_finish(ev, before, ...)
  local after, message = ev:scan()
  if not after then error(message, 3) end
  local info, a, b = ev:info(), before[1], after[1]
  if not (a and b) then return entry(info, 0, 0, 0, nil), ... end
  local function diff(x, y) return x and y and y - x end
  return entry(info, b.value - a.value, diff(before.enabled_ns, after.enabled_ns),
    diff(before.running_ns, after.running_ns), b.id or ev:id()), ...
end

--- Count while a function runs. Enables the event and leaves it so.
-- @return what `read` gives, of that time alone; then the function's results. Raises its errors unchanged.
function Event:measure(fn, ...)
  local ok, message = self:enable()
  if not ok then error(message, 2) end
  local before
  before, message = self:scan()
  if not before then error(message, 2) end
  return event_finish(self, before, fn(...))
end

-- Siblings first, then the leader. Linux 6.18 leaves a member that is enabled while its leader runs unscheduled until the next
-- context switch if the two belong to different software PMUs.
local function each_member(g, method)
  local events = check_group(g, method)
  for i = 2, #events do
    local ok, message, code = events[i][method](events[i])
    if not ok then return nil, message, code end
  end
  return true
end

local enable_leader, disable_leader = Group.enable, Group.disable

--- Start all members. @return true, or nil, message, code
function Group:enable()
  local ok, message, code = each_member(self, "enable")
  if not ok then return nil, message, code end
  return enable_leader(self)
end

--- Stop all members: one does not count while its leader stands still. @return true, or nil, message, code
function Group:disable()
  return disable_leader(self)
end

--- Set the counts of all members to zero. @return true, or nil, message, code
-- @function Group:reset

--- Count while a function runs: two reads. A disabled group is enabled first and left so.
-- @return Counts, then the function's results. Raises its errors unchanged.
function Group:measure(fn, ...)
  local events = check_group(self, "measure")
  return finish(self, begin(self, events.layout, events.words), fn(...))
end

--- Counts since the group was opened or last reset, from one read(2).
function Group:read()
  local events = check_group(self, "read")
  return snap(self, events.layout, events.words)
end

--- The leader's id.
function Group:id() return check_group(self, "id")[1]:id() end

--- The leader's descriptor, for other event loops.
function Group:fd() return check_group(self, "fd")[1]:fd() end

--- Close every event of the group. Idempotent.
function Group:close()
  local events = check_group(self, "close")
  self:forget()
  for i = #events, 1, -1 do events[i]:close() end
end

core.Group.__close = Group.close
core.Group.__len = function(g) return #g:members() end
core.Group.__index = function(g, key)
  local method = Group[key]
  if method ~= nil or type(key) ~= "number" then return method end
  return g:members()[key]
end
core.Group.__name, core.Event.__name = "perf.Group", "perf.Event"

function core.Event.__tostring(ev)
  local info = ev:info()
  if not ev:is_open() then return ("Event(%s, closed)"):format(info.label) end
  local e, message = ev:read()
  if not e then return ("Event(%s, %s)"):format(info.label, message) end
  local format = require "perf.format"
  local text
  if e.value then
    text = e.unit == "ns" and format.ns(e.value) or format.commas(e.value) .. (e.unit and " " .. e.unit or "")
  else
    text = e.enabled_ns == 0 and not info.why and "not enabled yet" or "not counted: " .. e.why
  end
  return ("Event(%s: %s)"):format(info.label, text)
end

function core.Group.__tostring(g)
  local events = g:members()
  if not events[1]:is_open() then return ("Group(%d events, closed)"):format(#events) end
  local c = g:read()
  if c[1].enabled_ns == 0 then
    local labels = {}
    for i, ev in ipairs(events) do labels[i] = ev:label() end
    return ("Group(%s: not enabled yet)"):format(table.concat(labels, ", "))
  end
  return ("Group of %d events\n%s"):format(#events, tostring(c))
end

return M
