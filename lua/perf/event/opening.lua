-- Opens events: from an attr to a descriptor, with explanations of refusals.
--
-- The first perf.measure needs this module, so this module loads others only when it needs them. `perf.event` loads them at once,
-- since loading a module needs a descriptor, and later there may be none. All public functions that return an Event load
-- `perf.event`.
local copy = require "perf.base.copy"
local core = require "perf.core"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"

local M = {}

local idle = require "perf.event.idle"
local printed = require "perf.base.printed"
local prewarm = require "perf.event.prewarm"

local function host() return late "perf.kernel.host" end
local function explain(...) return late "perf.event.refusal"(...) end

local SOFTWARE = 1

-- The config of a software event; nil for other events.
function M.software_config(attr)
  if attr.type == SOFTWARE or attr.type == "software" then return attr.config or 0 end
end

-- Whether a flag of an attr is set.
function M.is_set(flag) return flag and flag ~= 0 end
local is_set = M.is_set

-- Whether an event is one of the kernel's clocks.
function M.is_clock(attr)
  local config = M.software_config(attr)
  return config == 0 or config == 1
end

-- The reason why an event counts nothing although it can be opened; nil if it counts.
-- @param attr plain attr fields
-- @string[opt] label the event's name, which shows the kind of a tracepoint
function M.no_count_reason(attr, label)
  if not is_set(attr.exclude_kernel) then return nil end
  local what = late "perf.event.probe".in_kernel(M.software_config(attr))
  if what then return what .. " happen in the kernel (exclude_kernel, :u, leaves that out)" end
  local system = (attr.type == "tracepoint" or attr.type == 2) and type(label) == "string" and label:match "^(%a[%w_-]*):"
  -- Tracepoints of system calls and of probes in a program have the program's registers, so they can count with :u. Without a
  -- name the kind is unknown.
  if system and system ~= "syscalls" and system ~= "tracepoint" and not system:find "^u?prob" then
    return "this tracepoint is in the kernel (exclude_kernel, :u, leaves that out)"
  end
end

-- The note on a count of the kernel's clocks, which ignore exclude_kernel and exclude_user. (Their samples do not: a sample is
-- taken only in the part that is not excluded.)
local function remark(attr)
  if M.is_clock(attr) and not (attr.sample_period or attr.sample_freq)
    and (is_set(attr.exclude_kernel) or is_set(attr.exclude_user)) then
    return "the kernel's clocks ignore :u and :k: this is the whole time"
  end
end

-- The arguments of perf_event_open by the options. Opens the cgroup's directory.
-- @return pid, flags, keep (an object that holds the cgroup open), or nil, message, code
local function target(opts)
  local cgroup = opts.cgroup
  if cgroup == nil then return opts.pid or 0, 0 end
  if type(cgroup) == "number" then return cgroup, 4 end
  local dir, message, code = late "perf.event.cgroup".open(cgroup)
  if not dir then return nil, message, code end
  return dir:fd(), 4, dir
end

local clock = { [0] = true, [1] = true, [9] = true } -- cpu-clock, task-clock, dummy: the same with and without the kernel

local weak = { __mode = "v" }

-- Whether an event's records may contain the counts of its group.
local function records_counts(attr) return attr.sample_type ~= nil or attr.inherit_stat end

