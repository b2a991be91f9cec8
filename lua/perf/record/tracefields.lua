--- The fields of a tracepoint's raw data (`sample_type = {"raw", ...}`), and its text by libtraceevent.
--
--     local t = perf.tracefields.decode("sched:sched_switch", rec.raw)
--     print(t.prev_comm, t.prev_pid, t.next_comm)
--     print(perf.tracefields.text("sched:sched_switch", rec.raw))
--
-- Integers follow the 64-bit rule, pointers are sign-extended addresses; an array of char is the string before its first zero
-- byte, other arrays of bytes are strings of their whole length, arrays of integers are arrays; a dynamic array (`__data_loc`,
-- `__rel_loc`) has the value that it refers to. The format determines a field's sign and size: the arguments of the `syscalls:`
-- tracepoints are unsigned words, whatever their declared type is.
--
-- The format of a tracepoint is read from tracefs; `parse` accepts a format from elsewhere, for example from the tracing data of
-- a perf.data file, also for a machine of another byte order.
-- @module perf.record.tracefields
local argument = require "perf.base.argument"
local extension = require "perf.base.optional"
local checks = require "perf.api.check"
local late = require "perf.base.late"
local printed = require "perf.base.printed"
local strict = require "perf.api.strict"
local ext = extension.load("tracefields", "libtraceevent", "libtraceevent-dev", "perf.record.tracefields")
local core = require "perf.core"
local host = require "perf.kernel.host"
local parse = require "perf.record.trace_format"

local M = { available = true }

local MOST_TEXT = 1048576 -- the kernel's longest format has 20 kB

local check_parse = checks.options "perf.tracefields.parse"

local function text_of(format)
  local name, system, id = format:name()
  return ("perf.tracefields.Format(%s%s, id %s)"):format(system and system ~= "" and system .. ":" or "", name, id)
end

--- Parse the text of a format file; return a TraceFormat.
-- @tparam string text the content of /sys/kernel/tracing/events/GROUP/NAME/format
-- @tparam[opt] table options
-- @treturn TraceFormat @fails "EBADMSG"
function M.parse(text, opts)
  argument.check_type(text, "string")
  opts = check_parse(opts, 2)
  local big = opts.big_endian
  if big == nil then big = M.big_endian end
  local long_size = opts.long_size or ext.long_size
  if long_size ~= 4 and long_size ~= 8 then argument.raise("option 'long_size': 4 or 8 expected", 2) end
  if opts.system:find "%z" then argument.raise("option 'system': string contains a zero byte", 2) end
  if #text > MOST_TEXT then return nil, ("a format of %d bytes"):format(#text), "EBADMSG" end
  local parsed, line = parse(text, long_size)
  if not parsed then return nil, ("not a tracepoint's format (line %d)"):format(line), "EBADMSG" end
  parsed.text, parsed.system, parsed.big_endian, parsed.long_size, parsed.trusted =
    text, opts.system:match "^[ \t]*([^%z\1-\32]*)", big, long_size, opts.trusted
  local format = ext.format(parsed)
  local class = debug.getmetatable(format)
  if not class.__tostring then
    local fields = class.__index.fields
    function class.__index.fields(...) return printed.rows(argument.call_as_method("fields", fields, ...)) end
    class.__tostring = text_of
    strict.class(class.__index, "TraceFormat")
  end
  return format
end

-- Whether this machine is big-endian.
M.big_endian = string.byte(core.pack { type = 1 }, 1) == 0

local by_name, by_id = {}, {}

local function tracefs() return late "perf.kernel.tracefs" end

local function is_part(s)
  return s:find "^[%w_.-]+$" ~= nil and s ~= "." and s ~= ".."
end

local function load_format(root, group, name)
  local text, message, errno = host.read_file(("%s/events/%s/%s/format"):format(root, group, name))
  if not text then return nil, ("%s:%s: no format (%s)"):format(group, name, message), errno end
  local format, why, code = M.parse(text, { system = group, trusted = true })
  if not format then return nil, ("%s:%s: %s"):format(group, name, why), code end
  local _, _, id = format:name()
  by_name[group .. ":" .. name], by_id[id] = format, format
  return format
