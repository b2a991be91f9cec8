--- The needs that a spec can declare, each with a probe.
--
-- Each probe asks the kernel (sysfs, proc, a system call), never the module under test. A probe gets the value given to
-- `requires`. It returns nil if the need is met, or else the need's name for the summary. Answers are kept, since a machine does
-- not change during a run.
local kit = require "testkit"
local sysctl = require "spec.support.sysctl"

local needs = {}

local function readable(path)
  local f = io.open(path, "r")
  if not f then return nil end
  local text = f:read(4096) -- a directory can be opened but not read: nil
  f:close()
  return text
end

local function exists(path)
  local f = io.open(path, "r")
  if f then f:close() end
  return f ~= nil
end

local devices = "/sys/bus/event_source/devices/"

--- Is this the system's root? A container's root has the id 0 too, but not all capabilities, or only those of its user namespace.
function needs.is_root()
  if kit.geteuid() ~= 0 then return false end
  local digit = readable "/proc/self/status":match "\nCapEff:%s*%x*(%x)%x%x%x%x%x\n"
  local sys_admin = math.floor(tonumber(digit, 16) / 2) % 2 == 1
  local map = readable "/proc/self/uid_map" -- nil in a kernel without user namespaces
  return sys_admin and (map == nil or map:find "^%s*0%s+0%s+4294967295%s") ~= nil
end

--- The path of tracefs if it can be read, or nil.
function needs.tracefs_dir()
  for _, dir in ipairs{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} do
    if readable(dir .. "/events/header_page") then return dir end
  end
end

--- The directory in which this user can make a cgroup whose events the kernel counts, or nil.
function needs.cgroup_dir()
  local v2
  for line in io.lines("/proc/self/mounts") do
    local dir, fs, options = line:match("^%S+ (%S+) (%S+) (%S+)")
    if fs == "cgroup" and ("," .. options .. ","):find(",perf_event,", 1, true) then return dir end
    if fs == "cgroup2" then v2 = dir end
  end
  return v2
end

--- The path of a file in $PERF_CORPUS, or nil.
function needs.corpus_path(name)
  local dir = os.getenv("PERF_CORPUS")
  local path = dir and dir .. "/" .. name
  return path and exists(path) and path or nil
end

local function command_exists(name)
  for dir in (os.getenv("PATH") or ""):gmatch("[^:]+") do
    if exists(dir .. "/" .. name) then return true end
  end
  return false
end

-- Whether a module is installed. Raises if it is installed but does not load.
local function module_exists(name)
  local ok, err = pcall(require, name)
  if ok then return true end
  if tostring(err):find("module '" .. name .. "' not found", 1, true) then return false end
  error(err, 0)
end

local function each(value)
  return type(value) == "table" and value or {value}
end

-- The probe of a need whose value is always `true`.
local function flag(name, probe)
  return function()
    if not probe() then return name end
  end
end

-- The probe of a need with names (one or a list); reports the first missing one.
local function named(prefix, probe)
  return function(value)
    for _, v in ipairs(each(value)) do
      if not probe(v) then return prefix .. v end
    end
  end
end

local probes = {}

-- The CPU's own PMU: counters for cycles and instructions.
probes.pmu = flag("a PMU", function()
  for _, name in ipairs{"cpu", "cpu_core", "armv8_pmuv3", "armv8_pmuv3_0"} do
    if exists(devices .. name .. "/type") then return true end
  end
  return kit.can_open{type = 0, config = 0}
end)

-- For pages that show the output of a machine without counters.
probes.nopmu = flag("a machine without a PMU", function() return probes.pmu(true) ~= nil end)

-- For an ordinary user, a probe runs only while no suite of root beside this one has changed perf_event_paranoid.
local function undisturbed(probe)
  return function(value)
    if needs.is_root() then return probe(value) end
    return sysctl("perf_event_paranoid", nil, probe, value)
  end
end

-- "user": events that count user space; true: the kernel too, which an ordinary user may not where perf_event_paranoid is 2 or
-- higher. Most specs count by names without ":u".
probes.perf_open = undisturbed(function(what)
  if kit.can_open { type = 1, config = 1, kernel = what == true } then return nil end
  return what == true and "events that count the kernel too" or "events that count user space"
end)

probes.root = flag("root", needs.is_root)

