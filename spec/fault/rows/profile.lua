--- Rows of profiles, zones and tallies. See inject.lua.
local kit = require "testkit"
local perf = require "perf"

local rows, row, method = require "spec.fault.list"()
local out

function rows.teardown()
  if out then
    os.remove(out)
    os.remove(out .. ".symbols") -- of perf_data
    os.remove(out .. ".json")
  end
  out = nil
end

local options = { event = "page-faults:u", period = 1 }
local function profiler() return perf.profiler(options) end
local function started()
  local p = assert(profiler())
  assert(p:start())
  return p
end

-- Refused memory is ENOMEM or leads to a smaller ring; if the event cannot send signals, its descriptor does. A function whose
-- source cannot be read (open, fstat, read) has no name.
row("perf.profiler", { run = profiler, codes = { mmap = "any" }, survives = "mmap perf_event_open" })
row("perf.profile", { run = function() return perf.profile(options, kit.touch_pages, 10) end,
  codes = { mmap = "any" }, survives = "mmap perf_event_open open fstat read" })
row("perf.profile (coroutines)", { run = function()
  local opts = { event = "page-faults:u", period = 1, coroutines = "creator" }
  return perf.profile(opts, function()
    for _ = 1, 3 do coroutine.resume(coroutine.create(function() kit.touch_pages(2) end)) end
  end)
end, codes = { mmap = "any" }, survives = "mmap perf_event_open open fstat read" })
row("perf.profile (timeline)", { run = function()
  local prof, message, code = perf.profile({ event = "page-faults:u", timeline = 1000 }, kit.touch_pages, 10)
  if not prof then return nil, message, code end
  for m in prof:timeline() do assert(m.stack[1]) end
  return prof
end, codes = { mmap = "any" }, survives = "mmap perf_event_open open fstat read" })
row("perf.profile (allocations)", { needs = { registers = true }, run = function()
  return perf.profile({ event = "heap", period = 1 }, function()
    local kept = {}
    for i = 1, 2000 do kept[i] = { i } end
    return kept
  end)
end, codes = { mmap = "any" }, survives = "mmap open fstat read" })
row("Profiler:snapshot (allocations)", { needs = { registers = true }, setup = function()
  local p = assert(perf.profiler { event = "alloc", period = 1 })
  assert(p:start())
  return p
end, run = function(p) return p:snapshot() end, codes = { mmap = "any" }, survives = "open fstat read mmap" })
row("perf.profiler (pid)", { needs = { ext = { "bpf", "outside" }, bpf = true }, slow = true, setup = function()
  return kit.start(function() end)
end, run = function(child) return perf.profiler { event = "page-faults", pid = child:pid() } end,
  codes = { mmap = "any", open = "any", pread = "any" }, survives = "open pread fstat" })
method("Profiler", profiler, {
  close = function(p) return p:close() end,
  is_running = function(p) return p:is_running() end,
  start = { run = function(p) return p:start() end, again = false, survives = "mmap" }, -- it works without a signal stack
  -- Without the kernel's count of lost samples, a snapshot has that of the one before; the next one has the rest.
  snapshot = { setup = started, run = function(p) return p:snapshot() end, survives = "read" },
  live = { needs = { registers = true }, setup = function()
    local p = assert(perf.profiler { event = "heap", period = 1 })
    assert(p:start())
    return p
  end, run = function(p) return p:live() end, codes = { mmap = "any" }, survives = "open fstat read mmap" },
  stop = { setup = started, run = function(p) return p:stop() end, again = false },
})

-- The reports that can be written to a file; the same code makes their text.
local profile
local function sampled()
  out = out or os.tmpname()
  profile = profile or assert(perf.profile({ event = "page-faults:u", period = 1, timeline = true }, kit.touch_pages, 50))
  return { prof = profile }
end
local function file(run) return { run = run, survives = "open:ENOENT" } end -- it does not exist yet
method("Profile", sampled, {
  diff = function(h) return h.prof:diff(h.prof) end,
  timeline = function(h) return h.prof:timeline() end,
  flamegraph = file(function(h) return h.prof:flamegraph(out) end),
  folded = file(function(h) return h.prof:folded(out) end),
  new = function(h) return h.prof.new({}, {}) end,
  perf_data = file(function(h) return h.prof:perf_data(out) end),
  pprof = file(function(h) return h.prof:pprof(out) end),
  zone = function(h) return h.prof:zone "(timer)" end,
  samples = function(h) return h.prof:samples() end,
  save = file(function(h) return h.prof:save(out .. ".json") end),
  totable = function(h) return h.prof:totable() end,
  json = function(h) return h.prof:json() end,
  speedscope = file(function(h) return h.prof:speedscope(out) end),
  top = function(h) return h.prof:top(3) end,
  tree = function(h) return h.prof:tree() end,
  callers = function(h) return h.prof:callers(h.prof:samples()[1].stack[1].func) end,
  callees = function(h) return h.prof:callees(h.prof:samples()[1].stack[1].func) end,
  annotate = { run = function(h) return h.prof:annotate() end, codes = { open = "any" }, survives = "open fstat read" },
})
method("Difference", function() return { diff = sampled().prof:diff(profile) } end, {
  flamegraph = file(function(h) return h.diff:flamegraph(out) end),
})

row("perf.load", { setup = function()
  assert(sampled().prof:save(out .. ".json"))
end, run = function() return perf.load(out .. ".json") end, survives = "lseek" })

row("perf.zone", { run = function() return perf.zone("a zone", function() return true end) end })
method("Zone", function() return perf.zone "a zone" end, {
  close = function(z) return z:close() end,
})

local function ringed()
  local ev = assert(perf.open { event = "page-faults:u", sample_period = 1, sample_type = { "ip", "addr" } })
  assert(ev:map { pages = 8 })
  assert(ev:enable())
  kit.touch_pages(4)
  return ev
end
row("Event:each", { setup = ringed, run = function(ev)
  local n = 0
  kit.touch_pages(4)
  for _ in ev:each("sample", "addr") do n = n + 1 end
  return n
end })

local function tally()
  local t, ev = assert(perf.tally { by = "addr" }), ringed()
  assert(t:take(ev))
  ev:close()
  return t
end
row("perf.wake", { setup = function()
  local ev = ringed()
  assert(ev:wake_fd())
  return ev
end, run = function(ev) return perf.wake(ev:wake_fd()) end })
row("perf.tally", { run = function() return perf.tally { by = { "ip", "addr" } } end })
method("Tally", tally, {
  clear = function(t) return t:clear() end,
  close = function(t) return t:close() end,
  count = function(t) return t:count(0) end,
  each = function(t)
    local n = 0
    for _ in t:each() do n = n + 1 end
    return n
  end,
  take = { setup = ringed, run = function(ev)
    local t = assert(perf.tally { by = "addr" })
    kit.touch_pages(4)
    local n, message, code = t:take(ev)
    t:close()
    return n, message, code
  end, survives = "read" }, -- the loss is then a lower bound
  top = function(t) return t:top(2) end,
  totals = function(t) return t:totals() end,
})

return rows
