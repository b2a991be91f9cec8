-- pprof's format: the protocol buffer message Profile, which `go tool pprof` opens; compressed if lua-zlib is installed.
--
-- A field is a varint of its number and wire type (0: a varint; 2: a length and bytes). The numbers used:
--
--     Profile   1 sample_type  2 sample  3 mapping  4 location  5 function  6 string_table  9 time_nanos
--               10 duration_nanos  11 period_type  12 period  13 comment  14 default_sample_type
--     ValueType 1 type  2 unit                       Sample   1 location_id (packed)  2 value (packed)  3 label
--     Label     1 key  2 str                         Mapping  1 id  5 filename  7 has_functions  8 has_filenames  9 has_lines
--     Location  1 id  2 mapping_id  3 address  4 line         Line  1 function_id  2 line
--     Function  1 id  2 name  3 system_name  4 filename  5 start_line
--
-- A function is a Lua function, a C function or a symbol; a location is a line of a function. Each text is stored once in the
-- table of strings, and referred to by its index.
local core = require "perf.core"
local file = require "perf.base.file"
local lua_frame = require "perf.profile.lua_frame"
local memo = require "perf.base.memo"
local text = require "perf.profile.report.frame_names"

local M = {}

local char, concat, floor = string.char, table.concat, math.floor

-- The varint of an integer of at most 2^53, or of a larger double.
local function varint(v)
  if v < 128 then return char(v) end
  local bytes, n = {}, 0
  while v >= 128 do
    n = n + 1
    bytes[n] = char(v % 128 + 128)
    v = floor(v / 128)
  end
  bytes[n + 1] = char(v)
  return concat(bytes, "", 1, n + 1)
end

-- The varint of two halves of 32 bits: at most ten bytes.
local function varint64(low, high)
  if high == 0 then return varint(low) end
  local bytes = {}
  for i = 1, 4 do
    bytes[i] = char(low % 128 + 128)
    low = floor(low / 128)
  end
  -- The low half has four bits left.
  local rest = low + high * 16
  return concat(bytes) .. varint(rest)
end

local function exact(v)
  if type(v) == "number" and v >= 0 and v < 2 ^ 53 then return varint(floor(v)) end
  return varint64(core.halves(v))
end

