-- Decides which counters may be read without a system call, and asks the kernel for that.
--
-- The event must belong to the CPU's own PMU and count the calling thread on every CPU, without children and samples. Each
-- reading determines whether the counter can be read (csrc/core/counts/user_read.h). If not, it is read by read(2), which only
-- takes more time.
--
--   x86-64    no request is needed; /sys/bus/event_source/devices/cpu/rdpmc is 1 or 2, as it is by default
--   arm64     a bit in the attr, which Linux knows from 5.17 on; kernel.perf_user_access is 0 by default
--
-- Not on a CPU with several kinds of cores: if a program learns the counter's number and is then moved to a core without that
-- counter, the instruction kills it. The same happens if the administrator forbids the reading meanwhile; PERF_USER_READ=0 is for
-- programs that cannot accept that.
local copy = require "perf.base.copy"
local core = require "perf.core"
local late = require "perf.base.late"

local M = {}

local here = {
  uniform = function() return late "perf.kernel.uniform_cores"() end,
  config1 = os.getenv "PERF_USER_READ" ~= "0" and core.user_config1 or nil,
  cores = function() return late "perf.kernel.pmu".here:cores() end,
  allowed = function() return late "perf.kernel.host".sysctl "kernel.perf_user_access" == 1 end,
}

local generic = { hardware = true, hw_cache = true, raw = true, [0] = true, [3] = true, [4] = true }

local function set(v) return v ~= nil and v ~= false and v ~= 0 end

-- Request it for a thread's own event.
-- @param attr plain attr fields of a hardware event
-- @param[opt] machine `config1`: the value to set, nil if there is no such instruction; `uniform()`: whether all its
-- cores are of one kind; `cores()`: the PMUs of its cores; `allowed()`: whether the administrator allows the request
-- @return the attr to open, the same or a copy; whether its counter may be read without a system call
function M.request(attr, machine)
  machine = machine or here
  local bit = machine.config1
  if not bit or set(attr.inherit) or set(attr.sample_period) or set(attr.sample_freq) then return attr, false end
  if bit == 0 and generic[attr.type] then return attr, machine.uniform() end
  local cores = machine.cores()
  local pmu = cores[1]
  if #cores ~= 1 or not (generic[attr.type] or attr.type == pmu.type) then return attr, false end
  if bit == 0 then return attr, true end
  local config1 = attr.config1 or 0
  if type(config1) ~= "number" or pmu:text "format/rdpmc" == nil or not machine.allowed() then return attr, false end
  return copy(attr, { config1 = config1 + (math.floor(config1 / bit) % 2 == 0 and bit or 0) }), true
end

return M
