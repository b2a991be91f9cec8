--- How costs grow with open events, rings, threads, spans, routes and a file's size, and whether a million of something leaves
-- anything behind: `make bench-growth`. Each part prints a table.
--
--     luajit bench/growth.lua [PART]     events rings threads spans routes million files
--
-- Times are CPU time, of all threads, and where something is short the minimum of a few rounds. Memory is Lua's by
-- collectgarbage, and for files the largest resident size of a process that reads nothing else. The file of perf.data samples is
-- made of copies of the one that mk/bench.mk recorded.
local perf = require "perf"

local build = os.getenv "BUILD" or "build"
local SAMPLES = build .. "/bench/samples.data"

local function empty() end

local function heap()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count" * 1024
end

-- The CPU time of a call, in ns.
local function timed(f, ...)
  local start = os.clock()
  f(...)
  return (os.clock() - start) * 1e9
end

local function best(rounds, f, ...)
  local least = math.huge
  for _ = 1, rounds do least = math.min(least, (timed(f, ...))) end
  return least
end

local function times(n, f, ...)
  for _ = 1, n do f(...) end
end

local parts = {}

function parts.events()
  print(("%-14s %12s %12s %12s %12s %12s"):format("open events", "us to open", "to close", "ns to read", "to measure",
    "Lua bytes"))
  for _, n in ipairs { 1, 10, 100, 1000 } do
    local events, open, close, read, measure, bytes = {}, math.huge, math.huge, 0, 0, 0
    for i = 1, n do events[i] = false end
    for _ = 1, 5 do
      local before = heap()
      open = math.min(open, timed(function()
        for i = 1, n do events[i] = assert(perf.open "task-clock") end
      end))
      bytes = heap() - before
      for i = 1, n do events[i]:enable() end
      read = best(20, times, 200, events[1].read, events[1])
      measure = best(20, times, 200, perf.measure, "page-faults", empty)
      close = math.min(close, timed(function()
        for i = n, 1, -1 do events[i]:close() end
      end))
      for i = 1, n do events[i] = false end
    end
    print(("%-14d %12.1f %12.1f %12.0f %12.0f %12.0f"):format(n, open / n / 1e3, close / n / 1e3, read / 200, measure / 200,
      bytes / n))
  end
end

function parts.rings()
  print(("%-14s %12s %12s"):format("rings", "us to map", "ns to poll"))
  for _, n in ipairs { 1, 8, 64 } do
    local map, poll = math.huge, math.huge
    for _ = 1, 5 do
      local events = {}
      for i = 1, n do
        events[i] = assert(perf.open { event = "page-faults", sample_period = 1, sample_type = { "ip", "tid", "time" } })
      end
      map = math.min(map, timed(function()
        for i = 1, n do assert(events[i]:map { pages = 8 }) end
      end))
      poll = math.min(poll, best(20, function()
        for i = 1, n do events[i]:read_record(0) end
      end))
      for i = 1, n do events[i]:close() end
    end
    print(("%-14d %12.1f %12.0f"):format(n, map / n / 1e3, poll / n))
  end
end

function parts.threads()
  print(("%-14s %12s %12s"):format("threads", "us to start", "us a job"))
  for _, n in ipairs { 1, 2, 4, 8, 16 } do
    local start, job = math.huge, math.huge
    for _ = 1, 3 do
      local pool
      start = math.min(start, timed(function() pool = assert(perf.pool { size = n, events = "task-clock,page-faults" }) end))
      job = math.min(job, best(5, function()
        local futures = {}
        for i = 1, 400 do futures[i] = pool:submit(empty) end
        for i = 1, 400 do futures[i]:get() end
      end))
      pool:close()
    end
    print(("%-14d %12.0f %12.1f"):format(n, start / n / 1e3, job / 400 / 1e3))
  end
end

local FOUR = "task-clock,page-faults,context-switches,cpu-migrations"

local function tracer(queue)
  return assert(perf.tracer { service = "bench", events = FOUR, exporter = empty, queue = queue, batch = queue, delay = 1e6 })
end

function parts.spans()
  print(("%-14s %12s %12s"):format("queued spans", "ns a span", "Lua bytes"))
  for _, n in ipairs { 1000, 10000, 100000, 1000000 } do
    local t = tracer(n + 1)
    local before = heap()
    local spent = timed(function()
      for _ = 1, n do t:start("work"):finish() end
    end)
    print(("%-14d %12.0f %12.0f"):format(n, spent / n, (heap() - before) / n))
    t.sender.queue:clear()
  end
end

