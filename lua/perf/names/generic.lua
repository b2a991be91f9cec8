-- Events whose names need no PMU and no file: hardware, software, cache, rNNN, TYPE:CONFIG.

local core = require "perf.core"
local cache = require "perf.names.cache"
local keys_of = require "perf.base.keys"
local u64 = require "perf.base.u64"

local generic = {}

generic.HARDWARE, generic.SOFTWARE, generic.TRACEPOINT, generic.HW_CACHE, generic.RAW, generic.BREAKPOINT = 0, 1, 2, 3, 4, 5

local KINDS = {{"hardware", generic.HARDWARE}, {"software", generic.SOFTWARE}}

local defs, by_name -- the tables of core.defs; lower-case name or alias -> event: made at the first use

local function index()
  if not by_name then
    by_name, defs = {}, core.defs()
    for _, kind in ipairs(KINDS) do
      for _, row in ipairs(defs[kind[1]]) do
        local event = {kind = kind[1], type = kind[2], config = row.value, unit = row.unit, description = row.description}
        by_name[row.name:lower()] = event
        if row.alias then by_name[row.alias:lower()] = event end
      end
    end
  end
  return by_name
end

-- A hardware, software or cache event.
-- @string text its name, in upper or lower case
-- @return[1] {kind=, type=, config=, unit=, description=}
-- @return[2] nil
-- @return[3] nil and the reason why a cache has no such operation
function generic.find(text)
  local event = index()[text:lower()]
  if event then return event end
  local config, about = cache.parse(text)
  if config then
    return {kind = "cache", type = generic.HW_CACHE, config = config, description = about}
  end
  return nil, about
end

-- rNNN or TYPE:CONFIG.
-- @return[1] {kind="raw", type=, config=}
-- @return[2] nil
-- @return[3] nil and the error in its number
function generic.numeric(text)
  local digits = text:match("^r0x(%x+)$") or text:match("^r(%x+)$")
  if digits then
    local config, why = u64.parse_hex(digits)
    return config and {kind = "raw", type = generic.RAW, config = config}, not config and why or nil
  end
  local kind, number = text:match("^(%d%w*):(%d%w*)$")
  if not kind then return nil end
  local config, why = u64.parse(number)
  kind = u64.parse(kind)
  if not config or not kind then return nil, why or "is not a number" end
  if not u64.fits(kind, 32) then return nil, "has a type over 32 bits" end
  return {kind = "raw", type = kind, config = config}
end

-- An event by `find` or `numeric`.
-- @return event; or nil, and what is wrong if it is nearly one
function generic.event(text)
  local event, why = generic.find(text)
  if event or why then return event, why end
  return generic.numeric(text)
end

-- All names, in any order.
function generic.names()
  local out = keys_of(index())
  for _, event in ipairs(cache.all()) do out[#out + 1] = event.name end
  return out
end

-- The name of the row with a value in one of the tables of core.defs, or nil.
function generic.named(rows, value)
  for _, row in ipairs(rows) do
    if row.value == value then return row.name end
  end
end

-- The name of an attr that has no label, as perf(1) would print it.
-- @tparam table attr attr fields
function generic.describe(attr)
  defs = defs or core.defs()
  local kind, low = attr.type, core.halves(attr.config or 0)
  for _, row in ipairs(defs.types) do
    if row.name == kind then kind = row.value end
  end
  local name
  if kind == generic.HARDWARE or kind == generic.SOFTWARE then
    name = generic.named(defs[kind == generic.HARDWARE and "hardware" or "software"], low)
  elseif kind == generic.HW_CACHE then
    for _, event in ipairs(cache.all()) do
      if event.config == low then name = event.name end
    end
  elseif kind == generic.RAW then
    name = "r" .. core.hex(attr.config or 0):sub(3)
  elseif kind == generic.BREAKPOINT and attr.bp_addr then
    local access = core.unpack(core.pack {bp_type = attr.bp_type or 0}).bp_type or {}
    name = "mem:" .. core.hex(attr.bp_addr) .. (attr.bp_len and "/" .. attr.bp_len or "")
    if access[1] then name = name .. ":" .. table.concat(access) end
  end
  if not name then
    name = ("%s:%s"):format(type(kind) == "number" and ("%d"):format(kind) or tostring(kind), core.hex(attr.config or 0))
  end
  if attr.exclude_user or attr.exclude_kernel or attr.exclude_hv then
    local letters = (attr.exclude_user and "" or "u") .. (attr.exclude_kernel and "" or "k") .. (attr.exclude_hv and "" or "h")
    if letters ~= "" then name = name .. ":" .. letters end
  end
  return name
end

return generic
