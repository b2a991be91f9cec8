-- Recognizes tracepoints that count the system calls of measurements. Their events are watched (core/counts/own_calls.h), so that
-- a measurement does not count its own calls.
--
-- They are recognized by their ids, since a table of attr fields has no name.
local core = require "perf.core"
local late = require "perf.base.late"

local M = {}

local CALLS = { "read", "ioctl", "mmap", "munmap" } -- the calls that core.watch_calls supports

local kinds -- id -> {calls, whether at their exit}

local function ids()
  local tracefs = late "perf.kernel.tracefs".here
  local found = {}
  for _, edge in ipairs { "enter", "exit" } do
    local id = tracefs:id("raw_syscalls", "sys_" .. edge)
    if id then found[id] = { CALLS, edge == "exit" } end
    for _, call in ipairs(CALLS) do
      id = tracefs:id("syscalls", ("sys_%s_%s"):format(edge, call))
      if id then found[id] = { { call }, edge == "exit" } end
    end
  end
  if next(found) then kinds = found end -- else tracefs may be mounted later
  return found
end

local function is_set(v) return v ~= nil and v ~= false and v ~= 0 end

-- Watch a newly opened tracepoint if it counts system calls of measurements, and those of the calling thread on any CPU.
-- @param ev Event
-- @tab attr its attr
-- @tab opts `pid`, `cpu` and `cgroup`, as for `perf.open`
function M.note(ev, attr, opts)
  local pid = opts.pid or 0
  if (pid ~= 0 and pid ~= select(2, core.pid())) or (opts.cpu or -1) ~= -1 or opts.cgroup ~= nil then return end
  local kind = (kinds or ids())[tonumber(attr.config)]
  if not kind then return end
  core.watch_calls(ev, kind[2], is_set(attr.exclude_user) or is_set(attr.exclude_kernel), (table.unpack or unpack)(kind[1]))
end

return M
