-- The causes of EACCES, EPERM and ENOSYS from perf_event_open, and the remedies.
--
-- The kernel checks, in this order: a seccomp filter (any errno, mostly EPERM or ENOSYS); on Debian's and Ubuntu's kernels
-- whether kernel.perf_event_paranoid is 3 or 4 (EACCES, CAP_SYS_ADMIN only); the level that the event needs:
--
--   -1   everything, raw tracepoint data too
--    0   everything but raw tracepoint data (EPERM)
--    1   also not every process of a CPU (EACCES)
--    2   also not the kernel (EACCES)
--
-- (CAP_PERFMON, before Linux 5.8 CAP_SYS_ADMIN, overrides the level); events that no level permits; whether the process may be
-- traced.
local host = require "perf.kernel.host"
local modifiers = require "perf.names.modifiers"
local probe = require "perf.event.probe"
local u64 = require "perf.base.u64"

local M = {}

-- The name of the activity that an event counts, if it happens only in the kernel; otherwise nil.
local function in_kernel(v, what)
  if v.kind == "tracepoint" then
    if what:find "^syscalls:" then return nil end
    return "tracepoints are in the kernel, and only those of system calls count with :u"
  end
  local activity = v.kind == "software" and probe.in_kernel(v.config)
  return activity and activity .. " happen in the kernel, so :u would count none" or nil
end

-- A label that counts user space only: "cycles:k" -> "cycles:u", "cpu/event=1/" -> "cpu/event=1/u".
-- @return string; or nil for a label that is not an event's name
function M.user_only(what)
  if what:find "%s" or what == "" then return nil end
  local pmu = what:match "^([^/]+/[^/]*/)%a*$"
  if pmu then return pmu .. "u" end
  local name, letters = what:match "^(.+):(%a*)$"
  return (letters and not modifiers.check(letters) and name or what) .. ":u"
end

local function cpu_wide(ctx)
  return ctx.pid == -1 or ctx.cgroup ~= nil
end

local function branches_kernel(v)
  local set = v.set.branch_sample_type
  if not v.set.sample_type.branch_stack then return false end
  if set.kernel or set.hv then return true end
  return not set.user and not (v.exclude_kernel and v.exclude_hv) -- levels that are not named follow the event's
end

-- The features that need a level of kernel.perf_event_paranoid: the highest level that permits it, its name, and whether an event
-- uses it.
local rules = {
  { most = 1, what = "counting the kernel", applies = function(v) return not v.exclude_kernel end },
  { most = 1, what = "physical addresses", applies = function(v) return v.set.sample_type.phys_addr end },
  { most = 1, what = "the kernel's branches", applies = branches_kernel },
  { most = 0, what = "every process of a CPU", applies = function(_, ctx) return cpu_wide(ctx) end },
  { most = -1, what = "raw data of tracepoints", applies = function(v)
    return v.kind == "tracepoint" and v.set.sample_type.raw
  end },
}

-- The features that no level permits, and the capability that each needs.
local always = {
  { cap = "perfmon", what = "namespace records", applies = function(v) return v.namespaces end },
  { cap = "perfmon", what = "kprobes", applies = function(v) return v.kind == "kprobe" end },
  { cap = "sys_admin", what = "uprobes", applies = function(v) return v.kind == "uprobe" end },
  { cap = "sys_admin", what = "breakpoints on the kernel's addresses", applies = function(v)
    return v.kind == "breakpoint" and v.bp_addr ~= nil and u64.is_kernel(v.bp_addr)
  end },
}

