--- Making and finding events: the functions whose results perf.open, perf.group, perf.measure and others accept besides names.
--
-- Each function that makes an event returns a table whose own keys are perf_event_attr fields; label, unit and description can be
-- read from it too. Fields may be changed before it is opened.
--
--     local ev = perf.tracepoint("sched", "sched_switch")
--     ev.sample_period = 1
--     perf.open(ev)
--
-- @module perf

local core = require "perf.core"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local checks = require "perf.api.check"
local brief = require "perf.base.brief"
local breakpoint_of = require "perf.names.breakpoint"
local cache = require "perf.names.cache"
local copy = require "perf.base.copy"
local files = require "perf.kernel.files"
local generic = require "perf.names.generic"
local Lines = require "perf.base.lines"
local list = require "perf.names.list"
local lists = require "perf.names.lists"
local names = require "perf.names"
local pmu = require "perf.kernel.pmu"
local suggest = require "perf.base.suggest"
local tracefs = require "perf.kernel.tracefs"
local u64 = require "perf.base.u64"

local events = {}

-- Arguments -----------------------------------------------------------------------------------------------------------

local check = argument.check_type

local function optional(value, wanted, arg)
  if value ~= nil then check(value, wanted, arg) end
  return value
end

-- Checks of an option that is an address, and of one that is a name.
local function address(v)
  if not pcall(core.hex, v) then return "integer expected, got " .. type(v) end
end
local function filled(v)
  if v == "" or v:find "%z" then return "not a name" end
end

local check_kprobe = checks.options("perf.kprobe", { func = filled, addr = address, offset = address })
local check_uprobe = checks.options("perf.uprobe",
  { path = filled, symbol = filled, offset = address, ref_ctr_offset = address })
local check_breakpoint = checks.options("perf.breakpoint", { addr = address, access = filled })

local function attr_of(kind, label, attr, description)
  attr.label = label
  local found, message, code = names.resolve(attr)
  if not found then return nil, message, code end
  found.kind, found.description = kind, description
  return names.attr(found)
end

-- Any spec ------------------------------------------------------------------------------------------------------------

--- The attr fields that an event's name stands for. For an event that several PMUs count together (a generic one on a hybrid CPU)
-- it shows the first PMU's attr, and still opens on all of them in `perf.measure` and `perf.set`.
-- @tparam string|table event a name, or a table of attr fields
-- @treturn table attr fields @fails if the machine lacks the event
-- @raise for an unknown name or field
function events.attr(spec)
  argument.check_dot(spec)
  local found, message, code = names.resolve(spec)
  if not found then return nil, message, code end
  return names.attr(found)
end

-- Tracepoints ---------------------------------------------------------------------------------------------------------

local function check_tracepoint(group, name)
  check(group, "string", 1)
  check(name, "string", 2)
  if not files.is_name(group) then argument.raise(("'%s' cannot be a tracepoint's group"):format(group), 1) end
  if not files.is_name(name) then argument.raise(("'%s' cannot be a tracepoint's name"):format(name), 2) end
end

--- A tracepoint's id: attr.config of its events.
-- @tparam string group such as "sched"
-- @tparam string name such as "sched_switch"
-- @treturn integer @fails "ENOENT" no such tracepoint or tracefs is not mounted, "EACCES" tracefs is not readable
function events.tracepoint_id(group, name)
  check_tracepoint(group, name)
  local id, message, code = tracefs.here:id(group, name)
  if not id then return nil, message, code end
  return id
end

--- The event of a tracepoint.
-- @tparam string group
-- @tparam string name
-- @treturn table attr fields @fails if tracefs is not mounted ("ENOENT") or not readable ("EACCES")
-- @raise if tracefs has no such tracepoint
function events.tracepoint(group, name)
  check_tracepoint(group, name)
  local id, message, code, unknown = tracefs.here:id(group, name)
  if unknown then
    local full = group .. ":" .. name
    argument.raise(message .. suggest.hint(full, tracefs.here:names() or {}), 2)
  end
  if not id then return nil, message, code end
  return attr_of("tracepoint", group .. ":" .. name, {type = generic.TRACEPOINT, config = id})
end

--- Names of tracepoints, sorted.
-- @tparam[opt] string pattern part of a name, a glob such as "sched:*", or a Lua pattern
-- @treturn {string,...} "group:name" @fails if tracefs is not mounted ("ENOENT") or not readable ("EACCES")
function events.tracepoints(pattern)
  optional(pattern, "string", 1)
  list.check(pattern) -- so that a mistake raises even without tracefs
  local all, message, code = tracefs.here:names()
  if not all then return nil, message, code end
  return setmetatable(list.select(all, pattern), Lines)
end

-- Probes --------------------------------------------------------------------------------------------------------------

