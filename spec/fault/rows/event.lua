--- Rows of functions that count: events by name, Event, Group, Set, measure, bench, profilers. See inject.lua.
local kit = require "testkit"
local perf = require "perf"
local counts = require "perf.counts"
local util = require "spec.support.util"

local rows, row, method = require "spec.fault.list"()
local function nothing() end
local cell, cgroup = kit.cell(), util.cgroup_dir()

-- Events by name -------------------------------------------------------------------------------

row("perf.attr", { run = function() return perf.attr "page-faults:u" end })
row("perf.tracepoint", { run = function() return perf.tracepoint("sched", "sched_switch") end, needs = { tracefs = true } })
row("perf.kprobe", { run = function() return perf.kprobe { func = "getpid", offset = 0 } end, needs = { kprobe = true } })
row("perf.uprobe", { run = function() return perf.uprobe { path = "/bin/sh", offset = 64 } end, needs = { uprobe = true } })
row("perf.breakpoint", { run = function() return perf.breakpoint { addr = 4096, len = 8, access = "w" } end })
row("perf.hardware_cache", { run = function() return perf.hardware_cache({ "l1d" }, { "read" }, { "miss" }) end })
row("perf.all_hardware", { run = function() return perf.all_hardware() end })
row("perf.all_software", { run = function() return perf.all_software() end })
row("perf.all_cache", { run = function() return perf.all_cache() end })
row("perf.list", { run = function() return perf.list "^page%-faults$" end, survives = "open read perf_event_open", slow = true })
row("perf.pmus", { run = function() return perf.pmus() end, survives = "open read" })
row("perf.pmu_type", { run = function() return perf.pmu_type "software" end })
row("perf.tracepoint_id", { run = function() return perf.tracepoint_id("sched", "sched_switch") end, needs = { tracefs = true } })
row("perf.tracepoints", { run = function() return perf.tracepoints "^sched:" end, needs = { tracefs = true }, slow = true })
row("perf.hex", { run = function() return perf.hex(2 ^ 52) end })
row("perf.probe_cycles", { run = function() return perf.probe_cycles(99) end, survives = "perf_event_open" })

-- Measuring ------------------------------------------------------------------------------------

row("perf.measure", {
  run = function() return perf.measure("page-faults:u,task-clock", nothing) end,
  raises = true,
  survives = "perf_event_open", -- a member that does not fit gets a separate group
})
row("perf.measure without a list", {
  run = function() return perf.measure(nothing) end,
  raises = true,
  survives = "perf_event_open", -- the kernel's accounting of the thread
})
row("perf.start", { run = function() return perf.start "page-faults:u,task-clock" end, survives = "perf_event_open" })
-- Makes a new region each time: between two runs all events that perf keeps open are closed, also those of a region.
local function region(method_name)
  return function()
    local m, message, code = perf.start "page-faults:u"
    if not m then return nil, message, code end
    return m[method_name](m)
  end
end
-- A reading ends the present measurement and begins the next; if that fails, the next call returns the error.
row("Region:read", { run = region "read", survives = "perf_event_open read" })
row("Region:stop", { run = region "stop", survives = "perf_event_open" })
-- A list that was open before is opened again by one call; if that fails, it is opened like a new list.
row("perf.bench", { run = function() return perf.bench("page-faults", nothing, { repeats = 3, min_time = 0 }) end,
  raises = true, slow = true, survives = "perf_event_open" })
row("perf.compare", {
  run = function() return perf.compare({ a = nothing, b = nothing }, { repeats = 3, min_time = 0, events = "page-faults" }) end,
  raises = true, slow = true, survives = "perf_event_open" })

local function event() return assert(perf.open { event = "page-faults:u", sample_period = 1 }) end

row("perf.open", { run = function() return perf.open "page-faults:u" end })
row("perf.open of a clock", { run = function() return perf.open "task-clock" end,
  survives = "perf_event_open" }) -- an alternative without the kernel, which may need permission
row("perf.open of a tracepoint", { run = function() return perf.open "sched:sched_switch" end, needs = { tracefs = true } })
row("perf.open in a cgroup", { run = function() return perf.open("page-faults", { cpu = 0, cgroup = cgroup }) end,
  needs = { cgroup = true } })