-- The kernel hides them from all users if kernel.kptr_restrict is 2.
probes.kernel_addresses = flag("the addresses of the kernel's functions", function()
  return (readable "/proc/kallsyms" or ""):find "%f[%x]0*[1-9a-f]%x* %a "
end)

probes.tracefs = flag("tracefs", needs.tracefs_dir)

-- By default only root may read tracefs, but it can be mounted for all users.
probes.hidden_tracefs = flag("a tracefs that ordinary users may not read", function()
  return needs.is_root() and needs.tracefs_dir() and
    kit.fork(function() assert(kit.drop() and not needs.tracefs_dir()) end) == 0
end)

-- A tracepoint, "group:name".
probes.tracepoint = named("tracepoint ", function(name)
  local dir = needs.tracefs_dir()
  return dir and readable(dir .. "/events/" .. name:gsub(":", "/") .. "/id")
end)

-- kernel.perf_event_paranoid is at most this level, or the user is exempt from it.
probes.paranoid = undisturbed(function(level)
  local now = tonumber(readable("/proc/sys/kernel/perf_event_paranoid") or "")
  if not needs.is_root() and (now or 4) > level then
    return "perf_event_paranoid <= " .. level
  end
end)

-- Opens a probe, since the system may refuse it although sysfs has its PMU: in lockdown mode, or by a seccomp filter.
local function can_probe(kind, name)
  local number = needs.is_root() and tonumber(readable(devices .. kind .. "/type") or "")
  return number and kit.can_open { type = number, name = name, kernel = true }
end

probes.kprobe = flag("kprobes", function()
  return can_probe("kprobe", "__x64_sys_getppid") or can_probe("kprobe", "__arm64_sys_getppid")
end)

probes.uprobe = flag("uprobes", function() return can_probe("uprobe", "spec/support/needs.lua") end) -- no process maps this file

probes.breakpoint = flag("hardware breakpoints", function()
  local cell = kit.cell()
  return kit.can_open{type = 5, bp_type = 3, bp_addr = cell:addr(), bp_len = 8}
end)

probes.bpf = flag("bpf", kit.can_bpf)

probes.cgroup = flag("a cgroup of its own", function()
  return needs.is_root() and needs.cgroup_dir()
end)

-- New cgroups: on some machines only the root cgroup has the kernel's perf_event controller.
probes.new_cgroup = flag("a new cgroup whose events are counted", function()
  local top = needs.is_root() and needs.cgroup_dir()
  if not top then return nil end
  local function cgroups() return tonumber((readable("/proc/cgroups") or ""):match("perf_event%s+%d+%s+(%d+)")) end
  local dir = ("'%s/lua-perf-need-%d'"):format(top, kit.getpid())
  local before = cgroups()
  os.execute("mkdir " .. dir)
  local after = cgroups()
  os.execute("rmdir " .. dir)
  return before and after and after > before
end)

probes.seccomp = flag("seccomp filters", function()
  return kit.fork(function() assert(kit.refuse("getrusage", 1)) end) == 0
end)

probes.jit = flag("LuaJIT with its compiler on", function()
  local jit = rawget(_G, "jit")
  return jit and jit.status()
end)

-- The profiler cannot name a C function on a LuaJIT with 32-bit references, such as Debian 11's.
probes.gc64 = flag("LuaJIT with 64-bit references (GC64)", function()
  return rawget(_G, "jit") == nil or require "ffi".abi "gc64"
end)

-- Stacks are unwound on x86-64 and arm64, on LuaJIT with GC64. `make test-safe-points` sets PERF_SAFE_POINT. With a sanitizer's
-- allocator PUC Lua's structures are not found.
probes.registers = flag("stacks from registers", function()
  local _, arch = require "perf.core".uname()
  if os.getenv "PERF_SAN" and not rawget(_G, "jit") then return false end
  return not os.getenv "PERF_SAFE_POINT" and (arch == "x86_64" or arch == "aarch64")
    and (rawget(_G, "jit") == nil or require "ffi".abi "gc64")
end)

-- The objects of the state can be read: of a LuaJIT whose stacks can, and of every PUC Lua whose addresses have 64 bits.
probes.heap = flag("snapshots of the heap", function()
  if rawget(_G, "jit") then return probes.registers(true) == nil end
  return #tostring(print):match "0x%x+" > 10
end)

probes.ffi = flag("LuaJIT's FFI (PERF_NO_FFI chooses the C API)", function() return os.getenv "PERF_NO_FFI" ~= "1" end)