-- An event of the kprobe or uprobe PMU. fields: attr fields, which need not include the probe's place.
local function probe(kind, label, fields, terms)
  local owner, message, code = pmu.here:get(kind)
  if not owner then
    return nil, ("%s: %s; kernels since 4.17 with CONFIG_%s_EVENTS have it"):format(brief(label), message, kind:upper()), code
  end
  local config = 0
  for term, value in pairs_of(terms) do
    local bits = owner:format(term) or (term == "retprobe" and {ranges = {{0, 0}}, width = 1})
    if not bits then return nil, ("%s: this kernel's %s PMU has no '%s'"):format(brief(label), kind, term), "EOPNOTSUPP" end
    if not u64.fits(value, bits.width) then argument.raisef("option '%s': out of range", term) end
    config = core.bor(config, u64.scatter(value, bits.ranges))
  end
  fields.type, fields.config = owner.type, config
  return attr_of(kind, label, fields)
end

local function at_offset(text, offset)
  return offset and offset ~= 0 and ("%s+%s"):format(text, core.hex(offset)) or text
end

--- The event that a kernel function is called, or returns. (Not for `inherit`: the kernel reads the function's name from the
-- memory of the process that forks, and if a child has executed another program its forks fail. With `addr` it can be inherited.)
-- @tparam table options
-- @treturn table attr fields @fails "ENODEV" if the kernel has no kprobe PMU
function events.kprobe(t)
  t = check_kprobe(t, 1)
  if (t.func == nil) == (t.addr == nil) then argument.raise("one of 'func' and 'addr' expected") end
  if t.addr and t.offset then argument.raise("option 'offset': only with 'func'") end
  local label = (t.ret and "kretprobe:" or "kprobe:") .. (t.func and at_offset(t.func, t.offset) or core.hex(t.addr))
  local fields = t.func and {kprobe_func = t.func, probe_offset = t.offset} or {kprobe_addr = t.addr}
  return probe("kprobe", label, fields, t.ret and {retprobe = 1} or {})
end

--- The event that an instruction of a program or library is reached, or a function returns. (Not for `inherit`: the kernel reads
-- the path from the memory of the process that forks, and if a child has executed another program its forks fail.)
-- @tparam table options
-- @treturn table attr fields
-- @fails "ENODEV" if the kernel has no uprobe PMU; for a symbol "EOPNOTSUPP" if perf.symbols is not built, or the error of the
-- look-up
function events.uprobe(t)
  t = check_uprobe(t, 1)
  if not t.symbol and not t.offset then argument.raise("one of 'symbol' and 'offset' expected") end
  local offset = t.offset or 0
  local label = ("%s:%s:%s"):format(t.ret and "uretprobe" or "uprobe", t.path,
    t.symbol and at_offset(t.symbol, t.offset) or core.hex(offset))
  if t.symbol then
    local ok, symbols = pcall(late, "perf.symbols")
    if not ok or type(symbols) ~= "table" or not symbols.offset then
      local why = tostring(symbols):match("perf%.symbols: ([^\n]*)") or "not built"
      return nil, ("%s: looking up a symbol needs perf.symbols: %s; or give the offset in the file"):format(brief(label), why),
        "EOPNOTSUPP"
    end
    local start, message, code = symbols.offset(t.path, t.symbol)
    if not start then return nil, message, code end
    offset = u64.add(start, offset)
  end
  local terms = {retprobe = t.ret and 1 or nil, ref_ctr_offset = t.ref_ctr_offset}
  return probe("uprobe", label, {uprobe_path = t.path, probe_offset = offset}, terms)
end

--- The event of accesses to an address.
-- @tparam table options
-- @treturn table attr fields
function events.breakpoint(t)
  t = check_breakpoint(t, 1)
  local bits = breakpoint_of.access(t.access)
  if not bits then argument.raisef("option 'access': one to three of r, w, x expected, got '%s'", t.access) end
  local attr = breakpoint_of.attr(t.addr, t.len, bits)
  if not breakpoint_of.is_length(attr.bp_len) then
    argument.raisef("option 'len': 1, 2, 4 or 8 expected, got %.14g", attr.bp_len)
  end
  local label = ("mem:%s/%d:%s"):format(core.hex(t.addr), attr.bp_len, t.access)
  return attr_of("breakpoint", label, attr)
end

-- Generic events ------------------------------------------------------------------------------------------------------

local function attrs_of(all)
  local out = {}
  for i, name in ipairs(all) do out[i] = events.attr(name) end
  return setmetatable(out, Lines)
end

