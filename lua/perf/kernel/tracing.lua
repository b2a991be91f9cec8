--- The kernel's tracing file system: events by subsystem, tracers, and its mount points. Tracers belong to ftrace and have
-- nothing to do with perf events; they are included because both use this file system.
-- @module perf.kernel.tracing
--
--     ROOT/available_events     GROUP:NAME, one a line
--     ROOT/available_tracers    names, separated by blanks
--     ROOT/current_tracer       one name, "nop" when none traces
--     /proc/self/mounts         DEVICE DIRECTORY TYPE OPTIONS ..., a blank in a name as \040
local argument = require "perf.base.argument"
local format = require "perf.base.format"
local host = require "perf.kernel.host"
local keys_of = require "perf.base.keys"
local Lines = require "perf.base.lines"
local tracefs = require "perf.kernel.tracefs"

local M = {}

local read = host.read_file

-- The words of a file below tracefs's root.
local function read_words(name)
  local root, message, code = tracefs.here:root()
  if not root then return nil, message, code end
  local text
  text, message, code = read(root .. "/" .. name)
  if not text then return nil, message, code end
  local list = {}
  for word in text:gmatch "%S+" do list[#list + 1] = word end
  return setmetatable(list, Lines)
end

-- Prints as the number of tracepoints of each subsystem.
local BySubsystem = {}

function BySubsystem.__tostring(events)
  local rows = {}
  for i, group in ipairs(keys_of(events)) do rows[i] = { group, format.count(#events[group], "event") } end
  return format.align(rows)
end

--- The tracepoints by subsystem.
-- @treturn table `{[subsystem] = sorted array of names}`
-- @fails if tracefs is not mounted ("ENOENT") or not readable ("EACCES")
function M.available_events()
  local all, message, code = tracefs.here:names()
  if not all then return nil, message, code end
  local events = setmetatable({}, BySubsystem)
  for _, full in ipairs(all) do
    local group, name = full:match "^([^:]+):(.+)$"
    if group then
      events[group] = events[group] or setmetatable({}, Lines)
      table.insert(events[group], name)
    end
  end
  return events
end

--- The subsystems that have tracepoints, each once.
-- @treturn {string,...} sorted @fails as for `perf.available_events`
function M.subsystems()
  local events, message, code = M.available_events()
  if not events then return nil, message, code end
  return setmetatable(keys_of(events), Lines)
end

--- The tracers of ftrace that this kernel has.
-- @treturn {string,...} "nop" among them @fails as for `perf.available_events`
function M.tracers()
  return read_words "available_tracers"
end

--- The tracer of ftrace that is running.
-- @treturn string "nop" if none is running @fails as for `perf.available_events`
function M.current_tracer()
  local list, message, code = read_words "current_tracer"
  if not list then return nil, message, code end
  return list[1]
end

--- The directories in which file systems of a type are mounted, for this process.
-- @tparam string fstype such as "tracefs", "debugfs", "cgroup2"
-- @treturn {string,...} directories, perhaps none @fails if /proc is not mounted
function M.mounts(fstype)
  argument.check_type(fstype, "string")
  local text, message, code = read "/proc/self/mounts"
  if not text then return nil, message, code end
  local list = {}
  for line in text:gmatch "[^\n]+" do
    local dir, kind = line:match "^%S+ (%S+) (%S+)"
    if kind == fstype then
      list[#list + 1] = (dir:gsub("\\(%d%d%d)", function(octal) return string.char(tonumber(octal, 8)) end))
    end
  end
  return setmetatable(list, Lines)
end

return M
