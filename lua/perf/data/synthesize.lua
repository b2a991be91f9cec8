-- Writes records for processes and mappings that existed before a recording began, as the kernel would have written them: running
-- programs, their mappings, and the addresses of the kernel and its modules.
local core = require "perf.core"
local host = require "perf.kernel.host"
local record = require "perf.record.synthesize"
local u64 = require "perf.base.u64"

local recorder_state = {}

local address, distance = u64.parse_hex, u64.distance

-- Write a process: a comm record for each thread, and an mmap2 record for each executable mapping.
-- @param write function(bytes), which raises if it fails
-- @param pid number
-- @param trailer the number of bytes that the events' sample_id_all adds
function recorder_state.process(write, pid, trailer)
  for _, tid in ipairs(host.threads(pid) or {}) do
    local comm = host.line(("/proc/%d/task/%d/comm"):format(pid, tid))
    if comm then write(record.comm(pid, tid, comm, trailer)) end
  end
  for from, to, perms, offset, maj, min, ino, name in host.maps(pid) do
    if perms:sub(3, 3) == "x" then
      if name == "" then name = "//anon" end
      local prot = (perms:sub(1, 1) == "r" and 1 or 0) + (perms:sub(2, 2) == "w" and 2 or 0) + 4
      local addr = address(from)
      write(record.map({pid = pid, tid = pid, addr = addr,
        len = distance(address(to), addr), pgoff = address(offset), maj = tonumber(maj, 16), min = tonumber(min, 16),
        ino = tonumber(ino), prot = prot, flags = perms:sub(4, 4) == "s" and 1 or 2, filename = name}, trailer))
    end
  end
end

-- Write every running process. Processes that end meanwhile or belong to other users are written as far as this user can read
-- them.
function recorder_state.everyone(write, trailer)
  for _, name in ipairs(host.list "/proc" or {}) do
    local pid = tonumber(name)
    if pid then recorder_state.process(write, pid, trailer) end
  end
end

-- {module = its file} of the running kernel.
local function module_files()
  local release = core.uname()
  local files = {}
  local dir = "/lib/modules/" .. release .. "/"
  for line in (host.read_file(dir .. "modules.dep") or ""):gmatch("[^\n]+") do
    local file = line:match("^([^:]+):")
    local name = file and file:match("([^/]+)%.ko[%.%w]*$")
    if name then files[name:gsub("-", "_")] = dir .. file end
  end
  return files
end

-- The digits of the first and last address of the kernel's code; nil if this user may not see them. They are kept, since they do
-- not change and the kernel takes 40 ms to list its symbols.
local text_first, text_last

-- The address of a symbol in part of the list.
local function address_of(list, name)
  local at = list:find(" " .. name .. "\n", 1, true)
  return at and list:sub(1, at - 1):match "(%x+) %a$"
end

local function kernel_text()
  local f = not text_last and io.open("/proc/kallsyms")
  if not f then return text_first, text_last end
  local first, last
  local list = f:read(65536) -- it has 100,000 lines, too many to look at each
  while list do
    first = first or address_of(list, "_text") or address_of(list, "_stext")
    if first and not first:find("[^0]") then break end
    last = address_of(list, "_etext")
    local more = not last and f:read(65536)
    list = more and list:sub(-64) .. more
  end
  f:close()
  if first and last then text_first, text_last = first, last end
  return text_first, text_last
end

-- Write the addresses of the kernel and its modules, if this user may see them (kernel.kptr_restrict).
function recorder_state.kernel(write, trailer)
  local first, last = kernel_text()
  if not last then return end
  local start = address(first)
  write(record.kernel_map(start, distance(address(last), start), start, "[kernel.kallsyms]_text", trailer))
  local modules, files = host.read_file("/proc/modules") or "", nil
  for name, size, hex in modules:gmatch("(%S+) (%d+) %S+ %S+ %S+ 0x(%x+)[^\n]*") do
    if hex:find("[^0]") then
      files = files or module_files()
      write(record.kernel_map(address(hex), tonumber(size), 0, files[name] or "[" .. name .. "]", trailer))
    end
  end
end

return recorder_state