-- Convert one name or value, or an array of them, to rows.
local function rows_of(what, given, arg)
  if given == nil then return nil end
  local out = {}
  local all = type(given) == "table" and given or {given}
  local stray, hole = lists.invalid_item(all)
  if stray ~= nil then argument.raise(("an array expected, got the key '%s'"):format(tostring(stray)), arg) end
  if hole or not all[1] then argument.raise(("nil at [%d]"):format(hole or 1), arg) end
  for _, key in ipairs(all) do
    local row = (type(key) == "string" or type(key) == "number") and cache.row(what, key)
    if not row then
      local known = cache.names_of(what)
      argument.raise(("unknown cache %s'%s'; there are %s"):format(what == "cache" and "" or what .. " ", tostring(key),
        table.concat(known, ", ")), arg)
    end
    out[#out + 1] = row
  end
  return out
end

--- The cache events of some caches, operations and results: every valid combination.
-- @tparam[opt] string|integer|table caches name or kernel value, or an array of them; all if nil: "L1-dcache" ("L1D"),
-- "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"
-- @tparam[opt] string|integer|table ops "load" ("read"), "store" ("write"), "prefetch"
-- @tparam[opt] string|integer|table results "access", "misses" ("miss")
-- @treturn {table,...} attr fields, each with a label
function events.hardware_cache(caches, ops, results)
  argument.check_dot(caches)
  local all = {}
  for i, event in ipairs(cache.all(rows_of("cache", caches, 1), rows_of("op", ops, 2), rows_of("result", results, 3))) do
    all[i] = event.name
  end
  return attrs_of(all)
end

local function all_of(kind)
  local all = {}
  for i, row in ipairs(core.defs()[kind]) do all[i] = row.name end
  return attrs_of(all)
end

--- Every generic hardware event, whether this machine counts it or not.
-- @treturn {table,...} attr fields, each with a label
function events.all_hardware()
  return all_of("hardware")
end

--- Every software event.
-- @treturn {table,...} attr fields, each with a label
function events.all_software()
  return all_of("software")
end

--- Every cache event: `perf.hardware_cache` without arguments.
-- @treturn {table,...} attr fields, each with a label
function events.all_cache()
  return events.hardware_cache()
end

-- Lists ---------------------------------------------------------------------------------------------------------------

local generic_kinds = {hardware = true, software = true, cache = true}
local lacking = {ENOENT = false, EOPNOTSUPP = false, ENODEV = false, ENXIO = false, EINVAL = false}

-- Whether this machine counts an event, for the calling thread; nil if it cannot be told, for lack of permission.
local function is_counted(name)
  local found = names.resolve(name)
  local attr = found and copy(found.attrs[1])
  if not attr then return false end
  attr.disabled, attr.exclude_kernel = true, true -- ordinary users may count user space
  local ev, _, code = core.open(attr, 0, -1)
  if ev then ev:close() end
  if ev then return true end
  return lacking[code]
end

--- The events that have a name.
-- @tparam[opt] string pattern part of a name; with * or ? a glob over the whole name; with ^, $, % or [ a Lua pattern; or a kind.
-- Case does not matter
-- @treturn {table,...} `{name=, kind=, counted=, pmu=, description=, unit=, scale=, alias=}`, which prints as a table, a long one
-- with one line for each subsystem's tracepoints; kind is "hardware", "software", "cache", "pmu", "tracepoint" (left out if
-- tracefs cannot be read), "memory" for Lua's own, or "raw" or "breakpoint" for rows that show a syntax; `counted`, since 0.2.0,
-- is false for a hardware, software or cache event that this machine only names, and nil for the other kinds, about which
-- `perf.supported` knows
-- @treturn ?string why tracefs could not be read, if the array is empty for that reason; and its code as a third result
function events.list(pattern)
  local rows, message, code = list.of(pmu.here, tracefs.here, optional(pattern, "string", 1))
  if message then return rows, message, code end
  for _, row in ipairs(rows) do
    if generic_kinds[row.kind] then row.counted = is_counted(row.name) end
  end
  return rows -- no tail call, so that an error has this function's name; and no nil after it, which a REPL would print
end

--- The PMUs of this machine.
-- @treturn {table,...} `{name=, type=, cpumask=, cpus=, nr_addr_filters=, caps={name=text}, formats={term=text},
-- events={name={terms=, scale=, unit=, per_pkg=, snapshot=}}}`; it prints as a table, and so does each element
function events.pmus()
  return list.pmus_of(pmu.here)
end

--- A PMU's number: attr.type of its events.
-- @tparam string name
-- @treturn integer @fails "ENODEV"
function events.pmu_type(name)
  if not files.is_name(check(name, "string", 1)) then argument.raisef("'%s' cannot be a PMU's name", name) end
  local owner, message, code = pmu.here:get(name)
  if not owner then return nil, message, code end
  return owner.type
end

return events