-- The permissions that an event needs and this thread lacks.
-- @param v the event's attr, as explain sees it
-- @param ctx {pid=, cpu=, cgroup=}
-- @param level kernel.perf_event_paranoid
-- @return array of {most=, what=} or {cap=, what=}
function M.missing(v, ctx, level)
  local list = {}
  if not host.privileged() then
    for _, rule in ipairs(rules) do
      if level > rule.most and rule.applies(v, ctx) then list[#list + 1] = rule end
    end
  end
  for _, rule in ipairs(always) do
    if rule.applies(v, ctx) and not host.has_capability(rule.cap) and not host.has_capability "sys_admin" then
      list[#list + 1] = rule
    end
  end
  return list
end

local function words(list)
  local t = {}
  for i, rule in ipairs(list) do t[i] = rule.what end
  if #t < 2 then return t[1] end
  return table.concat(t, ", ", 1, #t - 1) .. " and " .. t[#t]
end

-- The capability as a remedy, if it would help.
local function capability_remedy(cap)
  if host.in_user_namespace() then
    return "run outside of this user namespace, whose capabilities do not count here"
  end
  return "give the program " .. cap
end

local function level_reason(list, v, ctx, level, what)
  local most, kernel, others = 2, false, {}
  for _, rule in ipairs(list) do
    if rule.cap then -- no level replaces a capability
      local cap = "CAP_" .. rule.cap:upper()
      return ("%s take %s, whatever kernel.perf_event_paranoid is"):format(rule.what, cap), { capability_remedy(cap) }
    end
    most = math.min(most, rule.most)
    if rule == rules[1] then kernel = true else others[#others + 1] = rule end
  end
  local reason = "kernel.perf_event_paranoid is " .. level
  if #list > 1 or not kernel then
    reason = ("%s, and must be %d or less for %s"):format(reason, most, words(list))
  end
  local remedies = {}
  if kernel and #others == 0 then
    local silent, user = in_kernel(v, what), M.user_only(what)
    if silent then
      reason = reason .. "; " .. silent
    else
      remedies[1] = "count user space only with " .. (user or "exclude_kernel=true")
    end
  elseif cpu_wide(ctx) and #others == 1 and not ctx.cgroup then
    remedies[1] = "count one process instead" .. (kernel and ", user space only" or "")
  end
  remedies[#remedies + 1] = "run: " .. host.paranoid_command(most)
  remedies[#remedies + 1] = capability_remedy "CAP_PERFMON"
  return reason, remedies
end

local function seccomp_reason()
  local remedies = { "run the container with --cap-add PERFMON", "with --security-opt seccomp=unconfined" }
  if not host.container() then
    remedies = { "allow perf_event_open in it: docker run --cap-add PERFMON", "SystemCallFilter=@debug of a systemd unit" }
  end
  return "a seccomp filter denies perf_event_open to this process", remedies
end

-- The reason if no event at all can be opened.
local function total_refusal(code, level)
  local filtered = host.seccomp() ~= 0
  if not level then
    if filtered and code ~= "ENOSYS" then return seccomp_reason() end
    return "there is no kernel.perf_event_paranoid: this kernel is built without perf events (CONFIG_PERF_EVENTS)", {}
  end
  -- The kernel itself refuses with EACCES, at level 3 or higher.
  if filtered and (code ~= "EACCES" or level < 3 or host.has_capability "sys_admin") then return seccomp_reason() end
  if code == "ENOSYS" then
    return "a sandbox denies the system call to this process", {}
  end
  if level >= 3 and not host.has_capability "sys_admin" then
    local remedies = { "run: " .. host.paranoid_command(2), capability_remedy "CAP_SYS_ADMIN" }
    local note = host.has_capability "perfmon" and " and CAP_PERFMON does not suffice" or ""
    return ("kernel.perf_event_paranoid is %d, where this kernel refuses every event to users%s"):format(level, note),
      remedies
  end
  return "a security module or sandbox refuses perf_event_open to this process", {}
end

-- Whether the kernel's check for tracing the process (PTRACE_MODE_READ) is the cause.
local function other_process(ctx)
  local pid = ctx.pid
  if not pid or pid <= 0 or ctx.cgroup or host.privileged() then return nil end
  local _, _, code = host.read_file(("/proc/%d/auxv"):format(pid))
  if code ~= "EACCES" and code ~= "EPERM" then return nil end
  local owner, mine = host.uid(pid), host.uid()
  local remedy = "give the program CAP_PERFMON"
  if owner and owner ~= mine then
    return ("process %d belongs to uid %d, and this program runs as uid %d"):format(pid, owner, mine),
      { "run as that user", remedy }
  end
  return ("process %d does not allow tracing"):format(pid), { remedy }
end

-- Why the thread may not open an event.
-- @param v the event's attr, as explain sees it
-- @param code "EACCES", "EPERM" or "ENOSYS"
-- @param ctx {pid=, cpu=, cgroup=}
-- @param what the event's label
-- @return reason, remedies
function M.reason(v, code, ctx, what)
  local level = host.paranoid()
  local any, first = probe.can_open()
  if not any and (first == code or not level) then return total_refusal(code, level) end
  if code == "ENOSYS" then
    if v.set.sample_type.stack_user then return "this CPU's kernel cannot copy the user stack (stack_user)", {} end
    return nil
  end
  local list = M.missing(v, ctx, level or 2)
  if #list > 0 then return level_reason(list, v, ctx, level, what) end
  local reason, remedies = other_process(ctx)
  if reason then return reason, remedies end
  if (host.line "/sys/kernel/security/lockdown" or ""):find("[confidentiality]", 1, true) then
    return "the kernel is locked down (confidentiality)", { "boot without lockdown" }
  end
  if v.sigtrap and (ctx.pid or 0) > 0 then
    return "sigtrap signals the other process: that needs CAP_KILL besides CAP_PERFMON, or the right to trace that process", {}
  end
  if host.seccomp() ~= 0 and code == "EPERM" then return seccomp_reason() end
  return "a security module (SELinux, AppArmor) may forbid it: see the audit log", {}
end

return M
