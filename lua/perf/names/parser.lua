--- Event names, as perf(1) spells them, into attr fields.
--
--     HEAD [/TERM,TERM.../] [:]MODIFIERS
--
-- HEAD is a hardware, software or cache event, rNNN, TYPE:CONFIG, GROUP:TRACEPOINT, mem:ADDRESS[/LENGTH][:rwx] or a PMU.
-- The order of looking is from what needs no file system to what does: tables, then sysfs, then tracefs, then libpfm4.
--
-- A resolved event is {label=, unit=, scale=, description=, kind=, attrs={attr, ...}}: more than one attr when the
-- same event is on several PMUs (the core types of a hybrid CPU, the boxes of an uncore family), to be added up.
--
-- A mistake in a name raises; what the machine lacks (tracefs, a PMU) returns nil, message, code.
--
-- @module perf.names

local core = require "perf.core"
local blame = require "perf.names.blame"
local cache = require "perf.names.cache"
local modifiers = require "perf.names.modifiers"
local suggest = require "perf.names.suggest"
local tracefs = require "perf.tracefs"
local u64 = require "perf.names.u64"

local names = {}

local HARDWARE, SOFTWARE, TRACEPOINT, HW_CACHE, RAW = 0, 1, 2, 3, 4

local plain -- lower-case name -> {type=, config=, row=, kind=}

local function plain_event(text)
  if not plain then
    plain = {}
    local defs = core.defs()
    for kind, type in pairs{hardware = HARDWARE, software = SOFTWARE} do
      for _, row in ipairs(defs[kind]) do
        local entry = {type = type, config = row.value, row = row, kind = kind}
        plain[row.name] = entry
        if row.alias then plain[row.alias] = entry end
      end
    end
  end
  return plain[text:lower()]
end

-- What needs no file system: a result without its label, or nil.
local function from_tables(head)
  local entry = plain_event(head)
  if entry then
    return {kind = entry.kind, unit = entry.row.unit, description = entry.row.description,
      attrs = {{type = entry.type, config = entry.config}}}
  end
  local digits = head:match("^r0?x?(%x+)$")
  if digits then
    local config, why = u64.parse_hex(digits)
    if not config then blame.raisef("'%s' %s", head, why) end
    return {kind = "raw", attrs = {{type = RAW, config = config}}}
  end
  local config, name = cache.parse(head)
  if config then
    return {kind = "cache", description = name, attrs = {{type = HW_CACHE, config = config}}}
  elseif name then
    blame.raisef("unknown event '%s': %s", head, name)
  end
end

local function all_names(with_tracepoints)
  local out = {}
  plain_event("")
  for name in pairs(plain) do out[#out + 1] = name end
  for _, event in ipairs(cache.all()) do out[#out + 1] = event.name end
  if with_tracepoints then
    for _, name in ipairs(tracefs.here:names() or {}) do out[#out + 1] = name end
  end
  return out
end

local function from_string(text)
  local head, letters = text, nil
  local found = from_tables(head)
  if not found then
    head, letters = text:match("^(.*):([^:]*)$")
    found = head and from_tables(head)
  end
  if not found then
    local group, name, rest = text:match("^([^:]+):([^:]+):?([^:]*)$")
    if group then
      local id, message, code, unknown = tracefs.here:id(group, name)
      if unknown then blame.raise("unknown event: " .. message .. suggest.hint(group .. ":" .. name, all_names(true))) end
      if not id then return nil, message, code end
      letters = rest
      found = {kind = "tracepoint", attrs = {{type = TRACEPOINT, config = id}}}
    end
  end
  if not found then blame.raisef("unknown event '%s'%s", text, suggest.hint(text, all_names())) end
  if letters then
    local at, letter = modifiers.bad(letters)
    if at then blame.raisef("'%s': unknown modifier '%s'; there are %s", text, letter, modifiers.letters) end
    for _, attr in ipairs(found.attrs) do
      local marks, why = modifiers.apply(attr, letters)
      if not marks then blame.raisef("'%s': %s", text, why) end
      found.weak, found.bpf = marks.weak, marks.bpf
    end
  end
  found.label = text
  return found
end

local OURS = {event = true, label = true, unit = true, scale = true}

local function from_table(spec)
  if spec.attrs then return spec end
  local found = {attrs = {{}}, kind = "attr"}
  if spec.event then
    local message, code
    found, message, code = from_string(spec.event)
    if not found then return nil, message, code end
  end
  found.label, found.unit, found.scale = spec.label or found.label, spec.unit or found.unit, spec.scale or found.scale
  for _, attr in ipairs(found.attrs) do
    for field, value in pairs(spec) do
      if not OURS[field] then attr[field] = value end
    end
  end
  found.label = found.label or ("%s:%s"):format(tostring(spec.type), tostring(spec.config or 0))
  return found
end

--- Resolve an event.
-- @tparam string|table spec a name, a table of attr fields, or what this function returned
-- @return[1] {label=, unit=, scale=, description=, kind=, attrs={attr, ...}}
-- @return[2] nil, message, code when the machine lacks what the name needs
-- @raise for a name or a field that there is not
function names.resolve(spec)
  if type(spec) == "string" then return from_string(spec:match("^%s*(.-)%s*$")) end
  if type(spec) == "table" then return from_table(spec) end
  blame.raisef("event name or table expected, got %s", type(spec))
end

--- Split a list at the commas that are outside of slashes, braces and quotes.
-- @string list such as "cycles,cpu/event=0x3c,umask=1/,{a,b}:u"
-- @return array of strings, trimmed
function names.split(list)
  local out, from, slash, brace = {}, 1, false, 0
  for i = 1, #list + 1 do
    local c = list:sub(i, i)
    if c == "/" then
      slash = not slash
    elseif c == "{" then
      brace = brace + 1
    elseif c == "}" then
      brace = brace - 1
    elseif c == "" or c == "," and not slash and brace <= 0 then
      out[#out + 1] = list:sub(from, i - 1):match("^%s*(.-)%s*$")
      from = i + 1
    end
  end
  return out
end

return names
