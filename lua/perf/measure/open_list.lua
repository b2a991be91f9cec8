-- Opens a list of events for perf.measure in as few kernel groups as possible: one for each PMU, split further if the counters do
-- not suffice. So every event is counted for part of the time, and the events of one group are counted over the same instants.
local copy = require "perf.base.copy"
local core = require "perf.core"
local layouts = require "perf.counts.layouts"
local idle = require "perf.event.idle"
local late = require "perf.base.late"
local open = require "perf.event.opening"
local plain = require "perf.names.plain"

local M = {}

local HARDWARE = { "cycles", "instructions", "branches", "branch-misses", "cache-references", "cache-misses" }
local MOST = 128 -- events of a group
local SOFTWARE = { "task-clock", "page-faults", "context-switches", "cpu-migrations" }

-- Events with the same key may share a kernel group: all software events, and the events of one PMU.
local function group_key(attr)
  if not open.is_hardware(attr) then return "software" end
  local kind = attr.type
  if kind == "hardware" or kind == "hw_cache" or kind == 0 or kind == 3 then
    local _, pmu = core.halves(attr.config or 0)
    return pmu ~= 0 and pmu or "cpu"
  end
  return (kind == "raw" or kind == 4) and "cpu" or kind
end

local function open_member(spec, attr, leader, format)
  local a = copy(attr)
  -- The leader stays disabled until its group is complete. Linux 6.18 leaves a clock that joins a running group of another
  -- software PMU unscheduled until the next context switch: it would count nothing.
  a.read_format, a.disabled = format, leader == nil
  return open.attr(spec, a, { group = leader })
end

-- Open all parts of one key as groups. parts: {{spec=, attr=, row=, slot=}, ...}. Appends to groups the arrays of parts with
-- .event set. Returns true, or nil, message, code, part.
local function open_groups(parts, groups, most)
  local current
  local format = #parts == 1 and open.single_format or open.group_format
  for _, part in ipairs(parts) do
    local ev, message, code
    if current and #current < most then
      ev = open_member(part.spec, part.attr, current[1].event, format)
    end
    if not ev then
      -- Try a separate group: the event may only not fit beside the others.
      ev, message, code = open_member(part.spec, part.attr, nil, format)
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

-- Whether a group never runs. A kernel may accept a group for which its counters do not suffice. Or other groups use them now.
local function never_runs(group)
  if #group < 2 or not open.is_hardware(group[1].attr) then return false end
  local leader = group[1].event
  leader:enable()
  local scan = leader:scan()
  leader:disable()
  return scan and scan[1] and scan.running_ns == 0 and scan.enabled_ns ~= 0 and not late "perf.measure.trial".fits(group)
end

