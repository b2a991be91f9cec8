-- Finds the cause of an EINVAL of perf_event_open. The kernel gives no details, so we check the rules of kernel/events/core.c and
-- of the PMUs in the kernel's order: the attr alone, dummy events with the bits in question, the target, the kind of event, the
-- group. At last each field is left out in turn.
local copy = require "perf.base.copy"
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"
local host = require "perf.kernel.host"
local probe = require "perf.event.probe"
local u64 = require "perf.base.u64"

local M = {}

local function number(v) return tonumber(v) or 0 end

-- Bits set in a mask, as numbers.
local function bits(mask)
  local low, high = core.halves(mask)
  local list = {}
  for i = 0, 63 do
    local half = i < 32 and low or high
    if math.floor(half / 2 ^ (i % 32)) % 2 == 1 then list[#list + 1] = i end
  end
  return list
end

-- The attr alone ------------------------------------------------------------------------------------------------------

-- Names in a list, or unnamed bits, that the kernel does not know.
local function unknown_names(v)
  for _, field in ipairs { "sample_type", "read_format", "branch_sample_type" } do
    if field ~= "branch_sample_type" or v.set.sample_type.branch_stack then
      for _, name in ipairs(v[field] or {}) do
        local bit = tonumber(name:match "^bit(%d+)$")
        if probe.name(field, bit and core.shl(1, bit) or name) == false then
          return ("this kernel does not know '%s' of %s"):format(name, field), { "leave it out" }
        end
      end
    end
  end
end

local function unknown_bits(v)
  for _, field in ipairs { "defer_output", "defer_callchain", "sigtrap", "remove_on_exec", "inherit_thread", "build_id",
    "text_poke", "cgroup", "aux_output", "bpf_event", "ksymbol", "namespaces", "write_backward", "context_switch",
    "aux_start_paused", "aux_pause", "aux_resume" } do
    if v[field] and probe.field(field, "bit") == false then
      return ("this kernel does not know the field %s"):format(field), { "leave it out" }
    end
  end
end

local function aux_group(v, ctx)
  local field = v.aux_pause and "aux_pause" or v.aux_resume and "aux_resume" or v.aux_output and "aux_output"
    or v.aux_sample_size and "aux_sample_size"
  if field and not ctx.group then
    return field .. " acts on the AUX area of the event that leads its group", { "open it in such a group" }
  end
end

local function registers(v)
  for field, bit in pairs_of { sample_regs_user = "regs_user", sample_regs_intr = "regs_intr" } do
    if v.set.sample_type[bit] then
      local mask = v[field]
      if not mask then return field .. " names no register", { "set it to a mask of the CPU's registers" } end
      local refused = {}
      for _, i in ipairs(bits(mask)) do
        local attr = probe.dummy { sample_type = { bit }, [field] = core.shl(1, i) }
        if not probe.attempt(attr) then refused[#refused + 1] = i end
      end
      if #refused > 0 then
        return ("%s names registers that this CPU does not have: bit %s"):format(field, table.concat(refused, ", ")), {}
      end
    end
  end
end

local function contradictions(v)
  local sample = v.set.sample_type
  local stack = number(v.sample_stack_user)
  if sample.stack_user and (stack >= 65535 or stack % 8 ~= 0) then
    return ("sample_stack_user is %d, and must be a multiple of 8 below 65535"):format(stack), {}
  end
  if sample.branch_stack and not v.branch_sample_type then
    return "branch_stack needs a kind of branch in branch_sample_type", { 'add branch_sample_type={"any"}' }
  end
  if sample.branch_stack then
    local kinds = 0
    for name in pairs_of(v.set.branch_sample_type) do
      if name ~= "user" and name ~= "kernel" and name ~= "hv" then kinds = kinds + 1 end
    end
    if kinds == 0 then return "branch_sample_type has a privilege level but no kind of branch", { 'add "any"' } end
  end
  if sample.weight and sample.weight_struct then return "weight and weight_struct exclude each other", {} end
  if v.inherit_thread and not v.inherit then return "inherit_thread needs inherit", {} end
  if v.remove_on_exec and v.enable_on_exec then return "remove_on_exec and enable_on_exec exclude each other", {} end
  if v.sigtrap and not v.remove_on_exec then return "sigtrap needs remove_on_exec", {} end
  if v.aux_pause and v.aux_resume then return "aux_pause and aux_resume exclude each other", {} end
  if v.inherit and sample.read and not sample.tid then
    return "inherit with read in sample_type needs tid there too", { 'add "tid" to sample_type' }
  end
end

local function rate(v)
  if v.freq then
    local max = host.sysctl "kernel.perf_event_max_sample_rate"
    local wanted = number(v.sample_freq)
    if max and wanted > max then
      return ("sample_freq is %.0f, and kernel.perf_event_max_sample_rate %.0f"):format(wanted, max),
        { ("use sample_freq=%.0f"):format(max), ("run: sysctl kernel.perf_event_max_sample_rate=%.0f"):format(wanted) }
    end
  elseif v.sample_period then
    local _, high = core.halves(v.sample_period)
    if high >= 2 ^ 31 then return "sample_period is 2^63 or more", {} end
  end
end

-- The target, the kind ------------------------------------------------------------------------------------------------

local function target(v, ctx)
  local pid, cpu = ctx.pid or 0, ctx.cpu or -1
  if ctx.cgroup then
    if cpu == -1 then return "a cgroup's event needs a CPU", { "give cpu=, or use perf.set" } end
  elseif pid == -1 and cpu == -1 then
    return "pid=-1 with cpu=-1 would be every process on every CPU",
      { "give cpu=", "use perf.set, which opens one event on each CPU" }
  end
  if pid < -1 then return ("no process has the pid %d"):format(pid), {} end
  if cpu < -1 then return ("no CPU has the number %d"):format(cpu), {} end
  local possible = host.cpus "possible"
  if cpu >= 0 and possible and not possible.has[cpu] then
    return ("there is no CPU %d; this machine has %s"):format(cpu, possible.text), {}
  end
  if v.sigtrap and pid == -1 then return "sigtrap needs a process", {} end
end

local function uncore(v, ctx)
  local pmu = v.pmu
  if not pmu then return nil end
  local excluding = v.exclude_user or v.exclude_kernel or v.exclude_hv or v.exclude_idle or v.exclude_host
    or v.exclude_guest
  local cpumask = pmu:text "cpumask"
  if cpumask and (ctx.pid or 0) ~= -1 then
    return ("the PMU %s counts for all of a socket, not for a process"):format(pmu.name),
      { ("use pid=-1 and cpu=%s"):format(cpumask:match "%d+" or "0") }
  end
  -- Try the bare event: if a PMU can count processes, it must have another reason to refuse.
  local plain = { type = v.type, config = v.config, config1 = v.config1, config2 = v.config2, disabled = true }
  if not probe.attempt(plain, ctx.pid, ctx.cpu) then return nil end
  if excluding then
    return ("the PMU %s cannot tell user space from the kernel"):format(pmu.name),
      { "leave the modifiers and exclude_ fields out" }
  end
  if number(v.sample_period) ~= 0 or v.freq then
    return ("the PMU %s can count but not sample"):format(pmu.name), { "leave sample_period and sample_freq out" }
  end
end

local function breakpoint(v, ctx)
  if v.kind ~= "breakpoint" then return nil end
  local set, len = v.set.bp_type, number(v.bp_len)
  local low, in_kernel = core.halves(v.bp_addr or 0), u64.is_kernel(v.bp_addr or 0)
  local _, machine = core.uname()
  local x86 = machine == "x86_64" or machine:find "^i%d86$"
  if not (set.r or set.w or set.x) then return "bp_type is empty", { 'set it to {"w"}, {"r", "w"} or {"x"}' } end
  if set.x and (set.r or set.w) then return "a breakpoint on code cannot watch data too", { 'use bp_type={"x"}' } end
  if set.r and not set.w and x86 then return "x86 cannot watch reads alone", { 'use bp_type={"r", "w"}' } end
  if set.x and x86 and len ~= 8 then
    return ("bp_len is %d, and on code it must be 8"):format(len), {}
  end
  if len ~= 1 and len ~= 2 and len ~= 4 and len ~= 8 then
    return ("bp_len is %d, and must be 1, 2, 4 or 8"):format(len), {}
  end
  if not set.x and low % len ~= 0 then
    return ("bp_addr %s is not a multiple of bp_len %d"):format(core.hex(v.bp_addr), len), {}
  end
  if in_kernel and v.exclude_kernel then
    return ("bp_addr %s is the kernel's, and exclude_kernel leaves the kernel out"):format(core.hex(v.bp_addr)), {}
  end
  if in_kernel and machine == "aarch64" and ctx.pid ~= -1 then
    return "arm64 watches the kernel's addresses for a whole CPU only, not for a task", { "use pid=-1 with a cpu" }
  end
end

local function traced(v, _, attr)
  if v.kind == "tracepoint" then
    return ("no tracepoint has id %s, or perf cannot use it"):format(tostring(v.config)),
      { "ids are in tracefs, events/*/*/id" }
  elseif v.kind == "kprobe" then
    local where = attr.kprobe_func and attr.kprobe_func .. "+" .. core.hex(attr.probe_offset or 0) or "that address"
    return ("no kprobe can be set at %s: no instruction begins there, or the kernel needs it for probing"):format(where), {}
  elseif v.kind == "uprobe" and not attr.uprobe_path then
    return "a uprobe needs a file, and none is given", { "use perf.uprobe{path=, symbol=}" }
  elseif v.kind == "uprobe" then
    return ("no uprobe can be set at offset %s of %s: no instruction begins there, or it is no regular file"):format(
      core.hex(attr.probe_offset or 0), tostring(attr.uprobe_path)), {}
  end
end

-- The group -----------------------------------------------------------------------------------------------------------

local function group(v, ctx, attr)
  local leader = ctx.group
  if not leader then return nil end
  if not probe.attempt(copy(attr, { disabled = true }), ctx.pid, ctx.cpu) then return nil end
  local ok, info = pcall(function() return leader:info() end)
  info = ok and info or {}
  local first = info.attr or {}
  local name = info.label and ("its leader %s"):format(info.label) or "its leader"
  if info.leader then return name .. " is itself a member of a group", { "give that group's leader" } end
  if v.pinned or v.exclusive then
    return (v.pinned and "pinned" or "exclusive") .. " is for the leader of a group", { "set it there" }
  end
  if (ctx.cpu or -1) ~= (info.cpu or ctx.cpu or -1) then
    return ("it is on CPU %d and %s on CPU %d"):format(ctx.cpu or -1, name, info.cpu), {}
  end
  if (ctx.pid or 0) ~= (info.pid or ctx.pid or 0) then
    return ("it counts process %d and %s process %d"):format(ctx.pid or 0, name, info.pid), {}
  end
  if (v.inherit or false) ~= (first.inherit == true or first.inherit == 1) then
    return "inherit must be the same as that of " .. name, {}
  end
  if (v.use_clockid and v.clockid) ~= first.clockid then
    return "clockid must be the same as that of " .. name, {}
  end
  return ("it opens alone, but not beside %s: it belongs to another PMU, or there are not enough counters"):format(name),
    { "open it outside of the group" }
end

local function clock(v)
  if not v.use_clockid then return nil end
  if probe.name("clockid", v.clockid) == false then
    return ("this kernel has no clock %s for events"):format(tostring(v.clockid)), {}
  end
  if v.clockid ~= "monotonic" and v.clockid ~= "monotonic_raw" and v.kind ~= "software" then
    return ("clock %s is for software events only"):format(v.clockid),
      { 'use clockid="monotonic" or "monotonic_raw"' }
  end
end

local function by_field(v, ctx, attr)
  local field, name = probe.refused_field(attr, v.kind, ctx)
  if not field then return nil end
  return ("without %s it opens"):format(name and ("'%s' in %s"):format(name, field) or field), {}
end

-- The reason why an attr is invalid.
-- @param v the attr, as explain sees it
-- @param ctx {pid=, cpu=, group=, cgroup=}
-- @param attr the attr as it was given
-- @return reason, remedies; or nil
function M.reason(v, ctx, attr)
  for _, cause in ipairs { contradictions, unknown_names, unknown_bits, aux_group, registers, rate, target, breakpoint,
    group, clock, uncore, traced, by_field } do
    local reason, remedies = cause(v, ctx, attr)
    if reason then return reason, remedies end
  end
end

return M
