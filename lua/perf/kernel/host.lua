-- Facts about this machine and this thread from /proc and /sys. Each call reads them anew, since an administrator may change
-- settings between two calls. Loading the module reads nothing.
--
-- Specs set `host.root`, the prefix of every path, to a temporary tree.
local core = require "perf.core"
local late = require "perf.base.late"
local reclaim = require "perf.base.reclaim"

local M = { root = "" }

local codes = { [1] = "EPERM", [2] = "ENOENT", [5] = "EIO", [12] = "ENOMEM", [13] = "EACCES", [20] = "ENOTDIR",
  [21] = "EISDIR", [22] = "EINVAL", [23] = "ENFILE", [24] = "EMFILE" }

-- The text of a small file.
-- @param path absolute path
-- @param what "*l" for the first line alone, without its end; by default all
-- @return string; or nil, message, code
function M.read_file(path, what)
  local f, message, number = reclaim.open_file(M.root .. path, "r")
  if not f then return nil, message, codes[number] or "E" .. tostring(number) end
  local text
  text, message, number = f:read(what or "*a")
  f:close()
  if message then return nil, ("%s: %s"):format(path, message), codes[number] or "EIO" end
  return text or "" -- an empty file has no line
end

-- The first line of a file, which may be long: the kernel takes 50 ms to list its symbols.
-- @return string; or nil, message, code
function M.line(path) return M.read_file(path, "*l") end

-- The number that a file begins with.
-- @return number; or nil, message, code
function M.number(path)
  local text, message, code = M.read_file(path)
  if not text then return nil, message, code end
  local n = tonumber(text:match "^%s*([%w%-+.]+)" or "")
  if not n then return nil, path .. ": not a number", "EINVAL" end
  return n
end

-- Whether a file can be opened.
function M.readable(path)
  local f = io.open(M.root .. path, "r")
  if f then f:close() end
  return f ~= nil
end

-- The names in a directory, sorted.
-- @return array of strings; or nil, message, code
function M.list(path)
  local names, message, code = core.listdir(M.root .. path)
  if not names then return nil, message, code end
  table.sort(names)
  return names
end

-- A number of sysctl, by its name: "kernel.perf_event_paranoid".
-- @return number; or nil, message, code
function M.sysctl(name)
  return M.number("/proc/sys/" .. name:gsub("%.", "/"))
end

-- This thread: its identity and permissions ---------------------------------------------------------------------------

-- The lines of /proc/PID/status; without a pid, of the calling thread, since capabilities and seccomp belong to a thread.
-- @return {Uid = "0\t0\t0\t0", CapEff = "...", ...}; or nil, message, code
function M.status(pid)
  local text, message, code = M.read_file(pid and ("/proc/%d/status"):format(pid) or "/proc/thread-self/status")
  if not text and not pid then text, message, code = M.read_file "/proc/self/status" end
  if not text then return nil, message, code end
  local t = {}
  for key, value in text:gmatch "([^\n:]+):[ \t]*([^\n]*)" do t[key] = value end
  return t
end

-- If the kernel removes a thread while it lists a process's threads, the list may end there and lack threads that live. So the
-- threads are listed again if their number has changed meanwhile, but not for ever in a process that keeps starting threads.
local LISTINGS = 100

local function number_of_threads(pid)
  local status = M.status(pid)
  return tonumber(status and status.Threads)
end

-- The threads of a process.
-- @return array of thread ids, sorted; or nil, message, code ("ESRCH" when there is no such process)
function M.threads(pid)
  local list = {}
  for _ = 1, LISTINGS do
    local before = number_of_threads(pid)
    local names, message, code = core.listdir(M.root .. ("/proc/%d/task"):format(pid))
    if code == "ENOENT" then return nil, ("no process %d"):format(pid), "ESRCH" end
    if not names then return nil, message, code end
    list = names
    if not before or #names == before and number_of_threads(pid) == before then break end
  end
  for i, name in ipairs(list) do list[i] = tonumber(name) end
  table.sort(list)
  return list
end

