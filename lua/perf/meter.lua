--- Opening what perf.measure reads: a list of events as few kernel groups as possible, one for each PMU, split again where the
-- counters do not suffice, so that every event gets its turn and those of one group are compared over the same instants.
-- @module perf.meter
local core = require "perf.core"
local counts = require "perf.counts"
local kernel_group = require "perf.group"
local open = require "perf.open"

local M = {}

local HARDWARE = { "cycles", "instructions", "branches", "branch-misses", "cache-references", "cache-misses" }
local SOFTWARE = { "task-clock", "page-faults", "context-switches", "cpu-migrations" }

-- Events of one key may share a kernel group: the software ones all together, a PMU's own among themselves.
local function group_key(attr)
  if not open.is_hardware(attr) then return "software" end
  local kind = attr.type
  if kind == "hardware" or kind == "hw_cache" or kind == 0 or kind == 3 then
    local _, pmu = core.halves(attr.config or 0)
    return pmu ~= 0 and pmu or "cpu"
  end
  return (kind == "raw" or kind == 4) and "cpu" or kind
end

local function open_member(spec, attr, leader)
  local a = open.copy(attr)
  -- The leader waits until its group is complete. Linux 6.18 leaves a clock that joins a running group of another
  -- software PMU unscheduled until the next context switch: it would count nothing.
  a.read_format, a.disabled = kernel_group.format, leader == nil
  return open.attr(spec, a, { group = leader })
end

-- Open all parts of one key as groups. parts: {{spec=, attr=, row=, slot=}, ...}. Appends to groups the arrays of parts with
-- .event set. Returns true, or nil, message, code, part.
local function open_groups(parts, groups, most)
  local current
  for _, part in ipairs(parts) do
    local ev, message, code
    if current and #current < most then
      ev = open_member(part.spec, part.attr, current[1].event)
    end
    if not ev then
      -- It does not fit beside the others, or not at all: a group of its own tells.
      ev, message, code = open_member(part.spec, part.attr, nil)
      if not ev then return nil, message, code, part end
      current = {}
      groups[#groups + 1] = current
    end
    part.event = ev
    current[#current + 1] = part
  end
  return true
end

local function close_group(group)
  for i = #group, 1, -1 do
    if group[i].event then group[i].event:close() end
    group[i].event = nil
  end
end

-- A kernel may accept a group that its counters cannot hold together; it then never runs. Such a group is opened again
-- in halves.
local function starves(group)
  if #group < 2 or not open.is_hardware(group[1].attr) then return false end
  local leader = group[1].event
  leader:enable()
  local scan = leader:scan()
  leader:disable()
  return scan and scan[1] and scan.running_ns == 0 and scan.enabled_ns ~= 0
end

local function split_starving(groups)
  local i = 1
  while i <= #groups do
    local group = groups[i]
    if starves(group) then
      close_group(group)
      table.remove(groups, i)
      local ok, message, code = open_groups(group, groups, math.ceil(#group / 2))
      if not ok then return nil, message, code end
    else
      i = i + 1
    end
  end
  return true
end

--- Open a list of events.
-- @param specs what names.resolve gives, in the order asked
-- @return {meter=, words=, layout=, groups=}; or nil, message, code, and nothing left open
function M.open(specs)
  local keys, parts, groups, rows = {}, {}, {}, {}
  for i, spec in ipairs(specs) do
    rows[i] = { label = spec.label, unit = spec.unit, scale = spec.scale, slots = {}, why = spec.why }
    for _, attr in ipairs(spec.attrs) do
      local key = group_key(attr)
      if not parts[key] then
        parts[key] = {}
        keys[#keys + 1] = key
      end
      table.insert(parts[key], { spec = spec, attr = attr, row = rows[i] })
    end
  end
  local function abandon(message, code)
    for _, group in ipairs(groups) do close_group(group) end
    return nil, message, code
  end
  for _, key in ipairs(keys) do
    local ok, message, code = open_groups(parts[key], groups, 128)
    if not ok then return abandon(message, code) end
  end
  local ok, message, code = split_starving(groups)
  if not ok then return abandon(message, code) end

  local members, value, source = {}, 0, "software"
  for g, group in ipairs(groups) do
    local events = {}
    for i, part in ipairs(group) do
      events[i] = part.event
      part.row.why = part.row.why or part.event:info().why
      table.insert(part.row.slots, { g - 1, value })
      value = value + 1
    end
    members[g] = core.group(events, true)
    if open.source(events) == "hardware" then source = "hardware" end
  end
  -- What the kernel counts in software has not run yet; a PMU's group was tried whether it ever gets its turn.
  local meter = core.meter(members, source ~= "hardware")
  meter:own() -- they count this thread
  return { meter = meter, words = meter:words(), layout = counts.layout(rows, #groups, source),
    groups = members }
end

local refused = { EPERM = true, EACCES = true, ENOSYS = true }

-- The kernel's accounting: the order of the values is that of csrc/core/usage.h.
local function usage_set()
  local rows = {
    { label = "task-clock", unit = "ns", slots = { { 0, 0 } } },
    { label = "page-faults", slots = { { 0, 1 } } },
    { label = "context-switches", slots = { { 0, 2 } } },
    { label = "cpu-migrations", slots = { { 0, 2 } }, why = "the kernel's accounting of a thread does not have it" },
  }
  local meter = core.meter {}
  meter:own()
  return { meter = meter, words = meter:words(), layout = counts.layout(rows, 0, "rusage"), groups = {} }
end

--- Open the best events this machine has: what hardware counts of the usual ones, and the software ones; the kernel's accounting
-- where perf_event_open is refused.
-- @return as `open`
function M.open_default()
  local resolve = require "perf.names".resolve
  local user_only = false
  -- Open and close, to learn what this machine counts; in user space alone where that is all that is allowed.
  local function probe(spec)
    local attrs = {}
    for i, attr in ipairs(spec.attrs) do
      local a = open.copy(attr)
      if user_only then a.exclude_kernel = true end
      attrs[i] = a
      local ev, message, code = core.open(a, 0, -1)
      if not ev and code == "EACCES" and not user_only then
        a.exclude_kernel = true
        ev, message, code = core.open(a, 0, -1)
        user_only = ev ~= nil
      end
      if not ev then return nil, message, code end
      ev:close()
    end
    local copy = open.copy(spec)
    copy.attrs = attrs
    return copy
  end

  local specs = {}
  local software, message, code = probe(resolve(SOFTWARE[1]))
  if not software then
    if refused[code] then return usage_set() end
    return nil, message, code
  end
  for _, name in ipairs(HARDWARE) do
    local spec = probe(resolve(name))
    if not spec and name == "cycles" then break end -- a machine that cannot count cycles counts none of them
    specs[#specs + 1] = spec
  end
  for _, name in ipairs(SOFTWARE) do
    specs[#specs + 1] = probe(resolve(name))
  end
  return M.open(specs)
end

return M
