-- perf.open, and the checks of options that select what to count. The other fields are those of perf.event.opening.
require "perf.event" -- the methods of Events
local copy = require "perf.base.copy"
local argument = require "perf.base.argument"
local core = require "perf.core"
local explain = require "perf.event.refusal"
local idle = require "perf.event.idle"
local late = require "perf.base.late"
local opening = require "perf.event.opening"
local prewarm = require "perf.event.prewarm"
local printed = require "perf.base.printed"

local M = setmetatable({}, { __index = opening })

local function names() return late "perf.names" end -- large, and not needed to load the module

local SOFTWARE = 1
local MAX_INT = 2 ^ 31 - 1

local function int(v)
  if v ~= math.floor(v) then return "integer expected, got " .. tostring(v) end
  if math.abs(v) > MAX_INT then return "out of range, got " .. tostring(v) end
end

-- The attr with which an event is opened: it is disabled, and its readings have times and an id.
-- @param attr plain attr fields
-- @param[opt] format the read_format; the attr's own, or times and id
function M.prepared(attr, format)
  local a = copy(attr)
  if a.disabled == nil then a.disabled = true end
  a.read_format = format or a.read_format or opening.single_format
  return a
end

-- Let an attr's records be merged with those of others: add a time to order them by, and an id that identifies the event.
function M.mergeable(attr)
  if not opening.writes_records(attr) then return attr end
  local sampled = attr.sample_type or {}
  if type(sampled) ~= "table" then
    sampled = core.unpack(core.pack { sample_type = sampled }).sample_type or {}
  end
  local list, has = {}, {}
  for i, name in ipairs(sampled) do list[i], has[name] = name, true end
  for _, name in ipairs { "time", "identifier" } do
    if not has[name] then list[#list + 1] = name end
  end
  attr.sample_type, attr.sample_id_all = list, true
  return attr
end

-- Check a cgroup: returns the error as text, or nil.
function M.cgroup_mistake(v)
  if type(v) ~= "number" and type(v) ~= "string" then return "path or descriptor expected, got " .. type(v) end
  if type(v) == "number" and (v ~= math.floor(v) or v < 0 or v > MAX_INT) then return "path or descriptor expected, got " .. v end
  if type(v) ~= "string" then return end
  if v:find("\0", 1, true) then return "a path has no zero bytes" end
  -- The name may come from an untrusted user: it must stay below the mount point.
  if v:sub(1, 1) ~= "/" and ("/" .. v .. "/"):find("/../", 1, true) then return "a path without '..' expected, got " .. v end
end

-- The checks of the options that select what to count.
M.target = {
  pid = int, cpu = int, cgroup = M.cgroup_mistake, group = function(v)
    if getmetatable(v) ~= core.Event then return "Event expected, got " .. type(v) end
    if not v:is_open() then return "the Event is closed" end
  end,
}

local checks = {} -- a checker for each function, by its name

-- Check the options of a public function that selects what to count.
-- @param opts
-- @string name the function's
-- @int position the argument's
-- @param[opt] more checks of its other options
function M.check_target(opts, name, position, more)
  if opts == nil then return {} end
  checks[name] = checks[name] or late "perf.api.check".options(name, copy(M.target, more))
  return checks[name](opts, position)
end

-- The kernel's software events that were opened by name: name -> {attr=, packed=, info=}. Resolving a name and checking an attr
-- take as long as opening the event. A name has the same meaning each time, and these events need no more than the open itself.
local by_name, many = {}, 0
local MOST = 256

local function remember(name, attr, ev)
  local info = ev:info()
  if attr.type ~= SOFTWARE or info.attr ~= attr or opening.writes_records(attr) then return end
  if many >= MOST then by_name, many = {}, 0 end
  by_name[name] = { attr = attr, packed = core.pack(attr), info = printed.table(copy(info, { shared = true })) }
  many = many + 1
end

-- Open such an event again. These events share a table of information, which is replaced before it is changed.
local function open_again(name, again)
  local ev, message, code = idle.open_packed(again.attr, again.packed, again.info)
  if ev then
    prewarm.note(again.attr)
    return ev
  end
  if code == "EACCES" and opening.is_clock(again.attr) then -- then M.attr does without the kernel
    by_name[name] = nil
    return M.open(name)
  end
  return explain(again.info.label, again.attr, message, code, {})
end

-- Raise an error if the first argument is nil. This is checked before the second argument: the two are nil and a message in
-- perf.open(perf.kprobe {...}) if perf.kprobe fails.
function M.check_events(events, expected)
  if events == nil then argument.raise(expected .. " expected, got nil") end
end

--- Open one event; return an Event.
-- @tparam string|table event a name as in perf stat -e, or a table of perf_event_attr fields
-- @tparam[opt] table options
-- @treturn Event disabled unless its attr says `disabled=false`
-- @fails "EACCES" if kernel.perf_event_paranoid forbids it, "ENOENT" or "EOPNOTSUPP" if the machine lacks the event ...
-- @raise for an unknown name, field or option
function M.open(event, opts)
  local again = opts == nil and by_name[event]
  if again then return open_again(event, again) end
  argument.check_dot(event)
  M.check_events(event, "event name or table")
  late "perf.api.check".check_no_options(event, "perf.open", 1)
  opts = M.check_target(opts, "perf.open", 2)
  if type(event) == "table" and event[1] ~= nil and next(event, 1) == nil then event = event[1] end -- a list of one
  local spec, message, code = names().resolve(event)
  if not spec then return nil, message, code end
  if #spec.attrs > 1 then
    return nil, ("%s: is counted by %d PMUs of this machine, and an Event is one of them: name it with its PMU, or use "
      .. "perf.measure or perf.set, which add them up"):format(spec.label, #spec.attrs), "EINVAL"
  end
  local attr = M.prepared(spec.attrs[1])
  local ev
  ev, message, code = opening.attr(spec, attr, opts)
  if not ev then return nil, message, code end
  if type(event) == "string" and next(opts) == nil then remember(event, attr, ev) end
  return ev
end

return M
