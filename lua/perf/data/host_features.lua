-- A perf.data file's description of the recording machine: the features that perf report shows as its header, with the names and
-- in the form of `perf.data.open`. Facts that the machine does not provide are left out.
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"
local host = require "perf.kernel.host"

local data_host = {}

local read = {}

function read.hostname() return host.line "/proc/sys/kernel/hostname" end
function read.osrelease() return (core.uname()) end
function read.arch() return (select(2, core.uname())) end
function read.version() return "lua-perf " .. require "perf.version" end

function read.nrcpus()
  local present, online = host.cpus "present", host.cpus "online"
  return present and online and {available = #present, online = #online}
end

local function cpuinfo(key)
  return ("\n" .. (host.read_file "/proc/cpuinfo" or "")):match("\n" .. key .. "%s*:%s*([^\n]*)")
end

function read.cpudesc()
  local name = cpuinfo "model name" or cpuinfo "Processor" or cpuinfo "cpu"
  return name and (name:gsub("%s+", " "):gsub(" $", ""))
end

-- The CPU's id in the form by which perf chooses its tables of events. x86 only: on other machines a register has it.
function read.cpuid()
  local vendor, family, model, stepping = cpuinfo "vendor_id", cpuinfo "cpu family", cpuinfo "model", cpuinfo "stepping"
  if vendor and family and model and stepping then return table.concat({vendor, family, model, stepping}, ",") end
end

function read.total_mem()
  return tonumber((host.read_file "/proc/meminfo" or ""):match "MemTotal:%s*(%d+)")
end

-- Words end with a zero byte, and may contain any other byte.
function read.cmdline()
  local words = {}
  for word in (host.read_file "/proc/self/cmdline" or ""):gmatch "([^%z]*)%z" do words[#words + 1] = word end
  return #words > 0 and words or nil
end

local cpu_dir = "/sys/devices/system/cpu/cpu%d/topology/%s"

-- The distinct lists of siblings, in the order of their first CPU.
local function siblings(n, ...)
  local list, seen = {}, {}
  for cpu = 0, n - 1 do
    local text
    for _, file in ipairs{...} do text = text or host.line(cpu_dir:format(cpu, file)) end
    if text and not seen[text] then
      seen[text] = true
      list[#list + 1] = text
    end
  end
  return list
end

function read.cpu_topology()
  local nr = read.nrcpus()
  if not nr then return nil end
  local t = {cpus = {}, cores = siblings(nr.available, "package_cpus_list", "core_siblings_list"),
    threads = siblings(nr.available, "core_cpus_list", "thread_siblings_list")}
  for cpu = 0, nr.available - 1 do
    t.cpus[cpu + 1] = {core_id = host.number(cpu_dir:format(cpu, "core_id")) or -1,
      socket_id = host.number(cpu_dir:format(cpu, "physical_package_id")) or -1}
  end
  return #t.cores > 0 and #t.threads > 0 and t or nil
end

function read.numa_topology()
  local list = {}
  for _, name in ipairs(host.list "/sys/devices/system/node" or {}) do
    local node = tonumber(name:match "^node(%d+)$")
    if node then
      local dir = "/sys/devices/system/node/" .. name
      local meminfo = host.read_file(dir .. "/meminfo") or ""
      list[#list + 1] = {node = node, cpus = host.line(dir .. "/cpulist") or "",
        mem_total = tonumber(meminfo:match "MemTotal:%s*(%d+)") or 0, mem_free = tonumber(meminfo:match "MemFree:%s*(%d+)") or 0}
    end
  end
  table.sort(list, function(a, b) return a.node < b.node end)
  return #list > 0 and list or nil
end

function read.pmu_mappings()
  local list = {}
  for i, pmu in ipairs(host.pmus()) do list[i] = {type = pmu.type, name = pmu.name} end
  return #list > 0 and list or nil
end

-- The distinct caches, by level.
function read.cache()
  local nr, list, seen = read.nrcpus(), {}, {}
  for cpu = 0, nr and nr.available - 1 or -1 do
    for index = 0, 9 do
      local dir = ("/sys/devices/system/cpu/cpu%d/cache/index%d/"):format(cpu, index)
      local level = host.number(dir .. "level")
      if not level then break end
      local c = {level = level, line_size = host.number(dir .. "coherency_line_size") or 0,
        sets = host.number(dir .. "number_of_sets") or 0, ways = host.number(dir .. "ways_of_associativity") or 0,
        type = host.line(dir .. "type") or "", size = host.line(dir .. "size") or "",
        cpus = host.line(dir .. "shared_cpu_list") or ""}
      local key = level .. c.type .. c.cpus
      if not seen[key] then
        seen[key] = true
        list[#list + 1] = c
      end
    end
  end
  table.sort(list, function(a, b)
    if a.level ~= b.level then return a.level < b.level end
    return a.type .. a.cpus < b.type .. b.cpus
  end)
  return #list > 0 and list or nil
end

-- Add the features of this machine that the table lacks (false: not wanted).
-- @param features table by perf's names
function data_host.add(features)
  for name, fn in pairs_of(read) do
    if features[name] == nil then features[name] = fn() end
  end
end

-- The build ids of mapped files: an array for the feature `build_id`.
-- @param mapped {filename = {misc =, build_id = if a record had it}}
-- @return array of {filename, build_id, misc, pid}, sorted by name
function data_host.build_ids(mapped)
  local list = {}
  for filename, m in pairs_of(mapped) do
    local id = m.build_id
    local kernel = filename:find "^%[kernel%.kallsyms%]"
    if not id and kernel then
      id = core.build_id()
    elseif not id and filename:sub(1, 1) == "/" and filename:sub(1, 2) ~= "//" then
      id = core.build_id(filename)
      id = id and id:sub(1, 40) -- a record has room for 20 bytes
    end
    if id then
      list[#list + 1] = {filename = kernel and "[kernel.kallsyms]" or filename, build_id = id, misc = m.misc, pid = m.pid or -1}
    end
  end
  table.sort(list, function(a, b) return a.filename < b.filename end)
  return list
end

return data_host
