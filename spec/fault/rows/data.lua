--- Rows of perf.data files, commands recorded into them, and the optional parts. See inject.lua.
local kit = require "testkit"
local perf = require "perf"
local sample_program = require "spec.support.bpf"
local util = require "spec.support.util"

local rows, row, method = require "spec.fault.list"()
local function count(...)
  local n = 0
  for _ in ... do n = n + 1 end
  return n
end

-- A file with a few records, made once; removed by the spec.
local path
local attr = { type = "software", config = 0, sample_period = 1000, sample_type = { "ip", "time" }, sample_id_all = true }
local record = "\9\0\0\0\2\0\24\0" .. ("\1"):rep(16)

local function create(to)
  return perf.data.create(to, { events = { { attr = attr, ids = { 5 }, name = "cpu-clock" } }, build_ids = false })
end
local function file()
  if not path then
    path = os.tmpname()
    local w = assert(create(path))
    for _ = 1, 500 do assert(w:write(record)) end
    assert(w:close())
  end
  return assert(perf.data.open(path))
end
local out = os.tmpname()

function rows.teardown()
  if path then os.remove(path) end
  os.remove(out)
  path = nil
end

row("perf.data.open", { setup = function() file():close() end, run = function()
  local f, message, code = perf.data.open(path)
  if not f then return nil, message, code end
  local _, why = next(f.damaged) -- it lists the parts of the header that could not be read
  if not why then return f end
  f:close()
  return nil, why, "EBADMSG"
end, codes = { pread = "any" } })
-- The features that describe this machine may be missing in the file.
row("perf.data.create", { run = function() return create(out) end, survives = "open" })
method("DataFile", file, {
  close = function(f) return f:close() end,
  each = { run = function(f) return count(f:each("sample", "ip")) > 0 and not f:error() or f:error() end, again = false },
  error = function(f) return f:error() == nil end,
  lost = function(f) return f:lost() ~= nil end,
  payload = function(f) return f:payload(8) or "" end,
  read_record = { run = function(f) return f:read_record() end },
  records = { run = function(f) return count(f:records()) end, survives = "pread read", again = false }, -- see file:error()
  skipped = function(f) return f:skipped() end,
})
local function writer() return assert(create(out)) end
method("DataWriter", writer, {
  close = { run = function(w) return w:close() end, again = false },
  payload = { run = function(w) return select(2, pcall(w.payload, w, "x")) end }, -- no auxtrace record has announced it
  stats = function(w) return w:stats() end,
  write = { run = function(w) return w:write(record:rep(5000)) end, again = false }, -- a failed one stays refused
})

row("perf.record", {
  run = function() return perf.record({ "/bin/true" }, { events = "page-faults:u", period = 1, output = out, pages = 1 }) end,
  survives = "read open poll ioctl kill mmap fstat pread waitpid", children = true, slow = true,
  needs = { perf_open = true },
})

-- Optional parts -------------------------------------------------------------------------------

local symbols = { ext = "symbols" }
row("perf.symbols.kernel", { run = function() return perf.symbols.kernel() end, needs = symbols, slow = true,
  codes = { nofile = "EMFILE" } })
row("perf.symbols.open", { run = function() return perf.symbols.open { pid = kit.getpid() } end, needs = symbols, slow = true })
row("perf.symbols.offset", { run = function() return perf.symbols.offset("/bin/sh", "main") or true end, needs = symbols })
row("perf.symbols.build_id", { run = function() return perf.symbols.build_id "/bin/sh" end, needs = symbols })
method("KernelSymbols", function() return assert(perf.symbols.kernel()) end, {
  address = function(k) return k:address "no_such_symbol" == nil end,
  close = function(k) return k:close() end,
  count = function(k) return k:count() end,
  resolve = function(k) return k:resolve(4096) == nil end,
}, symbols)
local function resolver() return assert(perf.symbols.open { pid = kit.getpid() }) end
local place = kit.probe_place()
method("Resolver", resolver, {
  close = function(r) return r:close() end,
  is_open = function(r) return r:is_open() end,
  modules = function(r) return r:modules() end,
  refresh = { run = function(r) return r:refresh() end },
  resolve = { run = function(r) return r:resolve(place) end },
  unwind = { run = function(r) return select(2, pcall(r.unwind, r, {})) end },
}, symbols)

