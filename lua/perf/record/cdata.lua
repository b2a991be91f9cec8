-- Records as cdata, whose fields LuaJIT can read in compiled code.
--
-- The cdata of a Record holds its bytes and a tag (csrc/binding/record/cdata.c). Fields that have the same position in every
-- sample of an event are read directly by compiled code. Every other field is parsed out of the bytes by C when it is needed, by
-- the same functions as for Records that are userdata. Taking a record costs the cdata and one call through FFI; if a Record is
-- reused, only the call.
--
-- A tag is the number of a layout together with facts about the event: its label, the labels of its group, and its attr. Tags are
-- interned by content and kept, so there are as many as different events.
--
-- Loaded when the first ring is mapped or file opened, if Counts are cdata too (perf.base.compiled).
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local memo = require "perf.base.memo"
local printed = require "perf.base.printed"
local core = require "perf.core"
local ffi = require "ffi"
local limits = require "perf.record.limits"
local record = require "perf.record"

if core.packed then return core.packed end -- once only, since it adds methods to the core's classes

local M = {}
core.packed = M

local TAKEN, NONE, UNTAGGED = 1, 0, -1

local Packed -- the ctype

local i32p, u16p, u64 = ffi.typeof "const int32_t *", ffi.typeof "const uint16_t *", ffi.typeof "uint64_t"
local band = require "bit".band
local unpack = unpack or table.unpack -- luacheck: compat
local cast, tonumber = ffi.cast, tonumber -- each look-up of a global would be one more check in compiled code

-- Fields: getters, one for each type and position ---------------------------------------------------------------------

local EXACT = 2 ^ 53 -- numbers are exact up to here

local function exactly(v, n)
  if v == EXACT or v == -EXACT then return n end
end

local reads = {}

-- An unsigned number of 64 bits.
local function unsigned(place)
  local i = place / 8
  return function(rec)
    local v = rec._b[i]
    local n = tonumber(v)
    if n >= 0 and n < EXACT then return n end
    return exactly(v, n) or cast(u64, v)
  end
end

local function signed(place)
  local i = place / 8
  return function(rec)
    local v = rec._b[i]
    local n = tonumber(v)
    if n < EXACT and n > -EXACT then return n end
    return exactly(v, n) or v
  end
end

local function int(place)
  local i = place / 4
  return function(rec) return cast(i32p, rec._b)[i] end
end

for name in ("time id stream_id period event_id"):gmatch "%S+" do reads[name] = unsigned end
for name in ("ip addr"):gmatch "%S+" do reads[name] = signed end
for name in ("pid tid cpu"):gmatch "%S+" do reads[name] = int end

local getters = memo(memo) -- getters[function in `reads`][offset]

local function misc(rec) return cast(u16p, rec._b)[2] end
local function size(rec) return cast(u16p, rec._b)[3] end
local function type_id(rec) return cast(i32p, rec._b)[0] end
local function exact_ip(rec) return band(cast(u16p, rec._b)[2], 0x4000) ~= 0 end
local function is_sample() return "sample" end

local field_number = {}
for i, name in ipairs(core.record_fields()) do field_number[name] = i end

-- Tags ----------------------------------------------------------------------------------------------------------------

local shapes = {} -- by tag: {name = getter}
local infos, layouts = {}, {} -- the event's info, and its layout in C, by tag
local tags = {} -- a layout's tag, by the layout's bytes

-- The shape of a tag whose other fields are parsed by C; a getter is made at its first use.
local function parsed(layout, info)
  return function(shape, name)
    local i = field_number[name]
    if not i then return nil end
    local function get(rec) return core.packed_field(rec, layout, info, i) end
    rawset(shape, name, get)
    return get
  end
end

local function shape_of(layout, info, places)
  local shape = setmetatable({ size = size, misc = misc, raw_fields = record.raw_fields }, { __index = parsed(layout, info) })
  for name, place in pairs_of(places or {}) do shape[name] = getters[reads[name]][place] end
  if places then
    shape.type, shape.type_id, shape.exact_ip = is_sample, type_id, exact_ip
  end
  return shape
end

