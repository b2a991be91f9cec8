--- Rows of functions that describe the machine. See inject.lua.
local perf = require "perf"

local rows, row = require "spec.fault.list"()
-- The functions below treat a file that they cannot read as one that does not exist, so they survive these failures.
local any = "perf_event_open ioctl read open mmap munmap poll fstat close pread fcntl"

row("perf.supported", { run = function() return (perf.supported()) or true end, survives = any })
row("perf.paranoid", { run = function() return perf.paranoid() or true end, survives = any })
row("perf.max_stack", { run = function() return perf.max_stack() or true end, survives = any })
row("perf.features", { run = function() return perf.features { refresh = true } end, survives = any, slow = true })
row("perf.doctor", { run = function() return perf.doctor() end, survives = any, slow = true })
row("DoctorReport:text", { setup = function() return perf.doctor() end, run = function(r) return r:text() end, slow = true })

row("perf.available_events", { run = function() return perf.available_events() end, needs = { tracefs = true }, slow = true })
row("perf.subsystems", { run = function() return perf.subsystems() end, needs = { tracefs = true }, slow = true })
row("perf.tracers", { run = function() return perf.tracers() end, needs = { tracefs = true } })
row("perf.current_tracer", { run = function() return perf.current_tracer() end, needs = { tracefs = true } })
row("perf.mounts", { run = function() return perf.mounts "proc" end })

return rows