-- The array of the labels of a group's open events, in the kernel's order. All of them share it, since any of them may write a
-- record with the counts of all. It is made if one of them does.
local function joined(leader, ev, info)
  local first = leader:info()
  if first.shared then -- see open_again in perf.event.open
    first = printed.table(copy(first))
    first.shared = nil
    core.set_event_info(leader, first)
  end
  local members = first.members or setmetatable({ n = 0 }, weak)
  members.n = members.n + 1
  members[members.n] = ev
  first.members = members
  if not (first.labels or records_counts(first.attr) or records_counts(info.attr)) then return end
  local labels = { first.label }
  first.labels = labels
  for i = 1, members.n do
    local member = members[i]
    if member and member:is_open() then
      local its = member:info()
      labels[#labels + 1], its.labels = its.label, labels
    end
  end
end

-- The attr fields that make an event write records.
local writes = { sample_period = true, sample_freq = true, mmap = true, mmap2 = true, mmap_data = true, comm = true,
  comm_exec = true, task = true, context_switch = true, namespaces = true, ksymbol = true, bpf_event = true, cgroup = true,
  text_poke = true, inherit_stat = true }

-- Whether an event writes records.
function M.writes_records(attr)
  for field, v in pairs_of(attr) do
    if writes[field] and v and v ~= 0 then return true end
  end
end

local counts_lost -- whether the kernel counts lost records; nil: not known yet

-- Whether the kernel counts the records that an event loses (PERF_FORMAT_LOST, Linux 6.0).
function M.counts_lost()
  if counts_lost == nil then
    local probe = late "perf.event.probe"
    local ok, code = probe.attempt(probe.dummy { read_format = { "lost" } })
    if not ok and code ~= "EINVAL" then return false end -- refused, or out of descriptors: try again the next time
    counts_lost = ok
  end
  return counts_lost
end

-- Whether to open an event with a count of its lost records: only if it writes records. A BPF program can write samples into an
-- event without a period.
local function to_count_lost(attr)
  local sampled = attr.sample_type
  local writer = M.writes_records(attr)
    or sampled ~= nil and sampled ~= 0 and not (type(sampled) == "table" and sampled[1] == nil)
  return writer and M.counts_lost()
end

-- Open one attr; explains a refusal of the machine.
-- @param spec {label=, unit=, scale=, note= a remark on its counts}
-- @param attr plain attr fields
-- @param opts {pid=, cpu=, group=Event, cgroup=}
-- @return Event, or nil, message, code
function M.attr(spec, attr, opts)
  local calls, ev, message, code
  if attr.type == 2 or attr.type == "tracepoint" then
    calls, message, code = late "perf.event.watch".kind(attr, opts)
    if calls == nil then return explain(spec.label, attr, message, code, opts) end
  end
  local pid, flags, keep = target(opts)
  if not pid then return nil, flags, keep end
  local no_count = M.no_count_reason(attr, spec.label)
  local info = printed.table(copy { -- a copy takes less memory: it has no room for the fields that are nil
    label = spec.label, unit = spec.unit, scale = spec.scale, attr = attr, leader = opts.group,
    why = no_count and spec.note and no_count .. "; " .. spec.note or no_count, note = spec.note or remark(attr), cpu = opts.cpu,
    bound = opts.cgroup == nil and pid ~= -1 and (opts.cpu or -1) ~= -1 or nil })
  local with_user = attr
  if pid == 0 and flags == 0 and (opts.cpu or -1) == -1 and M.is_hardware(attr) then
    with_user, info.user = late "perf.event.user_read".request(attr)
  end
  local lost = to_count_lost(attr)
  ev, message, code = idle.open(with_user, pid, opts.cpu or -1, opts.group, flags, info, info.user, lost)
  if not ev and with_user ~= attr then
    info.user = false
    ev, message, code = idle.open(attr, pid, opts.cpu or -1, opts.group, flags, info, false, lost)
  end
  if not ev and code == "EACCES" and clock[M.software_config(attr) or -1] and not attr.exclude_kernel then
    -- A clock counts the same with and without the kernel, and needs no permission without it.
    local user = copy(attr)
    user.exclude_kernel = true
    info.attr = user
    if attr.sample_period or attr.sample_freq then -- although no samples are taken in the kernel
      info.label, info.note = late "perf.event.user_only".label(spec.label)
    end
    ev, message, code = idle.open(user, pid, opts.cpu or -1, opts.group, flags, info, false, lost)
  end
  if keep then keep:close() end
  if ev then
    if opts.group then joined(opts.group, ev, info) end
    idle.note(ev, attr, spec.label, M.is_hardware(attr))
    prewarm.note(attr, spec.label)
    if calls then late "perf.event.watch".note(ev, attr, calls) end
    return ev
  end
  return explain(spec.label, attr, message, code, opts)
end

-- The read_format of a member of a group, and of an event alone, which is read in less time without the group's format.
M.group_format = { "total_time_enabled", "total_time_running", "id", "group" }
M.single_format = { "total_time_enabled", "total_time_running", "id" }

-- "hardware" if any of the events is counted by a PMU of the CPU.
function M.source(events)
  for _, ev in ipairs(events) do
    if M.is_hardware(ev:info().attr) then return "hardware" end
  end
  return "software"
end

-- Whether an event of a type that has a fixed number is counted by hardware.
local by_type = { software = false, tracepoint = false, breakpoint = false, [1] = false, [2] = false, [5] = false,
  hardware = true, hw_cache = true, raw = true, [0] = true, [3] = true, [4] = true }
local soft_pmus

-- Whether an attr is counted by hardware: by any PMU except the kernel's software ones.
function M.is_hardware(attr)
  local known_type = by_type[attr.type]
  if known_type ~= nil then return known_type end
  local known = soft_pmus
  if not known then
    known = {}
    for _, name in ipairs { "kprobe", "uprobe", "software", "tracepoint", "breakpoint" } do
      local kind = host().number("/sys/bus/event_source/devices/" .. name .. "/type")
      if kind then known[kind] = true end
    end
    if next(known) then soft_pmus = known end -- else descriptors have run out
  end
  return not known[attr.type]
end

return M