local tracefields = { ext = "tracefields", tracefs = true }
local switch = "sched:sched_switch"
local function raw() return ("\0"):rep(64) end
local function format() return util.read_file(util.tracefs_dir() .. "/events/sched/sched_switch/format") end
row("perf.tracefields.parse", { needs = tracefields, setup = function() return { text = format() } end,
  run = function(t) return perf.tracefields.parse(t.text) end })
row("perf.tracefields.format", { needs = tracefields, run = function()
  perf.tracefields.forget()
  return perf.tracefields.format(switch)
end })
row("perf.tracefields.decode", { needs = tracefields, run = function() return perf.tracefields.decode(switch, raw()) end })
row("perf.tracefields.text", { needs = tracefields, run = function() return perf.tracefields.text(switch, raw()) end })
row("perf.tracefields.forget", { needs = tracefields, run = function() return perf.tracefields.forget() end })
method("TraceFormat", function()
  return assert(perf.tracefields.parse(format(), { trusted = true }))
end, {
  close = function(f) return f:close() end,
  decode = function(f) return f:decode(raw()) end,
  fields = function(f) return f:fields() end,
  name = function(f) return f:name() end,
  text = function(f) return f:text(raw()) end,
}, tracefields)

local pfm = { ext = "pfm" }
row("perf.pfm.encode", { needs = pfm, run = function() return perf.pfm.encode "page-faults" end })
row("perf.pfm.find", { needs = pfm, run = function() return perf.pfm.find "page-faults" end })
row("perf.pfm.pmus", { needs = pfm, run = function() return perf.pfm.pmus() end, slow = true })
row("perf.pfm.list", { needs = pfm, run = function() return perf.pfm.list "PAGE_FAULTS" end, slow = true })

local bpf = { ext = "bpf", bpf = true, cmd = "clang", file = "/usr/include/bpf/bpf_helpers.h" }
local object
local function load()
  object = object or sample_program.compile(sample_program.source)
  return perf.bpf.load(object, { programs = { "on_call" } })
end
local remove = rows.teardown
function rows.teardown()
  remove()
  if object then os.remove(object) end
  object = nil
end
row("perf.bpf.load", { needs = bpf, run = load, codes = { nofile = "any" }, slow = true })
local function loaded() return assert(load()) end
local function parsed()
  loaded():close()
  return assert(require("perf.ext.bpf").open(object))
end
method("BpfObject", loaded, {
  close = function(o) return o:close() end,
  global = function(o) return select(2, pcall(o.global, o, "none")) end,
  is_open = function(o) return o:is_open() end,
  load = function(o) return select(2, pcall(o.load, o)) end, -- it is loaded
  map = function(o) return o:map "counts" end,
  maps = function(o) return o:maps() end,
  program = function(o) return o:program "on_call" end,
  programs = function(o) return o:programs() end,
  set_autoload = { setup = parsed, run = function(o) return o:set_autoload("on_call", true) end },
  set_global = function(o) return select(2, pcall(o.set_global, o, "none", 1)) end,
  set_max_entries = { setup = parsed, run = function(o) return o:set_max_entries("counts", 9) end },
}, bpf)
method("BpfMap", function()
  local o = loaded()
  return { map = o:map "counts", close = function() o:close() end }
end, {
  delete = function(h) return select(3, h.map:delete(0)) end, -- the elements of an array stay
  fd = function(h) return h.map:fd() end,
  get = function(h) return h.map:get(0) end,
  info = function(h) return h.map:info() end,
  pairs = function(h) return count(h.map:pairs()) end,
  set = function(h) return h.map:set(0, 1) end,
}, bpf)

-- A file that stands for the device of a CPU's registers.
local function msr()
  util.write_file(out, ("\1"):rep(64))
  return assert(require("perf.kernel.msr").open(out))
end
row("perf.msr", { run = function() return select(3, perf.msr(65535)) end, survives = "open" }) -- there is no such CPU
method("Msr", msr, {
  close = function(m) return m:close() or true end,
  read = function(m) return m:read(8) end,
})

return rows
