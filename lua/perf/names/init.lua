-- Resolves events given by callers, as names or tables, to attr fields.
--
-- A resolved event is
--
--     {label=, kind=, unit=, scale=, description=, attrs={attr, ...}, pmus={name, ...}, cpumask=,
--      per_pkg=, snapshot=, weak=, bpf=}
--
-- It has several attrs if the event is on several PMUs (the core types of a hybrid CPU, the boxes of an uncore family), whose
-- counts are to be added up. pmus has the PMUs' names, if a PMU was looked up. Attrs are plain tables of attr fields.
--
-- perf.attr and similar functions return one attr, with a metatable that holds the rest: it looks like a plain table of attr
-- fields, and still opens on every PMU of the event.
--
-- A mistake raises at the line that called the public function. If the machine lacks something (tracefs, a PMU), functions return
-- nil, message, code.

local copy = require "perf.base.copy"
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local generic = require "perf.names.generic"
local keys_of = require "perf.base.keys"
local lists = require "perf.names.lists"
local memory = require "perf.names.memory"
local modifiers = require "perf.names.modifiers"
local parser = require "perf.names.parser"
local trim = require "perf.base.trim"
local pmu = require "perf.kernel.pmu"
local suggest = require "perf.base.suggest"
local tracefs = require "perf.kernel.tracefs"

local names = {split = lists.split, expand = lists.expand, list_mistake = lists.wrong}

local Names = {}
Names.__index = Names

-- A resolver for a machine.
-- @tparam[opt] Pmus pmus by default this machine's
-- @tparam[opt] Tracefs tracepoints by default this machine's
function names.new(pmus, tracepoints)
  pmus, tracepoints = pmus or pmu.here, tracepoints or tracefs.here
  return setmetatable({pmus = pmus, tracefs = tracepoints, parser = parser.new(pmus, tracepoints)}, Names)
end

-- Keys of an event's table that are not attr fields -> their types.
local OWN_KEYS = {event = "string or table", modifiers = "string", label = "string", unit = "string", scale = "number"}

-- Fields that share bytes of the attr: setting one removes the other.
local SHARED = {
  sample_period = "sample_freq", sample_freq = "sample_period",
  wakeup_events = "wakeup_watermark", wakeup_watermark = "wakeup_events",
}

local fields, types -- name -> attr field, name -> number of a type; made at the first use

local function attr_fields()
  if not fields then
    fields, types = {}, {}
    local defs = core.defs()
    for _, row in ipairs(defs.attr) do fields[row.name] = row.kind end
    for _, row in ipairs(defs.types) do types[row.name] = row.value end
  end
  return fields, types
end

local function check_keys(spec)
  for key, value in pairs_of(spec) do
    local wanted = OWN_KEYS[key]
    if wanted then
      if not wanted:find(type(value), 1, true) then
        argument.raisef("field '%s': %s expected, got %s", key, wanted, type(value))
      end
    elseif type(key) == "number" then
      argument.raise("an array of events, where one event is expected; perf.group and perf.set open several")
    elseif not attr_fields()[key] then
      argument.raisef("unknown attr field '%s'%s", tostring(key), suggest.hint(tostring(key), keys_of(fields, OWN_KEYS)))
    end
  end
  for key, other in pairs_of(SHARED) do
    if spec[key] and spec[other] then
      local first, second = key, other
      if first > second then first, second = second, first end
      argument.raisef("fields '%s' and '%s' exclude each other", first, second)
    end
  end
end

local tointeger = math.tointeger or function() end

-- Bring an attr into a uniform form: a type given by name becomes a number, a bit given as 0 or 1 a boolean, and on Lua 5.3 and
-- later a whole number an integer.
local function normalize(attr)
  local kinds, numbers = attr_fields()
  attr.type = numbers[attr.type] or attr.type
  for name, value in pairs_of(attr) do
    if kinds[name] == "bit" and name ~= "precise_ip" and (value == 0 or value == 1) then
      attr[name] = value == 1
    elseif type(value) == "number" then
      attr[name] = tointeger(value) or value
    end
  end
end

-- The binding checks types and ranges, since it has the table of fields.
local function check_values(attr) argument.call_as_argument(1, "", core.pack, attr) end

local function copy_event(found)
  local out = copy(found)
  out.attrs = {}
  for i, attr in ipairs(found.attrs) do out.attrs[i] = copy(attr) end
  return out
end

-- The event behind a table made by perf.attr, with the changes made to the table since.
local function behind(spec)
  local meta = getmetatable(spec)
  local event = type(meta) == "table" and meta.event
  if not event then return nil end
  local out, first = copy_event(event), event.attrs[1]
  for _, attr in ipairs(out.attrs) do
    for field in pairs_of(first) do
      if rawget(spec, field) == nil then attr[field] = nil end
    end
  end
  return out
