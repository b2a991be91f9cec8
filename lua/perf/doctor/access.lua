-- Checks whether this process may use perf_event_open, and for which events.
local core = require "perf.core"
local host = require "perf.kernel.host"
local late = require "perf.base.late"
local probe = require "perf.event.probe"

local checks = {}

local docker = "docker run --cap-add PERFMON ...  # or --security-opt seccomp=unconfined"

local function system_call(add)
  local ok, code, message = probe.can_open()
  if ok then return add("perf_event_open", true, "works") end
  local _, reason = late "perf.event.refusal"("dummy:u", probe.dummy(), message, code, {})
  local fix
  if host.seccomp() == 0 and not host.paranoid() then fix = "boot a kernel with CONFIG_PERF_EVENTS" end
  add("perf_event_open", false, reason:gsub("^dummy:u: perf_event_open: ", ""), fix)
end

-- The events that a level permits an ordinary user.
local function allows(level)
  if level < 0 then return "everything" end
  if level == 0 then return "everything but the raw data of tracepoints" end
  if level == 1 then return "own processes, with the kernel; not all of a CPU, no raw data of tracepoints" end
  -- Only a user who is bound by the level can see whether this kernel has Debian's patch; root cannot.
  if level >= 3 and (host.privileged() or not probe.can_open()) then
    return host.privileged() and "nothing on Debian's and Ubuntu's kernels, elsewhere the same as at 2" or "nothing"
  end
  return "own processes, user space only: context-switches, cpu-migrations and tracepoints count nothing"
end

local function setting(level, why)
  local where = host.container() and ", on the host" or ""
  return ("%s  # %s%s"):format(host.paranoid_command(level, "-w "), why, where)
end

local function paranoid(add)
  local level, message = host.paranoid()
  if not level then return add("perf_event_paranoid", false, message) end
  if host.has_capability "sys_admin" or (host.has_capability "perfmon" and probe.can_open()) then
    local cap = host.has_capability "sys_admin" and "CAP_SYS_ADMIN" or "CAP_PERFMON"
    return add("perf_event_paranoid", true,
      ("%d, which does not restrict this program: it has %s; an ordinary user may count %s"):format(level, cap, allows(level)))
  end
  local fix = { setting(1, "the kernel too"), setting(0, "whole CPUs too"), setting(-1, "raw data of tracepoints too") }
  if level >= 3 and not probe.can_open() then
    table.insert(fix, 1, setting(2, "user space")) -- CAP_PERFMON would not suffice at such a level
  elseif host.in_user_namespace() then
    fix[4] = "run it outside of its user namespace, whose capabilities do not count"
  else
    fix[4] = ("setcap cap_perfmon+ep %s  # for all who may run it"):format(host.program())
  end
  add("perf_event_paranoid", level <= 1, ("%d: this program may count %s"):format(level, allows(level)), fix)
end

local shown = { { "perfmon", "CAP_PERFMON" }, { "sys_admin", "CAP_SYS_ADMIN" }, { "bpf", "CAP_BPF" },
  { "ipc_lock", "CAP_IPC_LOCK" }, { "sys_ptrace", "CAP_SYS_PTRACE" } }

local function capabilities(add)
  if host.in_user_namespace() then
    return add("capabilities", nil, "this process has those of a user namespace, which perf ignores")
  end
  local has = {}
  for _, cap in ipairs(shown) do
    if host.has_capability(cap[1]) then has[#has + 1] = cap[2] end
  end
  add("capabilities", nil, #has > 0 and table.concat(has, " ") or ("none that matters here, as uid %d"):format(
    host.uid() or core.euid()))
end

local function seccomp(add)
  local mode = host.seccomp()
  if mode == 0 then return add("seccomp", true, "no filter") end
  local ok, code = probe.can_open()
  if ok then return add("seccomp", true, "a filter, which allows perf_event_open") end
  local level = host.paranoid()
  if code == "EACCES" and level and level >= 3 then
    return add("seccomp", nil, "a filter; its effect is unknown, since the level refuses too")
  end
  local fix = { docker }
  if not host.container() then fix[2] = "SystemCallFilter=@debug  # in a systemd unit that sets SystemCallFilter=" end
  add("seccomp", false, ("a filter denies perf_event_open to this process (%s)"):format(code), fix)
end

checks[1], checks[2], checks[3], checks[4] = system_call, paranoid, capabilities, seccomp

return checks
