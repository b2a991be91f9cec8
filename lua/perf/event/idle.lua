-- Closing idle events when the machine runs out of a resource.
--
-- perf.measure keeps its lists of events open, and perf.event.prewarm one event of each kind. When the kernel refuses a call for
-- want of a resource, idle events are closed, the least recently used first, until the call succeeds or none is left.
--
-- The resources are "any" (a descriptor, or memory: every open event takes them), "breakpoint" (a debug register) and "hardware"
-- (a counter, or lockable memory: a counter that is read without a system call takes a page of it).
local core = require "perf.core"
local every = require "perf.base.pairs"

local M = {}

local general = { EMFILE = "any", ENFILE = "any", ENOMEM = "any" }

-- The resource that was missing when an open failed; nil if closing something would not help.
local function of_event(code, attr)
  if code == "ENOSPC" then return (attr.type == 5 or attr.type == "breakpoint") and "breakpoint" or "hardware" end
  return code == "EBUSY" and "hardware" or general[code]
end

-- The same for mapping a ring.
local function of_ring(code) return (code == "EPERM" or code == "EAGAIN") and "hardware" or general[code] end

local givers = {}

-- Register a function that frees a resource.
-- @param give_way function(resource): close one idle thing that holds the resource, and return whether there was one
-- @param[opt] first call it before those that are registered already
function M.register(give_way, first) table.insert(givers, first and 1 or #givers + 1, give_way) end

local function give_way(what)
  for _, give in ipairs(givers) do
    if give(what) then return true end
  end
  return false
end

local function retried(resource, attr, f, ...)
  local result, message, code = f(...)
  while not result do
    local what = resource(code, attr)
    if not what or not give_way(what) then break end
    result, message, code = f(...)
  end
  return result, message, code
end

-- core.open; closes idle events and retries when a resource is missing.
function M.open(attr, ...) return retried(of_event, attr, core.open, attr, ...) end

local no_attr = {}

-- core.reopen in the same way.
function M.reopen(attrs, sizes) return retried(of_event, no_attr, core.reopen, attrs, sizes) end

-- Call f(...), which maps a ring, in the same way.
function M.map(f, ...) return retried(of_ring, nil, f, ...) end

-- Call f(...), which opens a file, in the same way.
-- @return the result of f: a true value; or nil, message, errno's number
function M.file(f, ...)
  local result, message, number = f(...)
  while not result and (number == 23 or number == 24) and give_way "any" do result, message, number = f(...) end
  return result, message, number
end

-- Make room for a descriptor, before somebody opens a file who cannot try again.
function M.make_room()
  local file = M.file(io.open, "/dev/null")
  if file then file:close() end
end

local weak = { __mode = "k" }
local breakpoints, hardware = setmetatable({}, weak), setmetatable({}, weak) -- Event -> its label

-- Note an event that was opened.
function M.note(ev, attr, label, is_hardware)
  if attr.type == 5 or attr.type == "breakpoint" then breakpoints[ev] = label end
  if is_hardware then hardware[ev] = label end
end

local function labels_of(events, holds)
  local labels = {}
  for ev, label in every(events) do
    if ev:is_open() and not ev:is_inherited() and holds(ev) then labels[#labels + 1] = label end
  end
  table.sort(labels)
  return labels
end

-- The labels of this Lua state's open breakpoints, sorted.
function M.breakpoints()
  return labels_of(breakpoints, function() return true end)
end

-- The labels of this Lua state's hardware events that are enabled, sorted. A member of a group is enabled when its leader is.
function M.enabled_hardware()
  return labels_of(hardware, function(ev)
    local leader = ev:info().leader
    return not ev:is_off() and not (leader and leader:is_off())
  end)
end

return M
