--- Simulates a machine for perf.kernel.host and perf.event.probe: a tree of /proc and /sys, and a kernel's answers.
--
--     local here = machine.new{paranoid = 3, uid = 1000}
--     here:answer(function(attr, pid, cpu, leader) return "EACCES" end)   -- nil: it opens
--     ...
--     here:close()
local host = require "perf.kernel.host"
local probe = require "perf.event.probe"
local trees = require "spec.support.trees"

local machine = {}
local Machine = {}
Machine.__index = Machine

local real_open = probe.open

-- The messages of core.open.
local words = { EACCES = "Permission denied", EPERM = "Operation not permitted", EINVAL = "Invalid argument",
  ENOENT = "No such file or directory", ENOSYS = "Function not implemented", EOPNOTSUPP = "Operation not supported" }

--- The message of core.open for an errno.
function machine.message(code)
  return "perf_event_open: " .. (words[code] or "Error")
end

--- facts: paranoid, uid, cap (CapEff in hex), seccomp, cpus, and `files` {path = text}, which override the others.
function machine.new(facts)
  facts = facts or {}
  local files = {
    ["proc/self/status"] = ("Name:\tlua\nUid:\t%d\t%d\t%d\t%d\nCapEff:\t%s\nSeccomp:\t%d"):format(facts.uid or 1000,
      facts.uid or 1000, facts.uid or 1000, facts.uid or 1000, facts.cap or "0000000000000000", facts.seccomp or 0),
    ["proc/self/uid_map"] = "         0          0 4294967295",
    ["proc/self/mounts"] = "proc /proc proc rw 0 0",
    ["proc/self/maps"] = "2aaaa-2aaab r-xp 00000000 08:01 41                  /usr/lib/ld.so\n"
      .. "5581a-5582b r-xp 00000000 08:01 42                  /usr/bin/lua",
    ["proc/self/stat"] = "7 (a) lua) S" .. (" 0"):rep(22) .. " " .. 0x5581a .. " 0",
    ["proc/cpuinfo"] = "processor\t: 0\nflags\t\t: fpu vme de\n",
    ["proc/kallsyms"] = "ffffffff81000000 T _text",
    ["proc/sys/kernel/perf_event_max_sample_rate"] = "100000",
    ["proc/sys/kernel/perf_cpu_time_max_percent"] = "25",
    ["proc/sys/kernel/perf_event_max_stack"] = "127",
    ["proc/sys/kernel/perf_event_mlock_kb"] = "516",
    ["proc/sys/kernel/kptr_restrict"] = "0",
    ["proc/sys/kernel/unprivileged_bpf_disabled"] = "2",
    ["sys/devices/system/cpu/online"] = facts.cpus or "0-3",
    ["sys/devices/system/cpu/possible"] = facts.cpus or "0-3",
  }
  if facts.paranoid ~= false then
    files["proc/sys/kernel/perf_event_paranoid"] = tostring(facts.paranoid or 2)
  end
  for name, kind in pairs { software = 1, tracepoint = 2, breakpoint = 5, uprobe = 7 } do
    files["sys/bus/event_source/devices/" .. name .. "/type"] = tostring(kind)
  end
  for path, text in pairs(facts.files or {}) do files[path] = text or nil end
  host.root = trees.make(files)
  return setmetatable({ root = host.root, opened = 0 }, Machine)
end

--- Let a function replace perf_event_open: it returns nil to succeed, or the errno's symbol.
function Machine:answer(kernel)
  probe.open = function(attr, pid, cpu, leader)
    local code = kernel(attr, pid, cpu, leader)
    if code then return nil, machine.message(code), code end
    self.opened = self.opened + 1
    return { close = function() self.opened = self.opened - 1 end, scan = function() return { { value = 1 } } end,
      enable = function() end, disable = function() end }
  end
end

--- Remove the tree, and use the real machine again.
function Machine:close()
  trees.remove(self.root)
  host.root, probe.open = "", real_open
end

--- The cause that the library finds for an event that the machine refuses, without the "(...)" around it; nil if it finds none.
function machine.why(what, attr, code, ctx)
  local none, message, same = require "perf.event.refusal"(what, attr, machine.message(code), code, ctx)
  local head = what .. ": " .. machine.message(code)
  assert(none == nil and same == code and message:sub(1, #head) == head and not message:find "\n", message)
  return message:sub(#head + 1):match "^ %((.*)%)$"
end

--- An attr with additional fields.
function machine.with(base, more)
  local attr = {}
  for k, v in pairs(base) do attr[k] = v end
  for k, v in pairs(more) do attr[k] = v end
  return attr
end

--- Attrs that specs refuse.
machine.cycles = { type = "hardware", config = 0 }
machine.dummy = { type = "software", config = 9, exclude_kernel = true, exclude_hv = true }

return machine
