-- The causes of refusals, and the messages about rings and filters.
--
-- This runs only after a failure. It reads small files of /proc and /sys, and opens and closes disabled events
-- (perf.event.probe). If it finds no cause, the message has only the kernel's error. Its parts are loaded when they are needed:
-- `permission`, `invalid` for the many causes of EINVAL, and `unavailable` for events that the machine does not have.
local core = require "perf.core"
local host = require "perf.kernel.host"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local probe = require "perf.event.probe"

local compose = require "perf.event.refusal".compose

local M = {}

local sets = { "sample_type", "read_format", "branch_sample_type", "bp_type" }

-- The attr in a uniform form: names of flags as sets, bits as booleans, `kind` the name of the type.
local function view(attr)
  local ok, v = pcall(function() return core.unpack(core.pack(attr)) end)
  if not ok then v = {} end
  v.set = {}
  for _, field in ipairs(sets) do
    v.set[field] = {}
    for _, name in ipairs(v[field] or {}) do v.set[field][name] = true end
  end
  v.config = v.config or 0
  v.kind = type(v.type) == "string" and v.type or nil
  if not v.kind then
    v.pmu = host.pmu(v.type)
    v.kind = v.pmu and v.pmu.name or "unknown"
  end
  return v
end

-- Limits and other causes that take one line each: functions of (attr's view, ctx, message) that return reason, remedies

local by_code = {}

for code, row in pairs_of { ENOMEM = { "the kernel has no memory left for the event", {} },
  EINTR = { "a signal came while the kernel waited for the process", { "try again" } },
  EFAULT = { "a pointer in the attr is invalid: kprobe_func and uprobe_path take strings", {} } } do
  by_code[code] = function() return row[1], row[2] end
end

function by_code.ESRCH(_, ctx)
  local pid = ctx.pid or 0
  local status = pid > 0 and host.status(pid)
  if status and (status.State or ""):find "^[ZX]" then
    return ("process %d has ended"):format(pid), {}
  end
  if pid < 0 then
    return ("no process has the pid %d"):format(pid),
      { "give a process, 0 for the calling thread, or -1 and a cpu for all processes on that CPU" }
  end
  if pid == 0 then return "the process has ended", {} end
  return ("there is no process or thread %d here"):format(pid),
    host.container() and { "a container has its own pid namespace: use the number that is seen inside" } or {}
end

function by_code.E2BIG(v, _, msg)
  local field = msg:match "attr field '([^']+)'"
  if field then
    return ("Linux %s does not have it"):format((core.uname())), { ("leave %s out"):format(field) }
  end
  if v.set.read_format.group then
    return "a record of the whole group would be too large", { "put fewer events into a group" }
  end
  return "a record with everything in its sample_type would be too large",
    { "request less, for example a smaller sample_stack_user" }
end

function by_code.EBUSY(v)
  if v.kind == "hardware" or v.kind == "raw" or v.kind == "hw_cache" or v.exclusive then
    return "another program uses the counters exclusively (an exclusive event, or a tool that bypasses the kernel)",
      { "stop it" }
  end
  if v.kind == "uprobe" or v.kind == "kprobe" then return "another probe at that place conflicts with it", {} end
  return ("another program uses the PMU %s exclusively"):format(v.kind), { "stop that program, for example perf record" }
end

function by_code.ENOSPC(v)
  if v.kind ~= "breakpoint" then return "the PMU has no counter left for it", { "count fewer events at once" } end
  local own = late "perf.event.idle".breakpoints()
  if own[1] then
    return ("this program's own events hold %s of the CPU's debug registers: %s"):format(
      #own >= 4 and "all 4" or #own, table.concat(own, ", ")), { "close one of them, or end the measurement that uses it" }
  end
  return "the CPU's debug registers are all in use (x86 has 4), by another program or a debugger, not by this program's events",
    { "stop it" }
end

function by_code.EOVERFLOW(v)
  local max = host.max_stack()
  if not max then return nil end
  local wanted = tonumber(v.sample_max_stack)
  if not wanted or wanted <= max then return "a callchain longer than the kernel keeps", {} end
  return ("sample_max_stack is %d and kernel.perf_event_max_stack %d"):format(wanted, max),
    { ("use sample_max_stack=%d"):format(max),
      ("run: sysctl kernel.perf_event_max_stack=%d while no callchain is being taken"):format(wanted) }
end

function by_code.EBADF(_, ctx)
  if ctx.cgroup then
    return "that is not the directory of a cgroup", { "give one under the cgroup mount that counts perf_event" }
  end
  if ctx.group then return "the event that leads the group is closed", {} end
  return nil
end

-- Causes for which the machine must be examined.
local function permission(v, ctx, _, code, what)
  return late "perf.event.refusal.permission".reason(v, code, ctx, what)
end
by_code.EACCES, by_code.EPERM, by_code.ENOSYS = permission, permission, permission

local function unavailable(v, ctx, _, code, what, attr)
  return late "perf.event.refusal.unavailable".reason(v, code, ctx, what, attr)
end
by_code.ENOENT, by_code.ENODEV, by_code.ENXIO, by_code.EOPNOTSUPP = unavailable, unavailable, unavailable, unavailable
-- Uprobes: ENOTSUPP, and EIO if the file system cannot map the file.
by_code.E524, by_code.EIO = unavailable, unavailable

function by_code.EINVAL(v, ctx, _, code, what, attr)
  local reason, remedies = late "perf.event.refusal.invalid".reason(v, ctx, attr)
  if reason then return reason, remedies end
  return unavailable(v, ctx, nil, code, what, attr)
end

local of_counters = { hardware = true, hw_cache = true, raw = true }
local absent = { ENOENT = true, EOPNOTSUPP = true, ENODEV = true, ENXIO = true }

-- The kernel checks the permission before it looks for a counter, so a refused event may also be one that this machine does not
-- have. An ordinary user's event of user space shows that.
-- @return the message and code of that event, if the machine does not have it
local function answer_in_user_space(attr, v)
  if not of_counters[v.kind] then return end
  local user = { disabled = true, exclude_kernel = true, exclude_hv = true }
  for _, field in ipairs { "type", "config", "config1", "config2" } do user[field] = attr[field] end
  local ok, code, message = probe.attempt(user)
  if not ok and absent[code] then return message, code end
end

-- Explain why core.open failed.
-- @param what, attr, msg, code, ctx, result as for perf.event.refusal
function M.open(what, attr, msg, code, ctx)
  local ok, reason, remedies = true, nil, nil
  -- An error in the explanation must not replace the error that it explains.
  if code == "EACCES" then
    local found, message, its = pcall(answer_in_user_space, attr, view(attr))
    if found and message then msg, code = message, its end
  end
  local find = by_code[code]
  if find then ok, reason, remedies = pcall(find, view(attr), ctx or {}, msg, code, what, attr) end
  return nil, compose(what, msg, ok and reason or nil, remedies), code
end

-- Other refusals ------------------------------------------------------------------------------------------------------

-- Explain why a ring could not be mapped.
-- @param pages data pages of the ring, or of its AUX area
-- @param msg mmap's message
-- @param code its errno's symbol
-- @param[opt] ctx {label=, attr=, cpu=, aux=true, shared=true if the event's records go to another's ring}
-- @return nil, message, code
function M.mmap(pages, msg, code, ctx)
  ctx = ctx or {}
  local reason, remedies
  if code == "EPERM" then
    reason, remedies = M.ring_limit(pages, ctx)
  elseif code == "EINVAL" then
    local v = ctx.attr and view(ctx.attr) or {}
    if pages < 1 or 2 ^ math.floor(math.log(pages) / math.log(2) + 0.5) ~= pages then
      reason, remedies = ("a ring's number of pages is a power of two, and %s is not"):format(tostring(pages)), {}
    elseif v.inherit and (ctx.cpu or -1) == -1 then
      reason = "the ring of an inherited event must be of one CPU"
      remedies = { "open it on each (perf.set, or cpu=)", "leave inherit out" }
    elseif ctx.aux then
      reason, remedies = "the AUX area must follow a data ring that is mapped already", {}
    else
      reason, remedies = "the event has a ring of another size already", {}
    end
  elseif code == "ENOMEM" then
    reason, remedies = "the kernel does not have that much memory in one piece", { "use fewer pages" }
  elseif code == "EBUSY" then
    reason, remedies = "the event's records go to the ring of another event", { "map that one", "undo set_output" }
  elseif code == "EOPNOTSUPP" or code == "ENODEV" then
    reason = ctx.aux and "this PMU has no AUX area" or "the event's PMU is gone"
  elseif code == "EAGAIN" then
    reason, remedies = "the process has no more memory to lock (RLIMIT_MEMLOCK)", { "run: ulimit -l unlimited" }
  end
  local size = ("%d pages%s"):format(pages, ctx.aux and " of AUX" or "")
  return nil, compose((ctx.label and ctx.label .. ": " or "") .. "ring of " .. size, msg, reason, remedies), code
end

-- The memory that rings may use, by kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK.
-- @return {per_cpu_kb=, cpus=, user_kb=, memlock_kb=, unlimited=} with math.huge if there is no limit
function M.ring_allowance()
  local kb = host.sysctl "kernel.perf_event_mlock_kb" or 516
  local cpus = #(host.cpus "online" or { 0 })
  local soft = core.rlimit "memlock"
  local level = host.paranoid() or 2
  return { per_cpu_kb = kb, cpus = cpus, user_kb = kb * cpus, memlock_kb = (soft or 0) / 1024,
    unlimited = level < 0 or host.has_capability "ipc_lock" }
end

-- A ring has an additional page, its header; an AUX area does not.
local function ring_kb(pages, aux) return (pages + (aux and 0 or 1)) * core.page_size() / 1024 end

function M.ring_limit(pages, ctx)
  local a = M.ring_allowance()
  local wants = ring_kb(pages, ctx.aux)
  if a.unlimited then return "a security module may forbid it: see the audit log", {} end
  local limit = a.memlock_kb == math.huge and "no limit" or ("%d KiB"):format(a.memlock_kb)
  local smaller = 1
  while smaller * 2 < pages and ring_kb(smaller * 2, ctx.aux) <= a.user_kb do smaller = smaller * 2 end
  local remedies = { "close other rings" }
  if smaller < pages then table.insert(remedies, 1, ("use fewer pages (%d)"):format(smaller)) end
  remedies[#remedies + 1] = ("run: sysctl kernel.perf_event_mlock_kb=%d"):format(
    math.max(a.per_cpu_kb * 2, math.ceil(wants / a.cpus)))
  remedies[#remedies + 1] = "give the program CAP_IPC_LOCK"
  return ("%d KiB, and the rings of all this user's programs share kernel.perf_event_mlock_kb, %d KiB for each of %d "
    .. "CPUs, and then this process's RLIMIT_MEMLOCK, %s"):format(wants, a.per_cpu_kb, a.cpus, limit), remedies
end

-- Explain why set_filter failed.
-- @param what the event's label
-- @param filter the text
-- @param msg the message
-- @param code its errno's symbol
-- @param[opt] attr the event's attr
-- @return nil, message, code
function M.filter(what, filter, msg, code, attr)
  local v = view(attr or {})
  local traced = v.kind == "tracepoint" or v.kind == "kprobe" or v.kind == "uprobe"
  local reason, remedies
  if code == "EINVAL" and attr and not traced then
    local addresses = v.pmu and host.number("/sys/bus/event_source/devices/" .. v.pmu.name .. "/nr_addr_filters")
    if addresses and addresses > 0 then
      reason = "an address filter reads: filter 0x1000/0x200@/path/of/file"
    else
      reason = "only tracepoints, probes and PMUs with address filters can be filtered"
    end
  elseif code == "EINVAL" or traced and code == "ENOENT" then
    reason = "the filter names a field that the tracepoint does not have, or is not an expression "
      .. "such as: common_pid != 0 && fd > 2"
    remedies = { "its fields are in the file format beside its id in tracefs" }
  elseif code == "EEXIST" then
    reason, remedies = "the event has a filter already", { "open another event" }
  elseif code == "ENOENT" then
    reason = "the file of the address filter does not exist"
  elseif code == "EOPNOTSUPP" then
    reason = "a filter by file needs an event of one process"
  end
  return nil, compose(("%s: filter '%s'"):format(what, filter), msg, reason, remedies), code
end

return M