probes.puc = flag("PUC Lua", function() return not rawget(_G, "jit") end)

probes.yields_in_pcall = flag("LuaJIT or Lua 5.2, which can yield within pcall", function()
  return rawget(_G, "jit") or _VERSION ~= "Lua 5.1"
end)

-- "luajit", or the oldest version of the language (LuaJIT is 5.1).
probes.lua = function(version)
  if version == "luajit" then
    return not rawget(_G, "jit") and "LuaJIT" or nil
  end
  local function number(text) return tonumber((text:gsub("^Lua ", ""))) end
  if number(_VERSION) < number(version) then return "Lua " .. version end
end

probes.cmd = named("the command ", command_exists)

-- Probed in a child: a module of an event loop opens descriptors when it is loaded, and closes them when it is collected.
probes.module = named("the module ", function(name)
  return package.loaded[name] ~= nil or kit.fork(function() assert(module_exists(name)) end) == 0
end)

-- An extension, which is only built if its library is installed: "bpf" means perf.ext.bpf.
probes.ext = named("perf.ext.", function(name) return module_exists("perf.ext." .. name) end)

probes.file = named("the file ", exists)

-- A function of nginx's Lua module that only some builds have.
probes.nginx_lua = named("nginx's Lua module with ", function(name)
  local f = io.open(os.getenv "PERF_NGINX" or "/usr/lib/nginx/modules/ngx_http_lua_module.so", "rb")
  local bytes = f and f:read "*a" or ""
  if f then f:close() end
  return bytes:find("ngx_http_lua_ffi_" .. name, 1, true)
end)

probes.corpus = function(value)
  if not os.getenv("PERF_CORPUS") then return "a corpus of perf.data files ($PERF_CORPUS)" end
  for _, name in ipairs(value == true and {} or each(value)) do
    if not needs.corpus_path(name) then return "the corpus file " .. name end
  end
end

probes.ncpu = function(n)
  if #kit.cpus() < n then return n .. " CPUs" end
end

-- For specs that the sanitizers' allocator, descriptors or slowness would disturb.
probes.nosan = flag("a build without sanitizers", function() return not os.getenv("PERF_SAN") end)

-- For specs that a collector at full pressure would disturb (exact counts of the interpreter's own work).
probes.nostress = flag("a collector left alone", function() return not os.getenv("PERF_GCSTRESS") end)

-- An interpreter that was started by the kernel, not through a loader on the command line: see tools/i386.sh.
probes.own_program = flag("an interpreter of its own", function() return not os.getenv("PERF_LOADER") end)

-- A property of an emulated machine, set by tools/vm/test.sh: "arm64", "icount", "smp", "amd64".
probes.vm = named("an emulated machine: ", function(word)
  return ((" " .. (os.getenv("PERF_VM") or "") .. " "):find(" " .. word .. " ", 1, true))
end)

-- A Neovim that tools/nvim.sh chose.
probes.nvim = flag("Neovim", function() return os.getenv "PERF_NVIM" end)

-- A server that tools/backends.sh started: "zipkin", "jaeger", "collector", "prometheus".
probes.backend = named("the server ", function(name) return os.getenv("PERF_BACKEND_" .. name:upper()) end)

-- Needs that this machine must meet ($PERF_MUST, names separated by commas): a spec that lacks one fails instead of being
-- skipped.
local must = {}
for key in (os.getenv("PERF_MUST") or ""):gmatch("[%w_]+") do
  if not probes[key] then error("PERF_MUST: no such need: " .. key) end
  must[key] = true
end

local kept = {}

local function ask(key, value)
  local id = key .. "=" .. table.concat(each(type(value) == "boolean" and "true" or value), ",")
  if kept[id] == nil then kept[id] = probes[key](value) or false end
  return kept[id] or nil
end

--- The needs of a list that are not met: a sorted array of names, and whether one of them must be met.
-- Raises for an unknown need.
function needs.unmet(list)
  local missing, failed = {}, nil
  for key, value in pairs(list) do
    if not probes[key] then error("requires: unknown need '" .. tostring(key) .. "'", 3) end
    if value == false then error("requires: " .. key .. " = false requires nothing", 3) end
    local name = ask(key, value)
    if name then
      missing[#missing + 1] = name
      if must[key] then failed = name end
    end
  end
  table.sort(missing)
  return missing, failed
end

return needs
