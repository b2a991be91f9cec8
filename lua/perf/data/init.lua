--- perf.data files: reading and writing.
--
--     local file = assert(perf.data.open("perf.data"))
--     for rec in file:records() do print(rec) end
--     if file:error() then ... end      -- why the loop ended before the end of the file
--
-- A file of either byte order, of any version of the format, written to a file or a pipe, compressed (if perf.ext.zstd is built)
-- or not, is read in constant memory: records come one after another, in the order of the file. Records of different CPUs are not
-- in time order there; after a `finished_round` record, no record is older than the latest one before the previous
-- `finished_round`.
--
-- The records are those of the kernel, and those that the perf tool adds (`header_attr` ... `finished_init`). Records that
-- describe the file are also evaluated: attrs and features that come as records of a pipe are in `file.attrs` and `file.features`
-- as soon as the records have been read.
--
-- @module perf.data
local argument = require "perf.base.argument"
local brief = require "perf.base.brief"
local late = require "perf.base.late"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local core = require "perf.core"
local names = require "perf.data.event_names"
local ffi = require "perf.base.compiled".ffi
if ffi then require "perf.record.cdata" end -- it replaces the methods records, next and each of the core's Data

local data = {}

--- An open perf.data file. On Lua 5.4 `local file <close>` closes it.
-- @type DataFile
local File = {}

local function inner(file, method)
  local found = type(file) == "table" and rawget(file, "_data")
  return found or argument.raise_in_method(method, ("perf.data file expected, got %s"):format(type(file)), 1)
end

local function reading(file, method)
  local found = inner(file, method)
  if rawget(file, "_closed") then argument.raise_in_method(method, "the perf.data file is closed", 1) end
  return found
end

--- The damage found in the file so far, or nil. A loop over `records` skips a damaged record if the position of the next one is
-- known, and ends otherwise; both are errors.
-- @treturn ?string the first error's message; nil if nothing was wrong
-- @treturn string its code: "EBADMSG"; "ENOSYS" for compressed records if perf.ext.zstd is not built; another errno's name
-- @treturn integer the number of errors
function File:error()
  local state, count = inner(self, "error"):state()
  if count == 0 then return nil end
  return state.message, state.code, count
end

--- Iterate over the records from the present position to the file's end, or to the last readable record.
-- @treturn function iterator of Records
-- @usage for rec in file:records() do ... end
-- assert(not file:error())
function File:records()
  return reading(self, "records"):records()
end

--- Iterate over the records of one of the kernel's types: their fields as plain values, without a Record for each. Several times
-- as fast as `records`, for files of millions of samples.
-- @tparam string type a Record's type: "sample", "mmap2" ...
-- @tparam string field the name of a field that is one number or string: "ip", "pid", "time", "filename" ...
-- @tparam any ... more fields
-- @treturn function iterator of a number that counts from 1, and the fields, which may be nil
-- @raise for an unknown type or field
-- @usage for i, ip, time in file:each("sample", "ip", "time") do ... end
function File:each(type, ...)
  local file = reading(self, "each")
  if ffi then return file:each(type, ...) end
  local step = argument.call_as_method("each", file.each, file, type, ...)
  return step
end

--- The next Record.
-- @treturn ?Record nil at the end
-- @fails After "EBADMSG" the next call continues with the next record if its position is known, and otherwise returns nil.
function File:read_record()
  return reading(self, "read_record"):next()
end

--- The data that follow the record that was last read, an `auxtrace` or `header_tracing_data` record; their size is its
-- `data_size`. Data that are not requested are skipped.
-- @tparam[opt=65536] integer n the largest number of bytes
-- @treturn ?string nil if there are no more @fails
function File:payload(n)
  local file = reading(self, "payload")
  local bytes, message, code = argument.call_as_method("payload", file.payload, file, n or 65536)
  if message then return nil, message, code end
  return bytes
end

--- The number of records that were skipped because this module does not know their types.
-- @treturn integer
-- @treturn ?integer the last such type
function File:skipped()
  local file = inner(self, "skipped")
  local n, last = argument.call_as_method("skipped", file.skipped, file)
  return n, last
end

-- Whether the recorder let the kernel count lost records. If so, the counts are in lost_samples records.
local function counts_lost(file)
  for _, e in ipairs(file.attrs) do
    for _, name in ipairs(core.unpack(core.pack {read_format = e.attr.read_format or {}}).read_format or {}) do
      if name == "lost" then return true end
    end
  end
  return false
end

--- The number of samples that the recording lost, according to the records that were read so far. Read the file to its end first:
-- recorders that know the exact number (`perf.record`, perf 6.1) write it there, in `lost_samples` records. Older files have
-- only the kernel's `lost` records, which the kernel writes only when there is room again.
-- @treturn integer
-- @treturn boolean true if it is a lower bound
-- @since 0.2.0
function File:lost()
  local _, _, records, samples = inner(self, "lost"):state()
  if counts_lost(self) and (samples ~= 0 or records == 0 and not rawget(self.header, "unfinished")) then return samples, false end
  return records + samples, true
