-- The features of this kernel, this machine and this build, each determined by an attempt.
--
-- A row is true, false, or a string that names the need ("needs a PMU"); nil if it cannot be determined without permission.
local core = require "perf.core"
local keys_of = require "perf.base.keys"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local format = require "perf.base.format"
local host = require "perf.kernel.host"
local checks = require "perf.api.check"
local probe = require "perf.event.probe"

local M = {}

--- The value of kernel.perf_event_paranoid.
-- @function perf.paranoid
-- @treturn integer @fails "ENOENT" if the kernel has no perf events

--- The largest number of frames in a call chain: kernel.perf_event_max_stack.
-- @function perf.max_stack
-- @treturn integer @fails
M.paranoid, M.max_stack = host.paranoid, host.max_stack

--- Whether this thread can open events at all, or one event.
-- @tparam[opt] string|table event a name or attr table, as for `perf.measure`
-- @treturn boolean
-- @treturn ?string the reason, if it is false
function M.supported(event)
  if event ~= nil then
    if late "perf.names.memory".resolve(event) then return true end -- perf.measure counts it
    local ev, reason = late "perf.event.open".open(event)
    if not ev then return false, reason end
    ev:close()
    return true
  end
  local ok, code, message = probe.can_open()
  if ok then return true end
  local _, reason = late "perf.event.refusal"("dummy:u", probe.dummy(), message, code, {})
  return false, reason
end

-- Features of the kernel ----------------------------------------------------------------------------------------------

local named = { "sample_type", "read_format", "branch_sample_type", "clockid" }

-- Newest first; the tables have the newest last.
local function newest_first(rows, visit)
  for i = #rows, 1, -1 do visit(rows[i]) end
end

local function interface(f)
  f.attr = {}
  for _, field in ipairs(named) do f[field] = {} end
  if not f.software then return end -- every answer would be the same refusal
  local defs = core.defs()
  local tables = { sample_type = defs.sample, read_format = defs.format, branch_sample_type = defs.branch,
    clockid = defs.clockid }
  newest_first(defs.attr, function(row) f.attr[row.name] = probe.field(row.name, row.kind) end)
  for _, field in ipairs(named) do
    newest_first(tables[field], function(row) f[field][row.name] = probe.name(field, row.name) end)
  end
end

-- Only the CPU's PMU records branches, so ask it.
local function branches(f)
  local cycles = { type = "hardware", config = 0, sample_period = 1000000 }
  local function ask(field, name)
    if not f.pmu.present then return f[field][name] and "needs a PMU" end
    local answer = probe.name(field, name, cycles)
    return answer == "needs a PMU" and "not on this CPU" or answer
  end
  for name in pairs_of(f.branch_sample_type) do f.branch_sample_type[name] = ask("branch_sample_type", name) end
  f.sample_type.branch_stack = ask("sample_type", "branch_stack")
  f.attr.branch_sample_type = f.sample_type.branch_stack
end

-- Arguments with which a method makes its ioctl without an effect; any answer but ENOTTY shows that the kernel has it.
local harmless = { set_period = 1, set_filter = "", set_bpf = 2 ^ 31 - 1, query_bpf = 1, refresh = 1, modify = probe.dummy() }

local function ioctls(f)
  f.ioctl = {}
  local ev = probe.open(probe.dummy(), 0, -1)
  if not ev then return end
  newest_first(core.defs().ioctl, function(row)
    local called, _, _, code = pcall(function() return ev[row.name](ev, harmless[row.name]) end)
    if called then f.ioctl[row.name] = code ~= "ENOTTY" end
  end)
  ev:close()
end

-- Kinds of events -----------------------------------------------------------------------------------------------------