-- Open all parts of one key as the fewest groups that run. If a group does not run, try one event less, since the kernel has
-- mostly not considered one counter (a watchdog's; Arm's drivers ignore a disabled leader), and then half as many. Appends to
-- groups, after a failure too.
local function open_running(parts, groups)
  local most, first = MOST, #groups + 1
  while true do
    local ok, message, code = open_groups(parts, groups, most)
    if not ok then return nil, message, code end
    local starving
    for i = first, #groups do
      if never_runs(groups[i]) then starving = math.max(starving or 0, #groups[i]) end
    end
    if not starving then return true end
    most = most == MOST and starving - 1 or math.floor(math.min(most, starving) / 2)
    for i = #groups, first, -1 do
      close_group(groups[i])
      groups[i] = nil
    end
  end
end

-- The arguments with which core.reopen opens the same groups again. Only for the kernel's software events, since a hardware group
-- must be tried each time, and a tracepoint's number may change.
local function plan_of(groups)
  local plan = { attrs = {}, sizes = {} }
  for g, group in ipairs(groups) do
    plan.sizes[g] = #group
    for _, part in ipairs(group) do
      local attr = part.event:info().attr
      if attr.type ~= 1 and attr.type ~= "software" then return nil end
      plan.attrs[#plan.attrs + 1] = core.pack(attr)
    end
  end
  return plan
end

-- The resources that a list holds until it is closed, by the names of perf.base.reclaim.
local function taken(groups, source)
  local takes = { any = true, hardware = source == "hardware" }
  for _, group in ipairs(groups) do
    for _, part in ipairs(group) do
      takes.breakpoint = takes.breakpoint or part.attr.type == "breakpoint" or part.attr.type == 5
    end
  end
  return takes
end

-- Open a list of events.
-- @param specs results of names.resolve, in the requested order
-- @return {meter=, words=, layout=, groups=, takes=}; or nil, message, code, and nothing left open
function M.open(specs)
  local keys, parts, groups, rows, memory = {}, {}, {}, {}, {}
  for i, spec in ipairs(specs) do
    -- A copy takes less memory: it has no room for the fields that are nil.
    rows[i] = copy { label = spec.label, unit = spec.unit, scale = spec.scale, slots = {}, why = spec.why,
      note = spec.note, pinned = spec.attrs[1] and spec.attrs[1].pinned }
    if spec.kind == "memory" then memory[#memory + 1] = { row = rows[i], field = spec.field } end
    for _, attr in ipairs(spec.attrs) do
      local key = group_key(attr)
      if not parts[key] then
        parts[key] = {}
        keys[#keys + 1] = key
      end
      table.insert(parts[key], { spec = spec, attr = attr, row = rows[i] })
    end
  end
  for _, key in ipairs(keys) do
    local ok, message, code = open_running(parts[key], groups)
    if not ok then
      for _, group in ipairs(groups) do close_group(group) end
      return nil, message, code
    end
  end

  local members, value, source = {}, 0, "software"
  for g, group in ipairs(groups) do
    local events = {}
    for i, part in ipairs(group) do
      events[i] = part.event
      local info = part.event:info()
      part.row.why, part.row.note = part.row.why or info.why, part.row.note or info.note
      table.insert(part.row.slots, { g - 1, value })
      value = value + 1
    end
    members[g] = core.group(events)
    if open.source(events) == "hardware" then source = "hardware" end
  end
  if memory[1] then
    local ok, message, code = late "perf.measure.memory".open(memory, members, value)
    if not ok then
      for _, group in ipairs(groups) do close_group(group) end
      return nil, message, code
    end
  end
  -- Software events were never enabled. A hardware group was, to see whether it gets counters at all. It is disabled between
  -- measurements, so that other events can use the counters.
  local meter = core.meter(members, source ~= "hardware" and not memory[1], source == "hardware")
  meter:own() -- they count this thread
  return { meter = meter, words = meter:words(), layout = layouts.layout(rows, #members, source),
    groups = members, plan = not memory[1] and plan_of(groups) or nil, takes = taken(groups, source) }
end

local software_takes = { any = true }

-- Open a list again that was opened in another thread, before a fork, or before its release.
-- @param set returned by `open`, with a `plan`
-- @return as `open`; nil if the kernel refuses it now
function M.reopen(set)
  local plan = set.plan
  local meter, groups = idle.reopen(plan.attrs, plan.sizes)
  return meter and { meter = meter, words = set.words, layout = set.layout, groups = groups, plan = plan, takes = software_takes }
end

local refused = { EPERM = true, EACCES = true, ENOSYS = true }

-- Open the best events of this machine: the usual hardware events that it can count, and the software events; the kernel's
-- accounting if perf_event_open is refused.
-- @return as `open`
function M.open_default()
  local user_only = false
  -- Open and close an event to see whether this machine counts it. Returns the spec; or the spec for user space only, if counting
  -- the kernel is not permitted.
  local function probe(spec)
    local attrs, user = {}, nil
    for i, attr in ipairs(spec.attrs) do
      local a = copy(attr)
      if user_only then a.exclude_kernel = true end
      local ev, message, code = idle.open(a, 0, -1)
      if not ev and code == "EACCES" and not user_only then
        a.exclude_kernel = true
        ev, message, code = idle.open(a, 0, -1)
        user_only = ev ~= nil
      end
      if not ev then return nil, message, code end
      ev:close()
      if user_only then user, attrs[i] = late "perf.event.user_only".of(spec, attr) end
    end
    if not user then return spec end -- a clock: excluding the kernel changes nothing
    user.attrs = attrs
    return user
  end

  local specs = {}
  local software, message, code = probe(plain(SOFTWARE[1]))
  if not software then
    if refused[code] then return late "perf.measure.usage".open() end
    return nil, message, code
  end
  if probe { label = "cycles", attrs = { { type = 0, config = 0 } } } then -- else the machine counts no hardware event
    for _, name in ipairs(HARDWARE) do specs[#specs + 1] = probe(plain(name) or late "perf.names".resolve(name)) end
  end
  for _, name in ipairs(SOFTWARE) do
    specs[#specs + 1] = probe(plain(name))
  end
  return M.open(specs)
end

return M