end

--- Close the file. Records that were read remain valid.
function File:close()
  inner(self, "close"):close()
  self._closed = true
end

-- The file's description of itself ------------------------------------------------------------

local is_feature = {}
local raw_feature = {} -- plain bytes, which can be large: read only when they are used
for _, f in ipairs(core.data_features()) do
  is_feature[f.name], raw_feature[f.name] = true, f.raw or nil
end

local function ncpus(features)
  local nr = rawget(features, "nrcpus")
  return nr and nr.available or 0
end

local function read_features(file)
  local features = setmetatable({}, {__index = function(t, name)
    if not raw_feature[name] then return nil end
    local value, msg = file._data:feature(name)
    rawset(t, name, value)
    if msg then file.damaged[name] = msg end
    return value
  end, __tostring = printed.class.__tostring})
  for _, f in ipairs(core.data_features()) do
    if not f.raw then
      local value, msg = file._data:feature(f.name, ncpus(features))
      features[f.name] = value
      if msg then file.damaged[f.name] = msg end
    end
  end
  return features
end

-- An entry of attrs also has the attr's own fields.
local Attr = {__index = function(e, key) return rawget(e, "attr")[key] end, __tostring = printed.class.__tostring}

local function name_attr(e, name)
  e.name = name or e.name or names.of(e.attr)
  e.label = e.name -- the name in a Record's info
  if not getmetatable(e) then setmetatable(e, Attr) end
end

local function described(desc, e, i)
  if not desc then return nil end
  local first = e.ids[1]
  for _, d in ipairs(first and desc or {}) do
    if d.ids[1] == first then return d.name end
  end
  return desc[i] and (not first or #desc[i].ids == 0) and desc[i].name
end

local function name_attrs(file)
  local desc, types = rawget(file.features, "event_desc"), file._data:types()
  for i, e in ipairs(file.attrs) do
    name_attr(e, described(desc, e, i) or types[core.hex(e.attr.config or 0)])
  end
end

local function attr_of_id(file, id)
  for _, e in ipairs(file.attrs) do
    for _, v in ipairs(e.ids) do
      if v == id then return e end
    end
  end
end

-- Handlers of records that describe the file itself, by type.
local on_record = {}

function on_record.header_attr(file)
  local n = #file.attrs
  name_attr(file.attrs[n], described(rawget(file.features, "event_desc"), file.attrs[n], n))
end

function on_record.header_event_type(file, rec)
  for _, e in ipairs(file.attrs) do
    if (e.attr.config or 0) == rec.event_id then name_attr(e, rec.name) end
  end
end

function on_record.event_update(file, rec)
  local e = attr_of_id(file, rec.id)
  if not e then return end
  e.unit, e.scale, e.cpus = rec.unit or e.unit, rec.scale or e.scale, rec.cpus or e.cpus
  if rec.name then name_attr(e, rec.name) end
end

function on_record.header_build_id(file, rec)
  local list = rawget(file.features, "build_id") or {}
  list[#list + 1] = {pid = rec.pid, build_id = rec.build_id, filename = rec.filename, misc = rec.misc}
  file.features.build_id = list
end

function on_record.header_feature(file, rec)
  local name = rec.feature
  if not is_feature[name] then return end -- a feature of a newer perf, which has only a number
  local value, msg = file._data:decode(name, rec.data, ncpus(file.features))
  file.features[name] = value
  if msg then file.damaged[name] = msg end
  if name == "arch" and value then file._data:arch(value) end
  if name == "event_desc" and value then name_attrs(file) end
end

-- Opening ------------------------------------------------------------------------------------

File.__index = File
File.__close = function(file) file:close() end
File.__tostring = function(file) return ("perf.data file: %s"):format(file.path) end

--- Open a perf.data file; return a DataFile.
-- @tparam string path its name; "-" is standard input
-- @treturn DataFile @fails "EBADMSG" if it is not a perf.data file or its header is damaged
function data.open(path)
  argument.check_path(path, "open", 1)
  local raw, msg, code = core.data_open(path ~= "-" and path or nil)
  if not raw then return nil, brief(path) .. ": " .. msg, code end
  local state = raw:state()
  local file = setmetatable({path = path, attrs = printed.table(state.attrs), damaged = printed.table {}, _data = raw}, File)
  file.features = read_features(file)
  file.header = setmetatable(raw:header(), {__index = file.features, __tostring = printed.class.__tostring})
  if file.features.arch then raw:arch(file.features.arch) end
  name_attrs(file)
  state.handler = function(rec)
    local handle = on_record[rec.type]
    if handle then handle(file, rec) end
  end
  state.inflater = function()
    local ok, zstd = pcall(late, "perf.ext.zstd")
    return ok and zstd.new() or nil
  end
  return file
end

data.create = function(...) -- luacheck: ignore
  data.create = late("perf.data.create").create
  return data.create(...)
end

strict.class(File, "DataFile")

return data
