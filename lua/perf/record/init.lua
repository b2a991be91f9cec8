-- The methods of Record that are Lua; the core loads this module when one is first used.
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local core = require "perf.core"
local number = require "perf.base.format".digits

local M = {}

local fields = core.record_fields()
fields[#fields + 1] = "raw_fields"

-- The fields of a record that the perf tool adds; nil for the kernel's records. These records are never cdata
-- (perf.record.cdata).
local function user_fields(rec)
  return type(rec) ~= "cdata" and argument.call_as_method("totable", core.user_fields, rec) or nil
end

--- The fields of a record as a plain table.
-- @function Record:totable
-- @treturn table `{name = value, ...}`, only the fields that it has
function M.totable(rec)
  local t = user_fields(rec)
  if t then -- a record of the perf tool: see perf.data
    t.type, t.type_id, t.size, t.misc = rec.type, rec.type_id, rec.size, rec.misc
    return t
  end
  t = {}
  for i = 1, #fields do
    t[fields[i]] = rec[fields[i]]
  end
  return t
end

-- A tracepoint's fields by name: `rec.raw_fields`. nil if the record has no raw bytes, its event is not a tracepoint, or the
-- format is not available (libtraceevent, see `perf.features()`).
function M.raw_fields(rec)
  local raw = rec.raw
  local info = rec:info()
  if not raw then return nil end
  if info.decode_raw then return info.decode_raw(raw) end
  local attr = info.attr
  local id = attr and attr.config or 0 -- a file may have any 64-bit value, which may not be a Lua number
  if not attr or (attr.type ~= "tracepoint" and attr.type ~= 2) or type(id) ~= "number" or #raw < 8 then return nil end
  local ok, tracefields = pcall(late, "perf.record.tracefields")
  if not ok then return nil end
  return (tracefields.decode(id, raw))
end

local hexadecimal = { ip = true, addr = true, phys_addr = true, pgoff = true, len = true, misc = true, cookie = true }
-- Fields that are printed first, or in another form.
local head = { type = true, type_id = true, size = true, misc = true, cpu_mode = true, event = true, pid = true, tid = true,
  cpu = true, time = true, event_id = true, callchain = true, callchain_contexts = true, raw_fields = true, comm = true,
  branch_stack = true, raw = true, user_stack = true, aux = true, old = true, new = true, body = true }
local sized = { "raw", "user_stack", "aux", "old", "new", "body" }

-- Nanoseconds as seconds, divided in pieces of 16 bits so that no digit is rounded.
local function seconds(time)
  local low, high = core.halves(time)
  local whole, rest = 0, 0
  for _, half in ipairs { high, low } do
    for _, piece in ipairs { math.floor(half / 65536), half % 65536 } do
      local v = rest * 65536 + piece
      rest = v % 1e9
      whole = whole * 65536 + (v - rest) / 1e9
    end
  end
  return ("%.0f.%09.0f"):format(whole, rest)
end

-- A table in one line, the array part first.
local function inline(name, value)
  if type(value) == "table" then
    local parts, keyed = {}, {}
    for _, v in ipairs(value) do
      parts[#parts + 1] = type(v) == "table" and (v.name and v.name .. "=" .. number(v.ino) or number(v.value)) or inline(name, v)
    end
    for k, v in pairs_of(value) do
      if type(k) == "string" and v ~= true and name ~= "namespaces" then keyed[#keyed + 1] = k .. "=" .. inline(k, v) end
    end
    table.sort(keyed)
    for _, v in ipairs(keyed) do parts[#parts + 1] = v end
    return "{" .. table.concat(parts, " ") .. "}"
  end
  if type(value) == "string" and not value:find "^0x" or type(value) == "boolean" then return tostring(value) end
  return hexadecimal[name] and core.hex(value) or number(value)
end

-- A record of the perf tool: its plain fields by name, for others their size.
local function user_tostring(rec)
  local out, parts = {rec.type}, {}
  for name, value in pairs_of(core.user_fields(rec)) do
    if name == "attr" then
      value = "{...}"
    elseif name == "data" then
      value = #value .. " bytes"
    elseif type(value) == "table" then
      value = "{" .. #value .. "}"
    elseif type(value) == "number" and value % 1 ~= 0 then
      value = tostring(value)
    elseif type(value) ~= "string" and type(value) ~= "boolean" then
      value = number(value)
    end
    parts[#parts + 1] = name .. "=" .. tostring(value)
  end
  table.sort(parts)
  out[#out + 1] = table.concat(parts, " ")
  return table.concat(out, #parts > 0 and " " or "")
end

-- One line similar to perf script's: process, CPU, time, event, and all other fields by name.
-- @param rec Record
-- @return string
function M.tostring(rec)
  if user_fields(rec) then return user_tostring(rec) end
  local out = {}
  local function add(...)
    out[#out + 1] = (...):format(select(2, ...))
  end
  if rec.pid then add("%d/%d", rec.pid, rec.tid) end
  if rec.cpu then add("[%03d]", rec.cpu) end
  if rec.time then add("%s:", seconds(rec.time)) end
  if rec.event then add("%s:", rec.event) end
  add("%s", rec.type == "unknown" and "type " .. number(rec.type_id) or rec.type)
  if rec.comm then add("%s", rec.comm) end
  for i = 1, #fields do
    local name = fields[i]
    local value = not head[name] and rec[name]
    if value then add("%s%s", name, value == true and "" or "=" .. inline(name, value)) end
  end
  for _, name in ipairs(sized) do
    local value = rec[name]
    if value then add("%s=%d bytes", name, #value) end
  end
  if rec.cpu_mode ~= "unknown" then add("(%s)", rec.cpu_mode) end
  local chain = rec.callchain
  if chain then
    for i = 1, #chain do chain[i] = core.hex(chain[i]) end
    add("callchain={%s}", table.concat(chain, " "))
  end
  for _, b in ipairs(rec.branch_stack or {}) do
    add("%s->%s", core.hex(b.from), core.hex(b.to))
  end
  return table.concat(out, " ")
end

return M
