-- Why this machine does not have an event: ENOENT, ENODEV, ENXIO, EOPNOTSUPP, and EINVAL if the attr is valid. A machine without
-- hardware counters returns one of these, depending on its hypervisor.
local core = require "perf.core"
local host = require "perf.kernel.host"
local probe = require "perf.event.probe"

local M = {}

local on_cpu = { hardware = true, hw_cache = true, raw = true }
local cycles = { [0] = true, [9] = true } -- cpu-cycles, ref-cycles

local function no_counters(v)
  local remedies = {}
  if v.kind == "hardware" and cycles[v.config] then
    remedies[1] = "use cpu-clock or task-clock"
  else
    remedies[1] = "count software events (perf.all_software)"
  end
  if not host.virtual() then return "this machine has no hardware counters that the kernel knows", remedies end
  remedies[2] = "let its host pass the PMU on (QEMU: -cpu host,pmu=on)"
  return "this virtual machine has no hardware counters", remedies
end

local function precise(v)
  local wanted = tonumber(v.precise_ip) or 0
  if wanted == 0 then return nil end
  local dir = v.pmu and v.pmu.name or "cpu"
  local max = host.number("/sys/bus/event_source/devices/" .. dir .. "/caps/max_precise")
  if max and max < wanted then
    return ("precise_ip is %d, and this CPU's PMU has %d at most"):format(wanted, max),
      { max > 0 and ("use precise_ip=%d"):format(max) or "leave precise_ip (the modifier p) out" }
  end
  return "this event cannot be sampled precisely here", { "leave precise_ip (the modifier p) out" }
end

local function branches(v)
  if not v.set.sample_type.branch_stack then return nil end
  if not on_cpu[v.kind] and not v.pmu then
    return "branch stacks come with hardware events only", { "sample cycles" }
  end
  return "this CPU records no branches, or not in this way", { "leave branch_stack out" }
end

local function aux(v)
  if v.aux_output or v.aux_start_paused or v.aux_pause or v.aux_resume then
    return "the event's PMU writes no AUX area that this could act on", {}
  end
end

local function registers(v)
  for _, field in ipairs { "sample_regs_user", "sample_regs_intr" } do
    local _, high = core.halves(v[field] or 0)
    if high ~= 0 then
      return ("%s asks for registers above bit 31, which this PMU cannot sample"):format(field), { "leave those out" }
    end
  end
end

local function sampling(v)
  local samples = (tonumber(v.sample_period) or 0) ~= 0 or (tonumber(v.sample_freq) or 0) ~= 0
  if not samples then return nil end
  return "this PMU can count but not sample, since it has no interrupt",
    { "count without sample_period and sample_freq", "sample cpu-clock" }
end

-- The one field without which the event can be opened, and the likely reason.
local function field_refused(v, attr, ctx)
  local field, name = probe.refused_field(attr, v.kind, ctx)
  local reason, remedies
  if field == "precise_ip" or not field then reason, remedies = precise(v) end
  if field == "sample_period" or field == "sample_freq" or not field then
    if not reason then reason, remedies = sampling(v) end
  end
  if reason or not field then return reason, remedies end
  return ("without %s it opens"):format(name and ("'%s' in %s"):format(name, field) or field), {}
end

local function offline(ctx)
  local cpu = ctx.cpu or -1
  local online = host.cpus "online"
  if cpu < 0 or not online or online.has[cpu] then return nil end
  return ("CPU %d is offline; online are %s"):format(cpu, online.text),
    { ("run: echo 1 > /sys/devices/system/cpu/cpu%d/online"):format(cpu) }
end

local function probe_point(v, code, attr)
  if v.kind == "kprobe" then
    local where = attr.kprobe_func and ("the kernel has no function '%s' on which a kprobe can be set"):format(attr.kprobe_func)
    return where or "no kprobe can be set there", { "available_filter_functions in tracefs lists functions for kprobes" }
  end
  if code == "ENOENT" then
    return ("there is no file '%s'"):format(tostring(attr.uprobe_path)), {}
  end
  return "no uprobe can be set there: no instruction begins there, or the file cannot be mapped", {}
end

local function unknown_type(v)
  local names = {}
  for i, pmu in ipairs(host.pmus()) do names[i] = ("%s=%s"):format(pmu.name, tostring(pmu.type)) end
  return ("no PMU here has type %s"):format(tostring(v.type)),
    { "the PMUs are " .. (names[1] and table.concat(names, " ") or "none") }
end

-- Why the machine does not have an event.
-- @param v the event's attr, as explain sees it
-- @param code the errno's symbol
-- @param ctx {pid=, cpu=, group=, cgroup=}
-- @param _ the event's label
-- @param attr the attr as it was given
-- @return reason, remedies; or nil
function M.reason(v, code, ctx, _, attr)
  if code == "ENODEV" or code == "ENXIO" then
    local reason, remedies = offline(ctx)
    if reason then return reason, remedies end
    local any, first = probe.can_open()
    if not any and first == code then
      return "no event at all opens: a sandbox such as gVisor has no perf events", {}
    end
  end
  if v.kind == "kprobe" or v.kind == "uprobe" then return probe_point(v, code, attr) end
  if code == "ENOENT" and ctx.cgroup then return "the kernel does not count this cgroup's events", {} end
  if v.kind == "unknown" then return unknown_type(v) end
  if code == "EOPNOTSUPP" then
    for _, cause in ipairs { branches, aux, registers } do
      local reason, remedies = cause(v)
      if reason then return reason, remedies end
    end
  end
  if v.kind == "software" then
    if code == "ENOENT" then
      return ("this kernel has no software event %s"):format(tostring(v.config)), {}
    end
  elseif v.kind == "tracepoint" then
    if code == "ENOENT" then return "this kernel is built without tracepoints (CONFIG_EVENT_TRACING)", {} end
  elseif v.kind == "breakpoint" then
    if code ~= "EINVAL" then return "this CPU has no debug registers for breakpoints, or its host keeps them", {} end
  end
  local counts
  if on_cpu[v.kind] then counts = probe.cpu_pmu() end
  if counts == false then return no_counters(v) end
  if code == "EOPNOTSUPP" then
    local reason, remedies = field_refused(v, attr, ctx)
    if reason then return reason, remedies end
  end
  if counts then return "this CPU's PMU does not count this event", { "use an event that perf.list() shows" } end
  if on_cpu[v.kind] or not v.pmu then return nil end
  return ("the PMU %s has no such event"):format(v.pmu.name),
    { ("its events are those of perf.list '%s/*'"):format(v.pmu.name) }
end

return M
