-- Loads profiles from files: those of luaperf, `prof:speedscope` and `prof:json`, other sampled speedscope files, folded stacks,
-- and perf.data.
local argument = require "perf.base.argument"
local attempt = require "perf.base.attempt"
local brief = require "perf.base.brief"
local Profile = require "perf.profile.profile"
local late = require "perf.base.late"
local merged = require "perf.profile.merged"
local checks = require "perf.api.check"
local file = require "perf.base.file"
local folded = require "perf.profile.report.folded"
local formats = require "perf.profile.report.formats"
local lua_frame = require "perf.profile.lua_frame"
local memo = require "perf.base.memo"
local printed = require "perf.base.printed"
local u64 = require "perf.base.u64"
local host = require "perf.kernel.host"
local pairs_of = require "perf.base.pairs"

local M = {}

-- Check the content of a file.
local function expect(ok, what) return (attempt.try(ok, what, "EBADMSG")) end

local function is(v, kind) return v == nil or type(v) == kind end

-- A number from the file that a report can write: neither negative nor infinite. Else nil.
local function number(v)
  v = tonumber(v)
  return v and v >= 0 and v <= 2 ^ 63 - 1024 and v or nil
end

local function whole(v)
  v = number(v)
  return v and v % 1 == 0 and v <= 2 ^ 53 and v or nil
end

local function list_of(v, what)
  return expect(v == nil and {} or type(v) == "table" and v, what .. " is not a list")
end

local units = { nanoseconds = 1, microseconds = 1e3, milliseconds = 1e6, seconds = 1e9 }

-- The address of a frame, which the file has in hexadecimal digits.
local function address(v)
  return type(v) == "string" and (u64.parse(v)) or nil
end

local function frames_of(list, pause)
  local frames = {}
  for i, f in ipairs(expect(type(list) == "table" and list, "no frames")) do
    expect(type(f) == "table" and type(f.name) == "string" and is(f.file, "string") and is(f.line, "number")
      and is(f.func, "string") and is(f.kind, "string") and is(f.module, "string") and is(f.linedefined, "number")
      and is(f.lastline, "number"),
      ("frame %d is malformed"):format(i - 1))
    frames[i] = { name = f.name, file = f.file, line = whole(f.line), lastline = whole(f.lastline),
      linedefined = whole(f.linedefined), func = f.func or f.name,
      kind = f.kind or (f.file and f.line and "lua" or "native"), module = f.module, address = address(f.address) }
    if pause then pause() end
  end
  return frames
end

-- The frames of a sample, the innermost first; and the name of its zone, or nil.
local function stack_of(ids, frames, i)
  expect(type(ids) == "table", ("sample %d is not a list"):format(i))
  local stack, depth = {}, #ids
  for k = 1, depth do
    stack[depth + 1 - k] = expect(frames[(tonumber(ids[k]) or -1) + 1], ("sample %d has a frame that does not exist"):format(i))
  end
  local outermost = stack[depth]
  if outermost and outermost.kind == "zone" then
    stack[depth] = nil
    return stack, outermost.name
  end
  return stack
end

-- Combine samples in the order of time to one for each stack.
local function by_stack(list)
  local out = merged(list)
  table.sort(out, function(a, b) return a.weight > b.weight end)
  return out
end

-- The numbers of a table by name; nil if there are none.
local function numbers_of(t)
  local numbers
  for name, n in pairs_of(type(t) == "table" and t or {}) do
    if type(name) == "string" and type(n) == "number" then
      numbers = numbers or {}
      numbers[name] = n
    end
  end
  return numbers
end

-- The digests of source files by name; nil if there are none.
local function digests_of(t)
  local digests
  for name, digest in pairs_of(type(t) == "table" and t or {}) do
    if type(name) == "string" and type(digest) == "string" and not digest:find "%X" then
      digests = digests or {}
      digests[name] = digest
    end
  end
  return digests
end

-- The fields of a Profile that a table has; `sum` and `samples` are those of its samples.
local function fields_of(own, sum, samples)
  local function text(name) return type(own[name]) == "string" and own[name] or nil end
  return { event = text "event", unit = text "unit", total = number(own.total) or sum, lost = whole(own.lost) or 0,
    sample_count = whole(own.sample_count) or samples, freq = whole(own.freq), period = whole(own.period),
    requested = whole(own.requested), started = number(own.started), duration_ns = whole(own.duration_ns),
    pid = whole(own.pid), tid = whole(own.tid),
    comm = text "comm", method = text "method", method_reason = text "method_reason",
    user_only = own.user_only == true or nil, failures = numbers_of(own.failures), blocks = numbers_of(own.blocks),
    sources = digests_of(own.sources) }