local function number(field, v) return v ~= 0 and varint(field * 8) .. varint(v) or "" end
local function bytes(field, s) return varint(field * 8 + 2) .. varint(#s) .. s end

-- Write bytes(2, bytes(1, ids) .. bytes(2, values) .. label), without making these strings: LuaJIT enters each new string into
-- its table of strings, and takes milliseconds when this table grows.
local function put_sample(put, ids, values, label)
  local ids_size, values_size = varint(#ids), varint(#values)
  put "\18"
  put(varint(2 + #ids_size + #ids + #values_size + #values + #label))
  put "\10"
  put(ids_size)
  put(ids)
  put "\18"
  put(values_size)
  put(values)
  if label ~= "" then put(label) end
end

-- Numbers items from 1 in the order of their first use, and writes each once.
local function table_of(put, field)
  local ids, n = {}, 0
  return function(key, make)
    local id = ids[key]
    if not id then
      n = n + 1
      id = n
      ids[key] = id
      put(bytes(field, number(1, id) .. make()))
    end
    return id
  end
end

local function strings_of()
  local list = {}
  local index = memo(function(s)
    list[#list + 1] = s
    return #list - 1
  end)
  return list, function(s) return index[s and text.utf8(s) or ""] end
end

local units = { ns = "nanoseconds", [""] = "count" }

-- The types of a profile's values, each followed by the field of its samples; those of memory have Go's names. The last one is
-- shown if no other is chosen.
local function types_of(prof)
  if prof.event == "alloc" then return { "alloc_objects", "count", "alloc_space", "weight" } end
  if prof.event ~= "heap" then
    -- The type of a value is known by its name, so the two must differ.
    return prof.event == "samples" and { "samples", "weight" } or { "samples", "count", prof.event, "weight" }
  end
  local inuse = { "inuse_objects", "count", "inuse_space", "weight" }
  local first = prof:samples()[1] or prof.freed and prof.freed[1]
  if not (first and first.allocated) then return inuse end -- it was loaded from a file of another format
  return { "alloc_objects", "allocated_count", "alloc_space", "allocated", "inuse_objects", "count", "inuse_space", "weight" }
end

-- Write the profile's message.
local function encode(prof, put, pause)
  local strings, str = strings_of()
  str "" -- the first one
  local add_function, add_location, add_mapping = table_of(put, 5), table_of(put, 4), table_of(put, 3)
  local types, fields, value_type = types_of(prof), {}, nil
  for i = 1, #types, 2 do
    local field = types[i + 1]
    local unit = field:find "count" and "count" or units[prof.unit] or prof.unit
    fields[#fields + 1], value_type = field, number(1, str(types[i])) .. number(2, str(unit))
    put(bytes(1, value_type))
  end
  local event = str(types[#types - 1])

  local function mapping_of(name)
    return add_mapping(name, function() return number(5, str(name)) .. number(7, 1) .. number(8, 1) .. number(9, 1) end)
  end
  mapping_of(prof.comm or "lua") -- pprof takes the first mapping for the program
  local function function_of(f)
    local name = lua_frame.is(f) and f.func or f.name
    local where = f.file or ""
    return add_function(table.concat({ name, where, f.linedefined or "" }, "\0"), function()
      return number(2, str(name)) .. number(3, str(f.func or name)) .. number(4, str(where))
        .. number(5, f.linedefined and f.linedefined > 0 and f.linedefined or 0)
    end)
  end
  local locations = memo(function(f)
    return varint(add_location(f, function()
      local line = number(1, function_of(f)) .. number(2, f.line and f.line > 0 and f.line or 0)
      local address = f.address ~= nil and "\24" .. exact(f.address) or ""
      return number(2, mapping_of(f.module or prof.comm or "lua")) .. address .. bytes(4, line)
    end))
  end)

  local ids, values, zone_key = {}, {}, nil
  local function add(sample)
    local stack = sample.stack
    for i = 1, #stack do ids[i] = locations[stack[i]] end
    local label = ""
    if sample.zone then
      zone_key = zone_key or str "zone"
      label = bytes(3, number(1, zone_key) .. number(2, str(sample.zone)))
    end
    for i, field in ipairs(fields) do values[i] = exact(sample[field] or field == "count" and 1 or 0) end
    put_sample(put, concat(ids, "", 1, #stack), concat(values), label)
    pause()
  end
  for _, sample in ipairs(prof:samples()) do add(sample) end
  for _, sample in ipairs(prof.freed or {}) do add(sample) end

  if prof.started then put("\72" .. varint(floor(prof.started * 1e9))) end
  if prof.duration_ns then put("\80" .. exact(prof.duration_ns)) end
  put(bytes(11, value_type))
  local period = prof.period or prof.unit == "ns" and prof.freq and floor(1e9 / prof.freq)
  if period then put("\96" .. exact(period)) end
  put("\106" .. "\1" .. varint(str("lua-perf " .. require "perf.version")))
  put("\112" .. varint(event))
  for _, s in ipairs(strings) do
    put(bytes(6, s))
    pause()
  end
end

-- A gzip stream of lua-zlib, or nil. (Other modules are also called zlib.)
local function gzip()
  local ok, zlib = pcall(require, "zlib")
  if not ok or type(zlib) ~= "table" or type(zlib.deflate) ~= "function" then return nil end
  local made, stream = pcall(zlib.deflate, 6, 31)
  if not made or type(stream) ~= "function" then return nil end
  return stream
end

--- Write a profile for pprof: two values for each sample, the number of samples and the event's count. (One value
-- for an event that is called "samples", as that of folded stacks.) Those of alloc and heap have Go's names: alloc_objects and
-- alloc_space, and for heap also inuse_objects and inuse_space.
-- @function Profile:pprof
-- @tparam[opt] string path the file; without it the bytes are returned
-- @treturn string|boolean the bytes, or true @fails if the file cannot be written
function M.pprof(prof, path)
  return file.deliver(path, "pprof", function(put, pause)
    local stream = gzip()
    local parts, n = {}, 0
    local function flush(finish)
      local part = concat(parts, "", 1, n)
      n = 0
      if stream then part = stream(part, finish and "finish" or nil) end
      if part ~= "" then put(part) end
    end
    encode(prof, function(part)
      n = n + 1
      parts[n] = part
      if n == 256 then flush() end
    end, pause)
    flush(true)
  end, prof.stream)
end

return M