end

-- Each id is in a separate file. The whole tree is read at the first unknown id, and again at most once a second, since probes
-- may be added.
local names_of_ids, read_at = {}, nil

-- Returns {group, name}, or nil if no tracepoint has this id; or nil, message, code if tracefs cannot be read now.
local function name_of_id(root, id)
  local now = os.time()
  if not names_of_ids[id] and now ~= read_at then
    local events, message, code = tracefs().events(root)
    if not events then return nil, message, code end
    for _, event in ipairs(events) do
      local group, name = event[1], event[2]
      local text, why
      if is_part(group) and is_part(name) then
        text, message, why = host.read_file(("%s/events/%s/%s/id"):format(root, group, name))
      end
      if late("perf.kernel.files").lack[why] then return nil, message, why end
      local n = text and tonumber(text:match "^%d+")
      if n then names_of_ids[n] = event end
    end
    read_at = now
  end
  return names_of_ids[id]
end

-- A tracepoint's Format. Raises at the caller of the public function if the argument cannot be a tracepoint.
local function lookup(what)
  if type(what) == "userdata" and getmetatable(what) == ext.Format then return what end
  local known = by_name[what] or by_id[what]
  if known then return known end
  local group, name, id
  if type(what) == "string" then
    group, name = what:match "^([^:]+):([^:]+)$"
    if not (group and is_part(group) and is_part(name)) then
      argument.raise(("tracepoint 'group:name' expected, got '%s'"):format(what), 1)
    end
  elseif type(what) == "number" then
    id = what
  else
    argument.raise(("tracepoint's name, id or Format expected, got %s"):format(type(what)), 1)
  end
  local root, message, code = tracefs().here:root()
  if not root then return nil, message, code end
  if id then
    local pair
    pair, message, code = name_of_id(root, id)
    if code then return nil, message, code end
    if not pair then return nil, ("no tracepoint has the id %s"):format(tostring(id)), "ENOENT" end
    group, name = pair[1], pair[2]
  end
  return load_format(root, group, name)
end

local function check_raw(raw)
  if type(raw) ~= "string" then
    argument.raise(("string of raw bytes expected, got %s"):format(type(raw)), 2)
  end
end

--- The fields of raw data by name.
-- @tparam string|integer|TraceFormat tracepoint the tracepoint: "group:name", its id, or its format
-- @tparam string raw the bytes
-- @treturn table values by field name, including common_pid and the other common fields
-- @fails "EBADMSG" if the bytes are too few, "ENOENT" for a tracepoint that this kernel does not have, "EACCES" if tracefs cannot
-- be read
function M.decode(what, raw)
  check_raw(raw)
  local format, message, code = lookup(what)
  if not format then return nil, message, code end
  local fields
  fields, message, code = format:decode(raw)
  if fields then return printed.table(fields) end
  return nil, message, code
end

--- The fields of a tracepoint.
-- @tparam string|integer|TraceFormat tracepoint "group:name", id or format
-- @treturn {table,...} `{name=, type=, offset=, size=, signed=, dynamic=, common=}` in the format's order, offset and size in
-- bytes; and in the array itself `name`, `system`, `id`
-- @fails as `perf.tracefields.decode`
function M.format(what)
  local format, message, code = lookup(what)
  if not format then return nil, message, code end
  local list = format:fields()
  list.name, list.system, list.id = format:name()
  return printed.rows(list)
end

--- A record's raw data as text, in the kernel's own format: the part after "name:" in perf script.
-- @tparam string|integer|TraceFormat tracepoint "group:name", id or format
-- @tparam string raw the bytes
-- @treturn string @fails as `perf.tracefields.decode`
function M.text(what, raw)
  check_raw(raw)
  local format, message, code = lookup(what)
  if not format then return nil, message, code end
  return format:text(raw)
end

--- Forget the formats that were read, for example because a probe was made again under an old name.
function M.forget()
  by_name, by_id, names_of_ids, read_at = {}, {}, {}, nil
end

return M