method("Event", event, {
  attr = function(ev) return ev:attr() end,
  close = function(ev) return ev:close() end,
  disable = function(ev) return ev:disable() end,
  enable = function(ev) return ev:enable() end,
  fd = function(ev) return ev:fd() end,
  id = function(ev) return ev:id() end,
  info = function(ev) return ev:info() end,
  is_mapped = function(ev) return ev:is_mapped() end,
  is_open = function(ev) return ev:is_open() end,
  is_off = function(ev) return ev:is_off() end,
  is_inherited = function(ev) return ev:is_inherited() end,
  label = function(ev) return ev:label() end,
  measure = { run = function(ev) return ev:measure(nothing) end, raises = true,
    survives = "read ioctl" }, -- if the quick half fails, the slow one is used
  modify = { run = function(ev) return ev:modify(ev:attr()) end, needs = { breakpoint = true },
    setup = function() return assert(perf.open(perf.breakpoint { addr = cell:addr(), len = 8, access = "w" })) end },
  query_bpf = { run = function(ev) return ev:query_bpf(4) end, needs = { tracepoint = "sched:sched_switch", root = true },
    setup = function() return assert(perf.open "sched:sched_switch") end },
  read = function(ev) return ev:read() end,
  refresh = function(ev) return ev:refresh(1) end,
  reset = { run = function(ev) return ev:reset() end, survives = "read" }, -- a measurement learns by this read that it was closed
  scan = function(ev) return ev:scan() end,
  user = { run = function(ev) return select(2, ev:user()) end, again = false }, -- never for a software event
  set_bpf = { run = function(ev) return select(3, ev:set_bpf(0)) end, survives = "ioctl" }, -- this is not a program: refused
  take = function(ev) return ev:take() end,
  set_filter = { run = function(ev) return ev:set_filter "prev_pid == 1" end, needs = { tracepoint = "sched:sched_switch" },
    setup = function() return assert(perf.open "sched:sched_switch") end, again = false },
  set_period = function(ev) return ev:set_period(5) end,
})

local function group() return perf.group { "page-faults:u", "minor-faults:u", "dummy:u" } end

row("perf.group", { run = group })
method("Group", group, {
  close = function(g) return g:close() end,
  disable = function(g) return g:disable() end,
  enable = function(g) return g:enable() end,
  fd = function(g) return g:fd() end,
  forget = { run = function(g) return g:forget() end, again = false },
  id = function(g) return g:id() end,
  measure = { run = function(g) return g:measure(nothing) end, raises = true },
  members = function(g) return #g:members() end,
  own = function(g) return g:own() end,
  used = function(g) return g:used() end,
  was_reset = function(g) return g:was_reset() end,
  each = function(g) return g:each() end,
  read = function(g) return g:read() end,
  reset = function(g) return g:reset() end,
  words = function(g) return g:words() end,
})

local function set() return perf.set("page-faults", { cpus = { 0 } }) end

row("perf.set", { run = set, needs = { root = true } })
row("perf.set of threads", { run = function() return perf.set("page-faults", { threads = kit.getpid() }) end })
method("Set", set, {
  close = function(s) return s:close() end,
  disable = function(s) return s:disable() end,
  enable = function(s) return s:enable() end,
  fds = function(s) return s:fds() end,
  measure = { run = function(s) return s:measure(nothing) end, raises = true },
  per_cpu = function(s) return s:per_cpu() end,
  read = function(s) return s:read() end,
  reset = { run = function(s) return s:reset() end, survives = "read" }, -- as that of Event
})

local function some_counts()
  return counts.plain({ { label = "page-faults", value = 3, raw = 3, enabled_ns = 10, running_ns = 10 } }, 1000, "software")
end
method("Counts", some_counts, {
  json = function(c) return c:json() end,
  metrics = function(c) return c:metrics() end,
  totable = function(c) return c:totable() end,
})

local out
function rows.teardown()
  if out then
    os.remove(out)
    os.remove(out .. ".html")
  end
  out = nil
end
-- A method that writes a file, which does not exist yet.
local function file(run)
  return { run = function(object)
    out = out or os.tmpname()
    return run(object, out .. ".html")
  end, survives = "open:ENOENT" }
end

local function stats() return perf.bench("page-faults", nothing, { repeats = 3, warmup = 0 }) end
method("Stats", stats, {
  html = file(function(s, path) return s:html(path) end),
  save = file(function(s, path) return s:save(path) end),
  json = function(s) return s:json() end,
  totable = function(s) return s:totable() end,
})
local function comparison() return perf.compare({ a = nothing, b = nothing }, { repeats = 3, events = "page-faults" }) end
method("Comparison", comparison, {
  html = file(function(s, path) return s:html(path) end),
  save = file(function(s, path) return s:save(path) end),
  json = function(s) return s:json() end,
  rule = function(s) return s:rule() end,
  totable = function(s) return s:totable() end,
})

local function profiler() return perf.software_profiler { events = "page-faults:u,dummy:u" } end
-- Events that the machine does not count are in `missing`.
row("perf.software_profiler", { run = profiler, survives = "perf_event_open" })
row("perf.hardware_profiler", { run = function() return (perf.hardware_profiler { events = "cycles:u" }) or true end,
  survives = "perf_event_open ioctl read" })
row("perf.cache_profiler", { run = function() return (perf.cache_profiler { events = "L1-dcache-load-misses:u" }) or true end,
  survives = "perf_event_open ioctl read" })
method("CountingProfiler", profiler, {
  close = function(p) return p:close() end,
  disable = function(p) return p:disable() end,
  enable = function(p) return p:enable() end,
  measure = { run = function(p) return p:measure(nothing) end, raises = true },
  read = function(p) return p:read() end,
  reset = function(p) return p:reset() end,
})

return rows