-- A key that identifies an attr: its bytes or, if a damaged file has invalid values, its fields as text.
local function content(attr)
  local ok, bytes = pcall(core.pack, attr)
  if ok then return bytes end
  local fields = {}
  for key, v in pairs_of(attr) do
    fields[#fields + 1] = key .. "=" .. (type(v) == "table" and table.concat(v, "|") or tostring(v))
  end
  table.sort(fields)
  return table.concat(fields, " ")
end

local function intern(info, layout, places)
  local attr = info.attr and content(info.attr) or ""
  local labels = table.concat(info.labels or {}, "\0") -- those of its group now
  local key = ("%s\0%d %s\0%d %s"):format(info.label or "", #labels, labels, #attr, attr .. layout)
  local tag = tags[key]
  if not tag then
    tag = #infos / 2 + 1
    local known = printed.table { label = info.label, attr = info.attr, labels = info.labels }
    for _, sample in ipairs { false, places } do
      local n = #infos + 1
      infos[n], layouts[n] = known, layout
      shapes[2 * tag + (sample and 1 or 0)] = shape_of(layout, known, sample)
    end
    tags[key] = tag
  end
  return tag
end

local function info_of(rec) return infos[rec._tag - 1] end

-- The class -----------------------------------------------------------------------------------------------------------

local methods = { totable = record.totable }

local function check(self, method)
  if ffi.istype(Packed, self) then return self end
  argument.raise_in_method(method, ("Record expected, got %s"):format(type(self)), 1)
end

-- The event that wrote it.
function methods:info() return info_of(check(self, "info")) end

-- The bytes as the kernel wrote them.
function methods:bytes() return ffi.string(check(self, "bytes")._b, size(self)) end

Packed = ffi.metatype("struct { int32_t _tag; uint32_t _room; int64_t _b[?]; }", {
  __index = function(rec, name)
    local get = shapes[rec._tag][name]
    if get then return get(rec) end
    return methods[name]
  end,
  __tostring = record.tostring,
  __name = "perf.Record",
})

local take_event = ffi.cast("int (*)(void *, void *)", core.take_event)
local take_data = ffi.cast("int (*)(void *, void *)", core.take_data)

local function tag(source) return (getmetatable(source) == core.Event and core.tag_event or core.tag_data)(source, intern) end

-- A new Record with room for n bytes.
local function new(n)
  local words = (n + 7) / 8
  words = words - words % 1
  local rec = Packed(words)
  rec._room = words * 8
  return rec
end

-- Take the next record of a source, as a new or a reused Record; nil and the reason if that fails. There is no loop here: LuaJIT
-- would compile it separately from a loop of the caller.
local function take_new(take, source)
  local n = take(source, nil)
  if n > TAKEN then
    local rec = new(n)
    if take(source, rec) == TAKEN then return rec end
    return take_new(take, source) -- a finalizer that ran in `new` has closed the source, or read from it
  end
  if n ~= UNTAGGED then return nil, n end
  tag(source)
  return take_new(take, source)
end

local function take_into(take, source, into)
  local n = take(source, into)
  if n == TAKEN then return into end
  if n > TAKEN or n == UNTAGGED then return take_new(take, source) end
  return nil, n
end

-- Whether rec is a cdata Record.
function M.is(rec) return ffi.istype(Packed, rec) end

-- The layout of a Record, for C.
function M.layout(rec) return layouts[rec._tag - 1] end

function core.earlier(a, b)
  local ta, tb = a.time, b.time
  if ta ~= nil and tb ~= nil then return ta < tb end
  return ta == nil and tb ~= nil
end

-- The iterator functions of `each`, by the names of the fields. All loops over the same fields share one function and differ only
-- in their state: LuaJIT compiles each closure separately, so with a closure for each loop it would compile every loop anew. The
-- state: take and source; rec, which is reused for each record; type; is_over(), whether to end the loop at a record of another
-- type; and otherwise(source, why), which handles records that cannot be taken here, and returns whether to go on.
local steps = {}

local function next_step(loop, n, count, step)
  if n == TAKEN then
    if loop:is_over() then return nil end
  elseif n > TAKEN then
    loop.rec = new(2 * n)
  elseif n == UNTAGGED then
    tag(loop.source)
  elseif not loop.otherwise(loop.source, n) then
    return nil
  end
  return step(loop, count)
end

local function step_of(...)
  local code = select("#", ...) == 0 and "" or ", rec." .. table.concat({ ... }, ", rec.")
  steps[code] = steps[code] or loadstring(([[
    local next_step = ...
    local function step(loop, count)
      local rec = loop.rec
      local n = loop.take(loop.source, rec)
      if n == 1 and rec.type == loop.type then return count + 1%s end
      return next_step(loop, n, count, step)
    end
    return step]]):format(code), "=each")(next_step)
  return steps[code]
end

local FIRST_ROOM = 248 -- bytes; enough for most records, for others a larger Record is made

local function never() return false end

-- The iterator, its state and the first control value, as `each` returns them.
local function values(take, source, otherwise, type, ...)
  return step_of(...), { take = take, source = source, rec = new(FIRST_ROOM), type = type, is_over = never,
    otherwise = otherwise }, 0
end

-- Files: Data's methods -----------------------------------------------------------------------------------------------

local Data = core.Data.__index
local each_data, next_data, data_records = Data.each, Data.next, Data.records

local function next_of_file(data)
  while true do
    local rec, _, code = argument.call_as_method("records", next_data, data)
    if rec or not code then return rec end
  end
end

-- The next Record of a file; or nil; or nil, message, code.
function Data:next()
  if getmetatable(self) ~= core.Data then return next_data(self) end
  local rec = take_new(take_data, self)
  if rec then return rec end
  return next_data(self)
end

-- Iterate over a file's records.
function Data:records()
  argument.call_as_method("records", data_records, self) -- checks the arguments
  return function()
    local rec = take_new(take_data, self)
    if rec then return rec end
    return next_of_file(self)
  end
end

function Data:each(type, ...)
  argument.call_as_method("each", each_data, self, type, ...) -- checks the arguments
  return values(take_data, self, function(data)
    local rec, _, code = argument.call_as_method("each", next_data, data)
    return rec or code
  end, type, ...)
end

-- Rings: Event's methods ----------------------------------------------------------------------------------------------

local Event = core.Event.__index
local read_record, read_aux, records, poll, each_event = Event.read_record, Event.read_aux, Event.records, Event.poll, Event.each

local passing = { EBADMSG = true, ETIMEDOUT = true, ECANCELED = true }

local read_slowly

-- (Documented with the class Event; `into` is reused, if it has room.)
function Event:read_record(timeout, into)
  if getmetatable(self) ~= core.Event or (timeout ~= nil and not (type(timeout) == "number" and timeout >= 0)) then
    return read_record(self, timeout, into)
  end
  local rec, why
  if into == nil then
    rec, why = take_new(take_event, self)
  elseif ffi.istype(Packed, into) then
    rec, why = take_into(take_event, self, into)
  else
    return read_record(self, timeout, into)
  end
  if rec then return rec end
  return read_slowly(self, timeout, into, why)
end

function read_slowly(self, timeout, into, why)
  if why ~= NONE then return argument.call_as_method("read_record", read_record, self) end
  local ok, message, code = poll(self, timeout)
  if not ok then return nil, message, code end
  return self:read_record(timeout, into)
end

local function next_slowly(self, timeout, why)
  if why == NONE then
    if not poll(self, timeout) then return nil end
  else
    local rec, _, code = argument.call_as_method("records", read_record, self)
    if rec or code ~= "EBADMSG" then return rec end
  end
  local rec
  rec, why = take_new(take_event, self)
  if rec then return rec end
  return next_slowly(self, timeout, why)
end

function Event:records(opts)
  records(self, opts) -- checks the arguments
  if limits.bounded(opts) then return limits.records(opts, self.read_record, self) end
  local timeout = opts and opts.timeout
  return function()
    local rec, why = take_new(take_event, self)
    if rec then return rec end
    return next_slowly(self, timeout, why)
  end
end

local function take_other(ev, why)
  if why == NONE then return false end
  local rec, message, code = argument.call_as_method("each", read_record, ev)
  if code and not passing[code] then error("the ring: " .. message, 0) end
  return rec or code == "EBADMSG"
end

local function is_table(v) return type(v) == "table" end

-- A loop with limits. They also end it if all records that arrive are of other types.
local function each_bounded(ev, opts, ...)
  local max, is_over = opts.max or math.huge, limits.timer(opts.duration)
  local step, loop, first = values(take_event, ev, take_other, ...)
  loop.is_over = is_over
  return function(_, count)
    if count >= max or is_over() then return nil end
    return step(loop, count)
  end, nil, first
end

function Event:each(type, ...)
  argument.call_as_method("each", each_event, self, type, ...) -- checks the arguments
  local n = select("#", ...)
  local opts = n > 0 and select(n, ...)
  if is_table(opts) then return each_bounded(self, opts, type, unpack({ ... }, 1, n - 1)) end
  return values(take_event, self, take_other, type, ...)
end

function Event:read_aux(rec, n)
  if ffi.istype(Packed, rec) and rec.type == "aux" then return read_aux(self, rec.aux_offset, rec.aux_size) end
  return read_aux(self, rec, n)
end

return M
