-- Writing a perf.data file: see `perf.data.create`.
local argument = require "perf.base.argument"
local late = require "perf.base.late"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local core = require "perf.core"
local data_host = require "perf.data.host_features"
local data_names = require "perf.data.event_names"
local pairs_of = require "perf.base.pairs"
local checks = require "perf.api.check"
local packed = require "perf.base.compiled".ffi and require "perf.record.cdata"

local data_create = {}

-- The features of a file are options too.
local rows, is_feature = { required = true }, {}
for i, row in ipairs(require "perf.api.options"["perf.data.create"]) do rows[i] = row end
for _, f in ipairs(core.data_features()) do
  is_feature[f.name], rows[#rows + 1] = true, { f.name, "any", any = true }
end
local check_options = checks.options(rows)

local function bad(text, ...) argument.raise(text:format(...), 2) end

local function resolved(event)
  local spec, message, code = argument.call_as_argument(2, "", late("perf.names").resolve, event)
  if not spec then return nil, message, code end
  return {attr = spec.attrs[1], ids = {}, name = spec.label}
end

-- The description of an event for the core: {attr =, ids =, name =}.
local function event_of(e, i)
  if type(e) == "string" then
    return resolved(e)
  elseif type(e) == "userdata" then -- an Event
    if getmetatable(e) ~= core.Event then bad("events[%d]: an event expected, got userdata", i) end
    local info = e:info()
    return {attr = e:kernel_attr(), ids = {assert(e:id())}, name = info.label}
  elseif type(e) ~= "table" then
    bad("events[%d]: an event expected, got %s", i, type(e))
  elseif rawget(e, "attr") then -- an entry of file.attrs
    return {attr = e.attr, ids = e.ids or {}, name = e.name or e.label or data_names.of(core.unpack(core.pack(e.attr)))}
  end
  return resolved(e)
end

local function check(opts)
  opts = check_options(opts, 2)
  local features, events, build_ids = {}, {}, opts.build_ids
  for name, value in pairs_of(opts.features or {}) do
    if not is_feature[name] then bad("unknown feature '%s'%s", tostring(name), checks.hint(name, is_feature)) end
    features[name] = value
  end
  for name in pairs_of(is_feature) do
    if opts[name] ~= nil then features[name] = opts[name] end
  end
  local list = opts.events or opts.attrs
  if type(list) == "string" then list = argument.call_as_argument(2, "", late("perf.names").split, list) end
  if type(list) ~= "table" then bad("events: a list expected, got %s", type(list)) end
  for i, e in ipairs(list) do
    local event, message, code = event_of(e, i)
    if not event then return nil, message, code end
    events[i] = event
  end
  if #events == 0 then bad("events: none given") end
  if build_ids == nil then build_ids = opts.features == nil end
  return events, features, opts.mode, build_ids
end

--- A perf.data file that is being written. If it is not closed, perf reads it with a warning, without the header's features.
-- @type DataWriter
local Writer = {}
Writer.__index = Writer
Writer.__close = function(w) w:close() end
Writer.__tostring = function(w) return ("perf.data writer: %s"):format(w.path) end

local function open_writer(w, method)
  if argument.check_object(w, Writer, "perf.data writer", method)._closed then
    argument.raise_in_method(method, "the perf.data writer is closed", 1)
  end
  return w._writer
end

--- Write a Record, or the bytes of records. Records that describe a file (`header_attr` and others, from a pipe) become part of
-- the file's header.
-- @tparam Record|string record a Record of any file or ring; or the bytes of one or more whole records in the kernel's layout
-- @treturn boolean true @fails "ENOSPC" ...
-- @raise for a string that does not consist of whole records
function Writer:write(record)
  local writer, layout = open_writer(self, "write"), packed and packed.is(record) and packed.layout(record) or nil
  local ok, message, code = argument.call_as_method("write", writer.write, writer, record, layout)
  if ok then return true end
  return nil, message, code
end

--- Write the data that follow an `auxtrace` record, in one or more parts; their size is the record's `data_size`.
-- @tparam string bytes
-- @treturn boolean true @fails
function Writer:payload(bytes)
  local writer = open_writer(self, "payload")
  local ok, message, code = argument.call_as_method("payload", writer.payload, writer, bytes)
  if ok then return true end
  return nil, message, code
end

--- The numbers of written records.
-- @treturn table `{samples=, records=, lost=, bytes=}`: `lost` is the sum of the `lost_samples` records or, if there are none, of
-- the `lost` records
function Writer:stats()
  local s = self._writer:state()
  return printed.table {samples = s.samples, records = s.records, lost = s.lost_samples ~= 0 and s.lost_samples or s.lost,
    bytes = s.bytes}
end

local function finish(w)
  local features, state = w._features, w._writer:state()
  -- These features describe the file that was read: the new one is neither compressed nor a directory.
  features.compressed, features.dir_format = nil, nil
  features.auxtrace = #state.auxtrace > 0 and state.auxtrace or nil
  if w._here then data_host.add(features) end
  if features.event_desc == nil then features.event_desc = w._events end
  if features.sample_time == nil and state.last ~= 0 then features.sample_time = {first = state.first, last = state.last} end
  if features.build_id == nil and w._build_ids ~= false then
    local list = data_host.build_ids(state.mapped)
    features.build_id = #list > 0 and list or nil
  end
  return w._writer:finish(features)
end

--- End the file: write its header. Idempotent.
-- @treturn boolean true @fails the file is incomplete: "ENOSPC" ...; "ECHILD" in the child of a fork, which writes nothing
function Writer:close()
  if self._closed then return true end
  self._closed = true
  if self._writer:is_inherited() then
    self._writer:close()
    return nil, core.inherited "The perf.data writer", "ECHILD"
  end
  local done, ok, msg, code = pcall(finish, self)
  local closed, close_msg, close_code = self._writer:close()
  if not done then error(ok, 0) end
  if not ok then return nil, self.path .. ": " .. msg, code end
  if not closed then return nil, self.path .. ": " .. close_msg, close_code end
  return true
end

argument.check_methods(Writer, "perf.data writer", "stats close")

--- Create a perf.data file; return a DataWriter. `perf report`, `perf script` and `perf buildid-list` read the file.
-- @function perf.data.create
-- @tparam string path its name
-- @tparam table options the options here, and features by name: `hostname`, `osrelease`, `version`, `arch`, `nrcpus`, `cpudesc`,
-- `cpuid`, `total_mem`, `cmdline`, `cpu_topology`, `numa_topology`, `pmu_mappings`, `cache` (read from this machine if not given;
-- false leaves one out); from the events `event_desc`; from the records `sample_time`, `auxtrace` and `build_id`
-- @treturn DataWriter @fails
-- @usage local w = assert(perf.data.create("out.data", {events = file.attrs, features = file.features}))
-- for rec in file:records() do assert(w:write(rec)) end
-- assert(w:close())
function data_create.create(path, opts)
  argument.check_path(path, "create", 1)
  local events, features, mode, build_ids = check(opts)
  if not events then return nil, features, mode end -- then these are a message and a code: the machine lacks an event
  local writer, msg, code = core.data_create(path, events, mode)
  if not writer then return nil, msg, code end
  return setmetatable({path = path, _writer = writer, _events = events, _features = features, _build_ids = build_ids,
    _here = opts.features == nil}, Writer)
end

argument.public_names[data_create.create] = "create"

strict.class(Writer, "DataWriter")

return data_create
