-- The default list of perf.measure if perf_event_open is refused: its counts are from the kernel's accounting of the thread.
local core = require "perf.core"
local layouts = require "perf.counts.layouts"

local M = {}

-- The order of the values is that of PF_USAGE_* in csrc/core/counts/meter.h.
function M.open()
  local rows = {
    { label = "task-clock", unit = "ns", slots = { { 0, 0 } } },
    { label = "page-faults", slots = { { 0, 1 } } },
    { label = "context-switches", slots = { { 0, 2 } } },
    { label = "cpu-migrations", slots = {}, why = "the kernel's accounting of a thread does not have them" },
  }
  local meter = core.meter {}
  meter:own()
  return { meter = meter, words = meter:words(), layout = layouts.layout(rows, 0, "rusage"), groups = {},
    takes = {} }
end

return M
