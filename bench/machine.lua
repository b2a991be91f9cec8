--- Describes the machine of the measurements: kernel, CPU, interpreters, versions of the peers.
local M = {}

local function line(command)
  local p = io.popen("{ " .. command .. "; } 2>/dev/null")
  local text = p:read "*l"
  p:close()
  return text and text:match "%S.*"
end

local function file(path, pattern)
  local f = io.open(path)
  if not f then return nil end
  local text = f:read "*a"
  f:close()
  return text:match(pattern or "[^\n]+")
end

local function date() return os.date "!%Y-%m-%d" end

local function virtual()
  local kind = line "systemd-detect-virt --vm"
  if kind and kind ~= "none" then return kind end
  return file("/proc/cpuinfo", "\nflags[^\n]*%shypervisor") and "virtual machine" or nil
end

--- A table of strings and numbers; unknown facts are absent.
-- @param build the directory of builds
function M.describe(build)
  return {
    date = date(),
    kernel = line "uname -sr",
    arch = line "uname -m",
    os = file("/etc/os-release", 'PRETTY_NAME="([^"]+)"'),
    cpu = file("/proc/cpuinfo", "model name%s*:%s*([^\n]+)"),
    cpus = tonumber(line "getconf _NPROCESSORS_ONLN"),
    on_cpu = file("/proc/self/status", "Cpus_allowed_list:%s*(%S+)"),
    virtual = virtual(),
    load_before = file("/proc/loadavg", "%S+"),
    hardware_counters = line "ls /sys/bus/event_source/devices | grep -m1 ^cpu" ~= nil,
    paranoid = tonumber(file "/proc/sys/kernel/perf_event_paranoid" or ""),
    versions = {
      ["lua-perf"] = require "perf.version",
      luajit = line "luajit -v",
      luajit_package = line "dpkg-query -W -f '${Package} ${Version}\\n' luajit luajit2 | grep -m1 ' .'",
      ["lua5.4"] = line "lua5.4 -v",
      cc = line "cc --version",
      papi = file(build .. "/bench/papi.version"),
      ["perf-event2"] = file(build .. "/bench/perf-event2.version"),
      ["perf-utils"] = file(build .. "/bench/perf-utils.version"),
      go = line "go version",
      rustc = line "rustc --version",
      perf = line "perf --version",
    },
  }
end

--- A word for the results' file: "linux-6.18-amd-epyc-kvm".
function M.slug(host)
  local text = table.concat({ host.kernel and host.kernel:match "^(%S+ %d+%.%d+)" or "linux", host.cpu or host.arch or "",
    host.virtual or "" }, " ")
  return (text:lower():gsub("%(%a+%)", ""):gsub("[^%w.]+", "-"):gsub("^%-+", ""):gsub("%-+$", ""))
end

return M
