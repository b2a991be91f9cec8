--- lua-perf: Linux perf_event_open for Lua.
--
--     local perf = require "perf"
--     print((perf.measure(function() return ("x"):rep(1e6):find "y" end)))
--
-- Errors: a programmer's mistake raises; what the machine refuses returns nil, message, code, where code is the errno's
-- symbol. `perf.measure`, whose results are the function's, raises instead.
--
-- Only what measuring needs is loaded at once; the rest comes when it is first asked for.
-- @module perf
local core = require "perf.base.core"
local every = require "perf.base.pairs"
local group = require "perf.event.group"
local idle = require "perf.event.idle"
local keeper = require "perf.event.prewarm"
local measure = require "perf.measure"
local open = require "perf.event.open"
require "perf.event"

local perf = { _VERSION = require "perf.version" }

perf.measure = measure.measure
perf.open = open.open
perf.group = group.group

--- Close what stays open between calls: the lists that the calling thread has measured, and one event of each kind. They are
-- opened again when they are next needed.
function perf.release()
  measure._release()
  keeper._release()
end

--- Any 64-bit value that this module gives, as "0x...".
perf.hex = core.hex

-- Functions by the module that has them, without "perf.".
local functions = {
  ["names.constructors"] = "attr tracepoint kprobe uprobe breakpoint hardware_cache all_hardware all_software all_cache list "
    .. "pmus pmu_type tracepoint_id tracepoints",
  ["event.set"] = "set probe_cycles",
  ["doctor.features"] = "supported paranoid max_stack features",
  doctor = "doctor",
  bench = "bench compare",
  ["measure.region"] = "start",
  ["data.recorder"] = "record",
  ["kernel.msr"] = "msr",
  ["record.tally"] = "tally",
  ["event.wake"] = "wake",
  ["event.prewarm"] = "keep",
  ["measure.counting_profiler"] = "hardware_profiler software_profiler cache_profiler",
  profile = "profile profiler",
  ["profile.zone"] = "zone",
  trace = "tracer",
  ["trace.observe"] = "observe",
  pool = "pool",
  ["kernel.tracing"] = "available_events subsystems tracers current_tracer mounts",
}
-- Modules that are reached as perf.NAME.
local modules = {
  bpf = "bpf", data = "data", exporter = "exporter", pfm = "names.pfm", symbols = "symbols", tracefields = "record.tracefields",
}

local home = {}
for module, names in every(functions) do
  for name in names:gmatch "%S+" do home[name] = module end
end

setmetatable(perf, {
  __index = function(t, name)
    local value
    if home[name] or modules[name] then idle.make_room() end -- for `require`, which says only that there is no such module
    if home[name] then
      value = require("perf." .. home[name])[name]
    elseif modules[name] then
      value = require("perf." .. modules[name])
    end
    t[name] = value
    return value
  end,
  __tostring = function() return "lua-perf " .. perf._VERSION end,
})

return perf