end

local function from_speedscope(t, pause)
  local shared = expect(type(t) == "table" and type(t.shared) == "table" and t.shared, "JSON, but not a speedscope file")
  local frames = frames_of(shared.frames, pause)
  local p = expect(type(t.profiles) == "table" and t.profiles[(tonumber(t.activeProfileIndex) or 0) + 1] or
    type(t.profiles) == "table" and t.profiles[1], "no profile in it")
  expect(type(p) == "table" and p.type == "sampled", "its profile is not a sampled one")
  expect(type(p.samples) == "table" and type(p.weights) == "table" and #p.samples == #p.weights, "samples and weights differ")
  local scale = units[p.unit] or 1
  local counts = list_of(p.counts, "counts")
  local labels, label = list_of(p.zones, "zones"), list_of(p.zone, "zone") -- in files of luaperf 0.1
  local allocated, allocated_counts = list_of(p.allocated, "allocated"), list_of(p.allocated_counts, "allocated_counts")
  local list, sum, samples = {}, 0, 0
  for i, ids in ipairs(p.samples) do
    local weight = expect(number(p.weights[i]), ("weight %d is not a number of at least 0"):format(i)) * scale
    local stack, zone = stack_of(ids, frames, i)
    zone = zone or labels[(tonumber(label[i]) or 0) + 1]
    list[i] = { stack = stack, weight = weight, count = whole(counts[i]) or 1,
      zone = type(zone) == "string" and zone ~= "" and zone or nil, allocated = number(allocated[i]),
      allocated_count = number(allocated[i]) and (whole(allocated_counts[i]) or 1) }
    sum, samples = sum + weight, samples + list[i].count
    if pause then pause() end
  end
  local own = type(t.lua_perf) == "table" and t.lua_perf or {}
  local fields = fields_of(own, sum, samples)
  fields.event = fields.event or tostring(p.name or t.name or "samples")
  fields.unit = fields.unit or units[p.unit] and "ns" or ""
  return Profile.new(fields, type(own.event) == "string" and list or by_stack(list), nil, pause)
end

-- The table of Profile:totable.
local function from_plain(t)
  local frames, list, sum, samples = frames_of(t.frames), {}, 0, 0
  for i, s in ipairs(list_of(t.samples, "samples")) do
    expect(type(s) == "table" and type(s.stack) == "table", ("sample %d is not a table with a stack"):format(i))
    local stack = {}
    for k, at in ipairs(s.stack) do
      stack[k] = expect(frames[at], ("sample %d has a frame that does not exist"):format(i))
    end
    list[i] = { stack = stack, weight = expect(number(s.weight), ("weight %d is not a number of at least 0"):format(i)),
      count = whole(s.count) or 1, zone = type(s.zone) == "string" and s.zone or nil, allocated = number(s.allocated),
      allocated_count = number(s.allocated) and (whole(s.allocated_count) or 1) }
    sum, samples = sum + list[i].weight, samples + list[i].count
  end
  local fields = fields_of(t, sum, samples)
  fields.event, fields.unit = fields.event or "samples", fields.unit or ""
  return Profile.new(fields, list)
end

local function from_folded(content)
  local stacks, message = folded.decode(content)
  expect(stacks, "neither a profile nor a perf.data file: " .. tostring(message))
  local frames = memo(function(name)
    return lua_frame.parse(name) or printed.table { name = name, func = name, kind = "native" }
  end)
  local list, sum = {}, 0
  for i, s in ipairs(stacks) do
    local stack = {}
    for k = #s.names, 1, -1 do stack[#stack + 1] = frames[s.names[k]] end
    list[i], sum = { stack = stack, weight = s.weight, count = s.weight }, sum + s.weight
  end
  return Profile.new({ event = "samples", unit = "", total = sum, lost = 0, sample_count = sum }, by_stack(list))
end

local function decode(content, pause)
  if content:find "^%s*{" then
    local t, message = late "perf.base.json".decode(content, pause)
    expect(t, "not valid JSON: " .. tostring(message))
    return { (type(t.frames) == "table" and from_plain or from_speedscope)(t, pause) }
  end
  return { from_folded(content) }
end

local function load(path, pause)
  local f = io.open(path, "rb")
  local magic = f and f:read(8) or ""
  if f then f:close() end
  if magic == "PERFILE2" or magic == "2ELIFREP" then return late "perf.profile.load_data".load(path, pause) end
  -- Without gzip a pprof file begins with the length and the first field of its sample type; a text may begin with an empty line.
  if magic:sub(1, 2) == "\31\139" or magic:find "^\10%c[\8\16]" then
    return nil, path .. ": a pprof file, which go tool pprof reads", "EBADMSG"
  end
  -- py-spy's stacks may begin with "<module>".
  local tag = magic:lower():match "^%s*(<.*)"
  if tag and (tag:find "^<[!?]" or tag:find "^<html" or tag:find "^<svg") then
    return nil, path .. ": a page, such as a flame graph, which a browser shows", "EBADMSG"
  end
  if magic:find "%z" then return nil, path .. ": neither a profile nor a perf.data file", "EBADMSG" end
  local content, message, code = host.read_file(path)
  if not content then return nil, message, code end
  -- Folded stacks without a sample are an empty file; other formats have none.
  local ending = path:lower():match "%.(%w+)$"
  if content == "" and ending and formats.of(path) ~= "folded" then return nil, path .. ": the file is empty", "EBADMSG" end
  local list
  list, message, code = attempt.catch(decode, content, pause)
  if list then return list end
  return nil, ("%s: %s"):format(path, message), code
end

-- Copy a pipe into a temporary file, since the first bytes must be read twice: they show the kind of the file.
local function spool(f, path, pause)
  local made, place = pcall(os.tmpname)
  if not made then
    return nil, path .. ": a pipe is copied into a temporary file first, and none can be made in /tmp: name a file", "EACCES"
  end
  local list, ok, message, code
  ok, message, code = file.write(place, function(put)
    for part in function() return f:read(65536) end do
      put(part)
      if pause then pause() end
    end
  end)
  if ok then list, message, code = load(place, pause) end
  os.remove(place)
  if message and message:sub(1, #place) == place then message = path .. message:sub(#place + 1) end
  return list, message, code
end

-- The profile that Profile:speedscope gave as text; or nil, message, code.
-- @param[opt] pause called now and then
function M.decode(content, pause)
  local list, message, code = attempt.catch(decode, content, pause)
  return list and list[1], message, code
end

-- Read the profiles of a file, which may be a pipe.
-- @string path its name
-- @param[opt] pause called now and then
-- @return array of Profiles: one, or one for each event of a perf.data file; and a message if the file is damaged and only a part
-- was read. Or nil, message, code: "EBADMSG" for other files
function M.all(path, pause)
  local f = io.open(path, "rb")
  if not f or f:seek "set" then
    if f then f:close() end
    return load(path, pause)
  end
  local list, message, code = spool(f, path, pause)
  f:close()
  return list, message, code
end

local check = checks.options "perf.load"

--- Read a Profile from a file. It is one of `luaperf record`, `Profile:speedscope` or `Profile:json`, folded stacks, or
-- perf.data; pprof files and pages cannot be read.
--
--     local before, after = assert(perf.load "before.json"), assert(perf.load "after.json")
--     print(after:diff(before))
--
-- @function perf.load
-- @tparam string path its name, perhaps of a pipe
-- @tparam[opt] table options
-- @treturn Profile of a perf.data file with several events the first one's, without `event`; its field `events` has the names of
-- all. Its field `damage` says why only a part of the file could be read @fails "EBADMSG" for another kind of file
-- @raise for an event that the file does not have
-- @since 0.2.0
function M.load(path, opts)
  if type(path) ~= "string" then argument.raise("string expected, got " .. type(path), 1) end
  if path:find("\0", 1, true) then argument.raise("a path has no zero bytes", 1) end
  opts = check(opts, 2)
  local list, message, code = M.all(path)
  if not list then return nil, brief(message), code end
  local names, found = {}, nil
  for i, prof in ipairs(list) do
    names[i] = prof.event
    if prof.event == opts.event then found = found or prof end
  end
  if opts.event and not found then
    argument.raise(("option 'event': the file has no event '%s'; it has %s"):format(opts.event, table.concat(names, ", ")), 2)
  end
  found = found or list[1]
  if not found then return nil, message or path .. ": the file has no samples", code or "EBADMSG" end
  found.events, found.damage = names, message
  return found
end

return M