function parts.million()
  print(("%-30s %12s %16s"):format("a million", "ns each", "Lua bytes left"))
  local function row(name, f)
    f(2000)
    heap() -- the next one also collects the objects that finalizers released
    local before = heap()
    local spent = timed(f, 1000000)
    print(("%-30s %12.0f %16.0f"):format(name, spent / 1e6, heap() - before))
    perf.release()
  end
  row("measurements of 4 events", function(n) times(n, perf.measure, FOUR, empty) end)
  local ev = assert(perf.open "task-clock")
  ev:enable()
  row("readings of an event", function(n) times(n, ev.read, ev) end)
  row("events opened and closed", function(n)
    for _ = 1, n do perf.open("task-clock"):close() end
  end)
  local t = tracer(1000)
  row("spans, cleared at 999", function(n)
    for i = 1, n do
      t:start("work"):finish()
      if i % 999 == 0 then t.sender.queue:clear() end
    end
    t.sender.queue:clear()
  end)
end

-- Returns the ns to find the route of a path that was never seen before, such as a client may make up.
local function ns_to_find(list)
  local find, serial = require "resty.perf.routes".new(list), 0
  return best(5, times, 1000, function()
    serial = serial + 1
    find("/made/up/" .. serial)
  end) / 1000
end

-- Requests of resty.perf in a simulated nginx; they take the routes in turn. "bare": the same requests without the phases of
-- resty.perf. "made up" and "by patterns": the search for a path without a route, in a list of paths and in one of Lua patterns.
function parts.routes()
  local nginx = require "spec.support.nginx"
  print(("%-14s %12s %12s %12s %12s %12s"):format("routes", "ns a request", "bare", "Lua bytes", "made up", "by patterns"))
  for _, n in ipairs { 1, 10, 100, 1000, 10000 } do
    local before, host, routes, patterns = heap(), nginx.new(), {}, {}
    host:load()
    for i = 1, n do routes[i] = "/" .. i end
    assert(host:run(host.perf.start, { events = "page-faults,task-clock", routes = routes }))
    local var, content, log, at = host.ngx.var, host.perf.content, host.perf.log, 0
    local function request(counted)
      at = at % n + 1
      var.uri, host.ngx.ctx = routes[at], {}
      if counted then
        content(empty)
        log()
      else
        empty()
      end
    end
    local counted, bare = host:run(function()
      times(n, request, true)
      return best(5, times, 1000, request, true), best(5, times, 1000, request, false)
    end)
    local bytes = heap() - before
    host:run(host.perf.stop)
    for i = 1, n do patterns[i] = { routes[i], pattern = "^" .. routes[i] .. "$" } end
    print(("%-14d %12.0f %12.0f %12.0f %12.0f %12.0f"):format(n, counted / 1000, bare / 1000, bytes / n, ns_to_find(routes),
      ns_to_find(patterns)))
  end
end

local function read_all(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read "*a"
  f:close()
  return text
end

-- Write a file that has the records of SAMPLES n times, and none of its features, which stand behind the records.
local function enlarge(path, n)
  local text = read_all(SAMPLES)
  local function word(at)
    local v = 0
    for i = 8, 1, -1 do v = v * 256 + text:byte(at + i) end
    return v
  end
  local function bytes(v)
    local out = {}
    for i = 1, 8 do
      out[i] = string.char(v % 256)
      v = math.floor(v / 256)
    end
    return table.concat(out)
  end
  local from, size = word(40), word(48)
  local records = text:sub(from + 1, from + size)
  local f = assert(io.open(path, "wb"))
  f:write(text:sub(1, 48), bytes(size * n), text:sub(57, 72), ("\0"):rep(32), text:sub(105, from))
  for _ = 1, n do f:write(records) end
  f:close()
  return from + size * n
end

-- In a process of its own: prints the number of samples, the ns for each, and the largest resident size in KB.
function parts.file()
  local seen, sum, file = 0, 0, assert(perf.data.open(arg[2]))
  local spent = timed(function()
    for _, ip, tid, time, addr in file:each("sample", "ip", "tid", "time", "addr") do
      seen, sum = seen + 1, sum + ip + tid + time + addr
    end
  end)
  assert(not file:error())
  file:close()
  local status = read_all "/proc/self/status"
  print(("%12d %12.0f %12d"):format(seen, spent / seen, tonumber(status:match "VmHWM:%s*(%d+)")))
end

function parts.files()
  if not io.open(SAMPLES) then return print "no perf.data file was recorded" end
  print(("%-14s %12s %12s %12s"):format("perf.data", "samples", "ns each", "KB resident"))
  local path = os.tmpname()
  local whole = #read_all(SAMPLES)
  for _, mb in ipairs { 10, 100, 1000 } do
    local size = enlarge(path, math.ceil(mb * 1e6 / whole))
    local p = io.popen(("%s bench/growth.lua file %s"):format(os.getenv "BENCH_LUA" or "luajit", path))
    print(("%-14s %s"):format(("%.0f MB"):format(size / 1e6), p:read "*l" or "it failed"))
    p:close()
  end
  os.remove(path)
end

for _, part in ipairs(arg[1] and { arg[1] } or { "events", "rings", "threads", "spans", "routes", "million", "files" }) do
  parts[part]()
  if part ~= "file" then print() end
end
