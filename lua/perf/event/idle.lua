-- Closing idle events when the machine runs out of a resource.
--
-- perf.measure keeps its lists of events open, and perf.event.prewarm one event of each kind. When the kernel refuses a call for
-- lack of a resource, idle events are closed, the least recently used first, until the call succeeds or none is left
-- (perf.base.reclaim).
local core = require "perf.core"
local layouts = require "perf.counts.layouts"
local pairs_of = require "perf.base.pairs"
local reclaim = require "perf.base.reclaim"

local M = {}

local general = { EMFILE = "any", ENFILE = "any", ENOMEM = "any" }

-- The resource that was missing when an open failed; nil if closing something would not help.
local function of_event(code, attr)
  if code == "ENOSPC" then return (attr.type == 5 or attr.type == "breakpoint") and "breakpoint" or "hardware" end
  return code == "EBUSY" and "hardware" or general[code]
end

-- The resource that was missing when the mapping of a ring failed.
local function of_ring(code) return (code == "EPERM" or code == "EAGAIN") and "hardware" or general[code] end

-- core.open; closes idle events and retries if a resource is missing.
function M.open(attr, ...) return reclaim.retry(of_event, attr, core.open, attr, ...) end

-- core.open_packed of that attr with the same retries.
function M.open_packed(attr, packed, info) return reclaim.retry(of_event, attr, core.open_packed, packed, info) end

local no_attr = {}

-- core.reopen with the same retries.
function M.reopen(attrs, sizes) return reclaim.retry(of_event, no_attr, core.reopen, attrs, sizes) end

-- Call f(...), which maps a ring, with the same retries.
function M.map(f, ...) return reclaim.retry(of_ring, nil, f, ...) end

local weak = { __mode = "k" }
local breakpoints, hardware = setmetatable({}, weak), setmetatable({}, weak) -- Event -> its label

-- Record an event that was opened.
function M.note(ev, attr, label, is_hardware)
  if attr.type == 5 or attr.type == "breakpoint" then breakpoints[ev] = label end
  if is_hardware then hardware[ev] = label end
end

local function labels_of(events, holds)
  local labels = {}
  for ev, label in pairs_of(events) do
    if ev:is_open() and not ev:is_inherited() and (not holds or holds(ev)) then labels[#labels + 1] = label end
  end
  table.sort(labels)
  return labels
end

-- The labels of this Lua state's open breakpoints, sorted.
function M.breakpoints() return labels_of(breakpoints) end

-- The labels of this Lua state's hardware events that are enabled, sorted. A member of a group is enabled when its leader is.
function layouts.enabled_hardware()
  return labels_of(hardware, function(ev)
    local leader = ev:info().leader
    return not ev:is_off() and not (leader and leader:is_off())
  end)
end

return M