-- The children of a process, and theirs, but not this process and its children.
-- @return array of process ids
function M.descendants(pid)
  local list, own = {}, core.pid()
  local function add(parent)
    for _, tid in ipairs(M.threads(parent) or {}) do
      for child in (M.read_file(("/proc/%d/task/%d/children"):format(parent, tid)) or ""):gmatch "%d+" do
        child = tonumber(child)
        if child ~= own then
          list[#list + 1] = child
          add(child)
        end
      end
    end
  end
  add(pid)
  return list
end

-- Some processes with their children, and theirs: each once.
-- @return array of process ids
function M.with_descendants(pids)
  local list, seen = {}, {}
  local function add(pid)
    if not seen[pid] then seen[pid], list[#list + 1] = true, pid end
  end
  for _, pid in ipairs(pids) do
    add(pid)
    for _, child in ipairs(M.descendants(pid)) do add(child) end
  end
  return list
end

-- Whether a process runs, and has not ended as a zombie. Its first thread may have ended before the others.
-- @return boolean; or nil, message, code if that cannot be told
function M.is_running(pid)
  local status, message, code = M.status(pid)
  if not status and code ~= "ENOENT" and code ~= "ESRCH" then return nil, message, code end
  if not status then return false end
  return not (status.State or ""):find "^[ZX]" or (tonumber(status.Threads) or 0) > 1
end

-- Whether one of several processes runs.
function M.any_runs(pids)
  for _, pid in ipairs(pids) do
    if M.is_running(pid) then return true end
  end
  return false
end

-- The effective user id of a process, without a pid of the calling thread; nil if /proc cannot be read.
function M.uid(pid)
  local status = M.status(pid)
  local uid = status and status.Uid and status.Uid:match "^%d+%s+(%d+)"
  if uid then return tonumber(uid) end
  return not pid and core.euid() or nil
end

local capability = { kill = 5, ipc_lock = 14, sys_ptrace = 19, sys_admin = 21, perfmon = 38, bpf = 39 }

-- Whether the thread is in a separate user namespace, where capabilities (and uid 0) do not give access to perf events.
function M.in_user_namespace()
  local map = M.read_file "/proc/self/uid_map"
  if not map then return false end
  local inside, outside, count = map:match "^%s*(%d+)%s+(%d+)%s+(%d+)"
  return not (inside == "0" and outside == "0" and count == "4294967295")
end

-- Whether a number of hexadecimal digits has a bit, such as a set of capabilities in /proc/PID/status.
function M.has_bit(hex, bit)
  local at = #hex - math.floor(bit / 4)
  local digit = tonumber(hex:sub(at, at), 16)
  return digit ~= nil and math.floor(digit / 2 ^ (bit % 4)) % 2 == 1
end

-- Whether the calling thread has a capability: "perfmon", "sys_admin", "bpf", "ipc_lock", "sys_ptrace", "kill".
-- A capability that is only valid in a user namespace does not count.
function M.has_capability(name)
  local bit = capability[name]
  local status = M.status()
  local hex = status and status.CapEff
  if not hex or M.in_user_namespace() then return false end
  return M.has_bit(hex, bit)
end

-- Whether the calling thread is exempt from kernel.perf_event_paranoid: it has CAP_PERFMON, or CAP_SYS_ADMIN which includes it.
function M.privileged()
  return M.has_capability "perfmon" or M.has_capability "sys_admin"
end

-- The thread's seccomp mode: 0 none, 1 strict, 2 filter.
function M.seccomp()
  local status = M.status()
  return status and tonumber(status.Seccomp) or 0
end

-- The mappings in the text of a file such as /proc/self/maps.
-- @return iterator of texts, as that of `maps`
function M.mappings(text) return text:gmatch "(%x+)%-(%x+) (%S+) (%x+) (%x+):(%x+) (%d+) *([^\n]*)" end

-- The mappings of a process, without a pid of the calling one.
-- @return iterator of texts: first and last address, permissions, offset, the device's two numbers, inode, path or name; and
-- where the mappings cannot be read, message, code
function M.maps(pid)
  local text, message, code = M.read_file(("/proc/%s/maps"):format(pid and ("%d"):format(pid) or "self"))
  return M.mappings(text or ""), message, code
end

-- The mappings of code.
-- @param mappings iterator, that of `mappings` or `maps`
-- @return array of {from =, to =, offset =, path =, file =}; `file` is a text that no other file has, nil for code in no file
function M.code(mappings)
  local list = {}
  for from, to, perms, offset, major, minor, inode, path in mappings do
    if perms:find "x" then
      list[#list + 1] = { from = tonumber(from, 16), to = tonumber(to, 16), offset = tonumber(offset, 16), path = path,
        file = inode ~= "0" and ("%s:%s %s"):format(major, minor, inode) or nil }
    end
  end
  return list
end

-- The mapping in such a list that has an address; nil if no code is there.
function M.code_at(list, address)
  -- On Lua 5.1 and 5.2, a value too large for a number is a string; no code is there.
  for _, m in ipairs(type(address) ~= "string" and list or {}) do
    if address >= m.from and address < m.to then return m end
  end
end

-- The path of the running program, for commands such as setcap: the path of the file that is mapped where the program's code
-- starts. Other files may be mapped below it: if the stack is unlimited, libraries are.
function M.program()
  local stat = M.line "/proc/self/stat" or ""
  local start = stat:match("^.*%)" .. (" %S+"):rep(23) .. " (%d+)") -- the 26th field; the name in parentheses may have blanks
  local code = M.code_at(M.code(M.maps()), tonumber(start) or 0)
  return code and code.path or "the interpreter"
end

-- The machine ---------------------------------------------------------------------------------------------------------

-- kernel.perf_event_paranoid.
-- @return integer; or nil, message, "ENOENT" on a kernel without perf events
function M.paranoid()
  local level, message, code = M.sysctl "kernel.perf_event_paranoid"
  if level then return level end
  if code == "ENOENT" then
    message = "kernel.perf_event_paranoid: no such file (this kernel is built without perf events, CONFIG_PERF_EVENTS)"
  end
  return nil, message, code
end

-- The command that sets kernel.perf_event_paranoid, for messages.
-- @string[opt] flags of sysctl
function M.paranoid_command(level, flags) return ("sysctl %skernel.perf_event_paranoid=%d"):format(flags or "", level) end

-- kernel.perf_event_max_stack: the frames of a callchain.
-- @return integer; or nil, message, code
function M.max_stack()
  return M.sysctl "kernel.perf_event_max_stack"
end

-- Can this value be a CPU's number, which is an int in the kernel?
function M.is_cpu(v) return type(v) == "number" and v >= 0 and v < 2 ^ 31 and v == math.floor(v) end

-- The numbers in the kernel's form of a list of CPUs: "0-3,6".
function M.parse_cpus(text)
  local cpus = {}
  for first, last in text:gmatch "(%d+)%-?(%d*)" do
    for cpu = tonumber(first), tonumber(last) or tonumber(first) do cpus[#cpus + 1] = cpu end
  end
  return cpus
end

-- One of sysfs's lists of CPUs: "online", "possible" or "present".
-- @return array of numbers, with `text` and `has`, a set of the numbers; or nil, message, code
function M.cpus(which)
  local text, message, code = M.line("/sys/devices/system/cpu/" .. which)
  if not text then return nil, message, code end
  local cpus, has = M.parse_cpus(text), {}
  for _, cpu in ipairs(cpus) do has[cpu] = true end
  return setmetatable(cpus, { __index = { text = text, has = has } })
end

-- The PMUs in sysfs, sorted by name: see perf.kernel.pmu.
function M.pmus() return late "perf.kernel.pmu".new(M.root .. "/sys/bus/event_source/devices"):all() end

-- The PMU with a name, or with a number of attr.type; nil if sysfs does not have it.
function M.pmu(which)
  for _, pmu in ipairs(M.pmus()) do
    if pmu.name == which or pmu.type == which then return pmu end
  end
end

-- Whether this is a virtual machine, as far as that can be detected.
function M.virtual()
  local cpuinfo = M.read_file "/proc/cpuinfo" or ""
  if (" " .. (cpuinfo:match "\nflags%s*:([^\n]*)" or "") .. " "):find(" hypervisor ", 1, true) then return true end
  local vendor = (M.line "/sys/class/dmi/id/sys_vendor" or "") .. " " .. (M.line "/sys/class/dmi/id/product_name" or "")
  for _, name in ipairs { "QEMU", "KVM", "VMware", "VirtualBox", "Xen", "Virtual Machine" } do
    if vendor:find(name, 1, true) then return true end
  end
  return M.readable "/sys/hypervisor/type" or M.list "/proc/device-tree/hypervisor" ~= nil
end

-- Whether this is a container, as far as that can be detected.
function M.container()
  return M.readable "/.dockerenv" or M.readable "/run/.containerenv"
    or (M.read_file "/proc/1/environ" or ""):find "container=" ~= nil
end

-- The path of tracefs, and whether it can be used.
-- @return its path; or nil, and "unmounted", or "unreadable" and the path
function M.tracefs()
  local usual = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" }
  for _, dir in ipairs(usual) do
    if M.readable(dir .. "/events/header_page") then return dir end -- the directory may be readable but not its files
  end
  -- Ordinary users may not list /sys/kernel/debug, so look into the list of mounts.
  local mounts = M.read_file "/proc/self/mounts" or ""
  local mounted = mounts:match "%S+ (%S+) tracefs " or mounts:match "%S+ (%S+) debugfs "
  if mounted then return nil, "unreadable", mounted end
  return nil, "unmounted"
end

return M
