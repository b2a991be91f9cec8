-- Checks the kinds of events, and whether they count.
local copy = require "perf.base.copy"
local core = require "perf.core"
local features = require "perf.doctor.features"
local host = require "perf.kernel.host"
local probe = require "perf.event.probe"

local no_events = "not examined, since no event opens"

-- Try to open an event with the kernel, then without. Returns "all", "user" or nil, code
local function opens(attr)
  local a = copy({ disabled = true }, attr)
  local ok, code = probe.attempt(a)
  if ok then return "all" end
  if code ~= "EACCES" and code ~= "EPERM" then return nil, code end
  a.exclude_kernel, a.exclude_hv = true, true
  ok, code = probe.attempt(a)
  return ok and "user" or nil, code
end

local clock = { CPU_CLOCK = true, TASK_CLOCK = true, DUMMY = true, BPF_OUTPUT = true }

local function software(add)
  if not probe.can_open() then return add("software events", nil, no_events) end
  local rows = core.defs().software
  local whole, user, silent, missing = 0, {}, {}, {}
  for _, row in ipairs(rows) do
    local how = opens { type = "software", config = row.value }
    if how == "all" or (how and clock[row.sym]) then
      whole = whole + 1
    elseif not how then
      missing[#missing + 1] = row.name
    else
      local list = row.in_kernel and silent or user
      list[#list + 1] = row.name
    end
  end
  local parts = { ("%d of %d count"):format(whole, #rows) }
  if #user > 0 then parts[#parts + 1] = "in user space only: " .. table.concat(user, " ") end
  if #silent > 0 then parts[#parts + 1] = "not permitted: " .. table.concat(silent, " ") end
  if #missing > 0 then parts[#parts + 1] = "newer than this kernel: " .. table.concat(missing, " ") end
  add("software events", #user == 0 and #silent == 0, table.concat(parts, "; "),
    host.paranoid_command(1, "-w "))
end

local default = { "cpu-cycles", "instructions", "branch-instructions", "branch-misses", "cache-references",
  "cache-misses" }

-- Whether an event counts while a loop runs.
local function counts(config)
  local ev = probe.open({ type = "hardware", config = config, exclude_kernel = true, exclude_hv = true,
    disabled = true }, 0, -1)
  if not ev then return false end
  ev:enable()
  local n = 0
  for i = 1, 20000 do n = n + i % 7 end
  ev:disable()
  local scan = ev:scan()
  ev:close()
  return scan and scan[1] and scan[1].value ~= 0 and n > 0
end

local function hardware(add)
  if not probe.can_open() then return add("hardware counters", nil, no_events) end
  if not probe.cpu_pmu() then
    if not host.virtual() then return add("hardware counters", false, "the kernel knows no counters of this CPU") end
    return add("hardware counters", false, "none: the host of this virtual machine does not pass its PMU on; "
      .. "cpu-clock and task-clock measure time instead of cycles", "qemu-system-x86_64 -cpu host,pmu=on ...  # on the host")
  end
  local has, lacks, by_name = {}, {}, {}
  for _, row in ipairs(core.defs().hardware) do by_name[row.name] = row.value end
  for _, name in ipairs(default) do
    local list = counts(by_name[name]) and has or lacks
    list[#list + 1] = name
  end
  local text = ("%d at once; count: %s"):format(features.counters(), table.concat(has, " "))
  if #lacks > 0 then text = text .. "; do not: " .. table.concat(lacks, " ") end
  add("hardware counters", #lacks == 0 or nil, text)
  if host.sysctl "kernel.nmi_watchdog" == 1 then
    add("NMI watchdog", false, "uses one counter all the time", "sysctl -w kernel.nmi_watchdog=0")
  end
  local rdpmc = host.number "/sys/bus/event_source/devices/cpu/rdpmc" or host.sysctl "kernel.perf_user_access"
  if rdpmc then
    add("reads in user space", rdpmc ~= 0, rdpmc ~= 0 and "allowed: a thread's own counters are read without a system call"
      or "not allowed: each reading of a counter is a system call", host.sysctl "kernel.perf_user_access"
      and "sysctl -w kernel.perf_user_access=1" or "echo 1 > /sys/bus/event_source/devices/cpu/rdpmc")
  end
end

local function tracefs(add)
  local dir, state, path = host.tracefs()
  if dir then return add("tracefs", true, dir .. ", readable") end
  if state == "unreadable" then
    return add("tracefs", false, path .. " is for root, so tracepoints have no names",
      ("mount -o remount,mode=750,gid=GROUP %s  # for the users of a group"):format(path))
  end
  local fix = "mount -t tracefs tracefs /sys/kernel/tracing"
  if host.container() then fix = "docker run -v /sys/kernel/tracing:/sys/kernel/tracing ..." end
  add("tracefs", false, "not mounted, at /sys/kernel/tracing nor /sys/kernel/debug/tracing", fix)
end

local function probes(add)
  for _, kind in ipairs { "kprobe", "uprobe" } do
    local answer = features.probes(kind)
    local option = ("CONFIG_%s_EVENTS"):format(kind:upper())
    if answer == true then
      add(kind .. "s", true, "can be opened")
    elseif not answer then
      add(kind .. "s", nil, "this kernel is built without them (" .. option .. ")")
    else
      local cap = answer:match "CAP_PERFMON"
      add(kind .. "s", false, answer, cap and ("setcap cap_perfmon+ep %s"):format(host.program()) or "run it as root")
    end
  end
end

local function breakpoints(add)
  if not probe.can_open() then return add("breakpoints", nil, no_events) end
  local ok = features.breakpoints()
  add("breakpoints", ok or nil, ok and "can be set" or "this CPU or its host has no debug registers for them")
end

local function bpf(add)
  local answer = features.bpf()
  if answer == false then return add("BPF", nil, "this kernel is built without it (CONFIG_BPF_SYSCALL)") end
  local types = host.readable "/sys/kernel/btf/vmlinux" and "with the kernel's types (BTF)" or "without the kernel's types"
  if answer == true then return add("BPF", true, "programs can be loaded, " .. types) end
  add("BPF", false, answer, ("setcap cap_bpf,cap_perfmon+ep %s"):format(host.program()))
end

return { software, hardware, tracefs, probes, breakpoints, bpf }