end

function Names:base(spec)
  if spec.event then
    local found, message, code = self:resolve(spec.event)
    if not found then return nil, message, code end
    return found, spec
  end
  local found = behind(spec)
  if not found then
    if spec.type == nil then argument.raise("the table has neither event nor type") end
    return {kind = "attr", attrs = {{config = 0}}}, spec
  end
  -- Only the fields that differ from its first attr: the PMUs' own types and configs stay.
  local changed, first = {}, getmetatable(spec).event.attrs[1]
  for key, value in pairs_of(spec) do
    if first[key] ~= value then changed[key] = value end
  end
  return found, changed
end

function Names:table(spec)
  if type(spec.attrs) == "table" then return copy_event(spec) end
  check_keys(spec)
  local found, overrides, code = self:base(spec)
  if not found then return nil, overrides, code end
  if spec.modifiers then
    local at, wrong = modifiers.check(spec.modifiers)
    if at then argument.raise("field 'modifiers': " .. wrong:gsub("@@", "")) end
  end
  local another = false -- whether it is now another event than the named one
  for i, attr in ipairs(found.attrs) do
    local was = copy(attr)
    if spec.modifiers then
      local owner = found.pmus and self.pmus:get(found.pmus[i])
      local marks, why = modifiers.apply(attr, spec.modifiers, owner and owner:max_precise())
      if not marks then argument.raisef("field 'modifiers': %s", why) end
      found.weak, found.bpf = found.weak or marks.weak, found.bpf or marks.bpf
    end
    for field, value in pairs_of(overrides) do
      if not OWN_KEYS[field] then
        if SHARED[field] then attr[SHARED[field]] = nil end
        attr[field] = value
      end
    end
    normalize(attr)
    check_values(attr)
    another = another or attr.type ~= was.type or attr.config ~= was.config
  end
  if another then found.label, found.unit, found.scale = nil, nil, nil end
  found.label = rawget(spec, "label") or found.label or generic.describe(found.attrs[1])
  found.unit, found.scale = rawget(spec, "unit") or found.unit, rawget(spec, "scale") or found.scale
  return found
end

-- Resolve an event.
-- @see names.resolve
function Names:resolve(spec)
  if type(spec) == "string" then return self.parser:parse(trim(spec)) end
  if type(spec) == "table" and not argument.is_perf(spec) then return self:table(spec) end
  argument.raisef("event name or table expected, got %s", argument.kind(spec))
end

local Attr = {}

-- One attr of a resolved event as the public functions return it: its own keys are attr fields, and label, unit,
-- scale, kind and description can be read from it.
-- @tparam table found a resolved event
function names.attr(found)
  local out = copy(found.attrs[1])
  local event = copy_event(found)
  local shown = {label = event.label, unit = event.unit, scale = event.scale, kind = event.kind,
    description = event.description}
  return setmetatable(out, {__index = shown, __tostring = Attr.tostring, event = event})
end

-- attr{type = 0, config = 0x3c, exclude_kernel = true}  -- label
function Attr.tostring(attr)
  local parts = {}
  for _, row in ipairs(core.defs().attr) do
    local value = rawget(attr, row.name)
    if type(value) == "table" then
      value = "{" .. table.concat(value, ", ") .. "}"
    elseif value ~= nil and (row.name:find("^config") or row.name:find("addr")) then
      value = core.hex(value)
    end
    if value ~= nil then parts[#parts + 1] = ("%s = %s"):format(row.name, tostring(value)) end
  end
  return ("%s: attr{%s}"):format(tostring(attr.label), table.concat(parts, ", "))
end

local here = names.new()

-- Resolve an event.
-- @tparam string|table spec a name; a table of attr fields, with `event` (a name, or the result of perf.tracepoint and similar
-- functions) for fields that it does not have itself, and `label`, `unit`, `scale`, `modifiers`; or a resolved event
-- @return[1] the resolved event, its tables fresh
-- @return[2] nil, message, code if the machine lacks something that the name needs: "ENODEV" no such PMU, "ENOENT" or "EACCES"
-- tracefs is not mounted or cannot be read
-- @raise for an unknown name or field
function names.resolve(spec)
  return here:resolve(spec)
end

-- The same for an event that is counted by difference, which may also be one of Lua's memory: see perf.names.memory.
function names.resolve_counted(spec)
  local found = memory.resolve(spec)
  if found then return found end
  return names.resolve(spec)
end

-- Resolve each event of an array.
-- @param[opt] resolve `resolve`, or another function that does the same
-- @return array; or nil, message, code
function names.resolve_list(list, resolve)
  local specs = {}
  for i, event in ipairs(list) do
    local spec, message, code = (resolve or names.resolve)(event)
    if not spec then return nil, message, code end
    specs[i] = spec
  end
  return specs
end

return names
