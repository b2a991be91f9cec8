-- Recognizes tracepoints that count the system calls of measurements. Their events are watched (core/counts/own_calls.h), so that
-- a measurement does not count its own calls.
--
-- They are recognized by their ids, since a table of attr fields has no name.
local core = require "perf.core"
local files = require "perf.kernel.files"
local late = require "perf.base.late"

local M = {}

local CALLS = { "read", "ioctl", "mmap", "munmap" } -- the calls that core.watch_calls supports

local kinds -- id -> {calls, whether at their exit}

-- Returns a table like `kinds`; or nil, message, code if an id cannot be read for lack of a descriptor or of memory.
local function ids()
  local tracefs = late "perf.kernel.tracefs".here
  local found = {}
  local function add(group, name, kind)
    local id, message, code = tracefs:id(group, name)
    if id then found[id] = kind end
    return not files.lack[code], message, code
  end
  for _, edge in ipairs { "enter", "exit" } do
    local ok, message, code = add("raw_syscalls", "sys_" .. edge, { CALLS, edge == "exit" })
    if not ok then return nil, message, code end
    for _, call in ipairs(CALLS) do
      ok, message, code = add("syscalls", ("sys_%s_%s"):format(edge, call), { { call }, edge == "exit" })
      if not ok then return nil, message, code end
    end
  end
  if next(found) then kinds = found end -- else tracefs may be mounted later
  return found
end

local function is_set(v) return v ~= nil and v ~= false and v ~= 0 end

-- Find out which system calls of measurements a tracepoint counts. This is done before the event is opened, since the event may
-- take the last descriptor.
-- @tab attr its attr
-- @tab opts `pid`, `cpu` and `cgroup`, as for `perf.open`
-- @return these calls, as an argument for `note`; or false if there is nothing to watch: the tracepoint counts none of these
-- calls, or the event does not count the calling thread on any CPU; or nil, message, code
function M.kind(attr, opts)
  local pid = opts.pid or 0
  if (pid ~= 0 and pid ~= select(2, core.pid())) or (opts.cpu or -1) ~= -1 or opts.cgroup ~= nil then return false end
  local all, message, code = kinds, nil, nil
  if not all then all, message, code = ids() end
  if not all then return nil, message, code end
  return all[tonumber(attr.config)] or false
end

-- Watch a newly opened tracepoint.
-- @param ev Event
-- @tab attr its attr
-- @tab kind the result of `kind`
function M.note(ev, attr, kind)
  core.watch_calls(ev, kind[2], is_set(attr.exclude_user) or is_set(attr.exclude_kernel), (table.unpack or unpack)(kind[1]))
end

return M