-- The largest number of the same event in one group of the CPU's PMU. None is disabled: Arm's drivers do not count a disabled
-- leader, and so open a group that is too large by one, which never runs.
function M.counters()
  local events = {}
  while #events < 64 do
    local ev = probe.open({ type = "hardware", config = 0, exclude_kernel = true, exclude_hv = true }, 0, -1, events[1])
    if not ev then break end
    events[#events + 1] = ev
  end
  for i = #events, 1, -1 do events[i]:close() end
  return #events
end

-- Whether breakpoints can be set: on an address of user space that nothing uses.
function M.breakpoints()
  local ok, code = probe.attempt { type = "breakpoint", bp_type = { "w" }, bp_addr = 4096, bp_len = 1,
    exclude_kernel = true, exclude_hv = true, disabled = true }
  return ok or code == "ENOSPC"
end

-- Whether probes of a kind, "kprobe" or "uprobe", can be opened: true, false or the need.
function M.probes(kind)
  local dir = host.tracefs()
  if not host.pmu(kind) then
    if dir and host.readable(("%s/%s_events"):format(dir, kind)) then return "through tracefs only" end
    return false
  end
  local cap = kind == "kprobe" and "perfmon" or "sys_admin"
  if host.has_capability(cap) or host.has_capability "sys_admin" then return true end
  return "needs CAP_" .. cap:upper()
end

-- Whether BPF programs can be loaded: true, false or the need.
function M.bpf()
  local unprivileged = host.sysctl "kernel.unprivileged_bpf_disabled"
  if not unprivileged then return false end
  if host.has_capability "sys_admin" or (host.has_capability "bpf" and host.has_capability "perfmon") then return true end
  return "needs CAP_BPF and CAP_PERFMON"
end

local function kinds(f)
  local any = probe.can_open()
  local counts = probe.cpu_pmu()
  f.pmu = { present = counts, names = {}, counters = counts and M.counters() or nil }
  for i, pmu in ipairs(host.pmus()) do f.pmu.names[i] = pmu.name end
  f.software = any
  local dir, state, path = host.tracefs()
  f.tracefs = dir or (state == "unreadable" and "unreadable: " .. path or "not mounted")
  f.bpf = M.bpf()
  if any then
    f.kprobe, f.uprobe, f.breakpoints = M.probes "kprobe", M.probes "uprobe", M.breakpoints()
  end
end

-- This build ----------------------------------------------------------------------------------------------------------

local minimum = { bpf = " (libbpf 1.0 or newer)" }
local packages = { bpf = "libbpf-dev", symbols = "libdw-dev", tracefields = "libtraceevent-dev", pfm = "libpfm4-dev",
  zstd = "libzstd-dev", outside = "clang" }

-- The parts of this module that need a library.
-- @return {bpf = true or the need, ...}
function M.modules()
  local t = {}
  for name, package in pairs_of(packages) do
    local ok, message = pcall(late, "perf.ext." .. name)
    if ok then
      t[name] = true
    elseif tostring(message):find("module 'perf.ext." .. name .. "' not found", 1, true) then
      t[name] = ("not built: apt-get install %s, then make%s"):format(package, minimum[name] or "")
    else
      t[name] = "does not load: " .. tostring(message):match "[^\n]*"
    end
  end
  return t
end

-- The interpreter: {version=, jit=, compiler=, ffi=}.
function M.interpreter()
  local jit = rawget(_G, "jit")
  local t = { version = jit and jit.version or _VERSION, jit = jit ~= nil, compiler = false, ffi = false }
  if jit then
    t.compiler = (jit.status())
    t.ffi = (pcall(require, "ffi"))
  end
  return t
end

-- As text -------------------------------------------------------------------------------------------------------------

local WIDE, NARROW = 100, 60 -- columns

-- "all 25", or the names that exist and those that are missing.
local function summary(t)
  local by, n, all = {}, 0, 0
  for name, value in pairs_of(t) do
    all = all + 1
    if value == true then
      n = n + 1
    else
      local key = value or "not known to this kernel"
      by[key] = by[key] or {}
      table.insert(by[key], name)
    end
  end
  if all == 0 then return "unknown" end
  if n == all then return ("all %d"):format(n) end
  local parts, keys = {}, keys_of(by)
  if #keys == 1 and n == 0 then return keys[1] end
  for i, key in ipairs(keys) do
    table.sort(by[key])
    parts[i] = ("%s: %s"):format(key, table.concat(by[key], " "))
  end
  return ("%d of %d; %s"):format(n, all, table.concat(parts, "; "))
end

local function word(value)
  if value == true then return "yes" end
  if value == nil then return "unknown" end
  return value or "no"
end

local Features = {}

function Features.__tostring(f)
  local rows = {
    { "kernel", ("%s %s, perf_event_paranoid %s"):format(f.release, f.machine, tostring(f.paranoid or "missing")) },
    { "interpreter", f.interpreter.version .. (f.interpreter.ffi and ", FFI" or "")
      .. (f.interpreter.jit and (f.interpreter.compiler and ", compiler on" or ", compiler off") or "") },
    { "events", word(f.supported) },
    { "hardware", f.pmu.present and ("yes, %d counters"):format(f.pmu.counters) or word(f.pmu.present) },
    { "PMUs", table.concat(f.pmu.names, " ") },
    { "tracefs", f.tracefs },
    { "kprobes", word(f.kprobe) }, { "uprobes", word(f.uprobe) }, { "breakpoints", word(f.breakpoints) },
    { "bpf", word(f.bpf) },
    { "attr", summary(f.attr) },
  }
  for _, field in ipairs(named) do rows[#rows + 1] = { field, summary(f[field]) } end
  rows[#rows + 1] = { "ioctl", summary(f.ioctl) }
  for _, name in ipairs(keys_of(f.modules)) do rows[#rows + 1] = { "library of " .. name, word(f.modules[name]) } end
  local lines = {}
  local width = math.min(WIDE, format.columns() or WIDE)
  for _, row in ipairs(rows) do
    format.wrap(lines, (width < NARROW and "%s  " or "%-22s "):format(row[1]), row[2], width)
  end
  return table.concat(lines, "\n")
end

local known
local check = checks.options "perf.features"

--- The features that work here. They are determined once, and the answers are kept.
-- @tparam[opt] table options
-- @treturn table which prints well: `release`, `machine`, `paranoid`, `supported`, `interpreter`, `attr`, `sample_type`,
-- `read_format`, `branch_sample_type`, `clockid`, `ioctl` (by name: true, false, the need, or nil if it cannot be determined),
-- `pmu` ({present=, names=, counters=}), `software`, `tracefs`, `kprobe`, `uprobe`, `breakpoints`, `bpf`, `modules`
function M.features(opts)
  opts = check(opts, 1)
  if known and not opts.refresh then return known end
  local f = setmetatable({}, Features)
  f.release, f.machine = core.uname()
  f.paranoid = host.paranoid()
  f.supported = (M.supported())
  f.interpreter = M.interpreter()
  kinds(f)
  interface(f)
  branches(f)
  ioctls(f)
  f.modules = M.modules()
  -- If no descriptor is left, these results are only temporary.
  local dir, _, code = core.opendir "/"
  if dir then dir:close() end
  if dir or code ~= "EMFILE" and code ~= "ENFILE" then known = f end
  return f
end

return M
