--- This module as a contestant: contestant.lua ROW. Prints "ready", then for each number N on its input the cost of N
-- repetitions, in the row's unit; 0 ends it. Only the events of the row are open.
local row = arg[1]

local function none(why)
  print("none " .. why)
  os.exit(0)
end

io.stdout:setvbuf "line"
local core = require "perf.core"
local now = core.wall_ns

local LIST = { "task-clock", "page-faults", "context-switches", "cpu-migrations" }
local function empty() end

-- A row that times n calls of a function; one additional call does not matter.
local function timed(body)
  return function(n)
    local start = now()
    for _ = 1, n do body() end
    return now() - start
  end
end

-- The bytes of garbage that n repetitions leave.
local function garbage(loop)
  return function(n)
    loop(200) -- the compiler's own memory
    collectgarbage()
    collectgarbage "stop"
    local before = collectgarbage "count"
    loop(n)
    local bytes = (collectgarbage "count" - before) * 1024
    collectgarbage "restart"
    return bytes
  end
end

local rows = {}

local function measure_method(open)
  return function(perf)
    local object = assert(open(perf))
    return function(n)
      local start = now()
      for _ = 1, n do object:measure(empty) end
      return now() - start
    end
  end
end

rows["measure-event"] = measure_method(function(perf) return perf.open "task-clock" end)
rows["measure-group"] = measure_method(function(perf) return perf.group(LIST) end)

local function measure_list(list)
  return function(perf)
    local measure = perf.measure
    return function(n)
      local start = now()
      for _ = 1, n do measure(list, empty) end
      return now() - start
    end
  end
end

rows["measure-one"] = measure_list "task-clock"
rows["measure-faults"] = measure_list "page-faults"
rows["measure-list"] = measure_list(LIST)

rows["measure-kept"] = function(perf)
  local kept, measure = {}, perf.measure
  return function(n)
    local start = now()
    for i = 1, n do kept[i] = measure(LIST, empty) end
    return now() - start, kept
  end
end

rows["measure-default"] = function(perf)
  local measure = perf.measure
  return function(n)
    local start = now()
    for _ = 1, n do measure(empty) end
    return now() - start
  end
end

rows["measure-interpreted"] = function(perf)
  if type(jit) ~= "table" then none "there is no compiler to turn off" end
  jit.off()
  jit.flush()
  return rows["measure-list"](perf)
end

rows["read-event"] = function(perf)
  local ev = assert(perf.open "task-clock")
  ev:enable()
  return timed(function() return ev:read() end)
end

rows["read-group"] = function(perf)
  local group = assert(perf.group(LIST))
  group:enable()
  return timed(function() return group:read() end)
end

rows["first-event"] = function(perf)
  return timed(function()
    local ev = perf.open "task-clock"
    ev:enable()
    empty()
    ev:read()
    ev:close()
  end)
end

-- The lists are released after each measurement, which closes them.
local function first(list, kept)
  return function(perf)
    if type(list) == "string" and list:find ":" and not perf.measure(list, empty) then none "no such tracepoint" end
    local other = kept and assert(perf.open(list))
    local release = require "perf.measure"._release
    release()
    return timed(function()
      perf.measure(list, empty)
      release()
      return other
    end)
  end
end

rows["first-list"] = first "task-clock"
rows["first-list4"] = first(LIST)
rows["first-faults"] = first "page-faults"
rows["first-faults-kept"] = first("page-faults", true)
rows["first-tracepoint"] = first "syscalls:sys_enter_getppid"
rows["first-tracepoint-kept"] = first("syscalls:sys_enter_getppid", true)

-- Spans are queued, and the queue is emptied between two samples.
rows.span = function(perf)
  local tracer = assert(perf.tracer { service = "bench", events = table.concat(LIST, ","), exporter = empty, delay = 1e6,
    queue = 400, batch = 400 })
  return function(n)
    local start = now()
    for _ = 1, n do tracer:start("work"):finish() end
    local spent = now() - start
    tracer.sender.queue:clear()
    return spent
  end
end

local function mapped(perf, pages)
  local ev = assert(perf.open { event = "page-faults", sample_period = 1, sample_type = { "ip", "tid", "time", "addr" },
    wakeup_events = 2 ^ 30 })
  assert(ev:map { pages = pages })
  return ev
end

-- n samples in batches that fit in the ring; only reading them is timed.
local function ring(drain)
  return function(perf)
    local kit = require "testkit"
    local ev = mapped(perf, 256)
    kit.touch_pages(64)
    return function(n)
      local spent = 0
      while n > 0 do
        local batch = math.min(n, 4000)
        ev:enable()
        kit.touch_pages(batch)
        ev:disable()
        local start = now()
        local seen = drain(ev)
        spent = spent + (now() - start)
        assert(seen >= batch, "samples are missing")
        n = n - batch
      end
      return spent
    end
  end
end

local drain_sum = 0
local function drain_fresh(ev)
  local seen = 0
  for rec in ev:records { timeout = 0 } do
    drain_sum = drain_sum + rec.ip + rec.tid + rec.time + rec.addr
    seen = seen + 1
  end
  return seen
end

local function drain_reused(ev)
  local seen, rec = 0, nil
  while true do
    rec = ev:read_record(0, rec)
    if not rec then return seen end
    drain_sum = drain_sum + rec.ip + rec.tid + rec.time + rec.addr
    seen = seen + 1
  end
end

local function drain_fields(source)
  local seen = 0
  for _, ip, tid, time, addr in source:each("sample", "ip", "tid", "time", "addr") do
    drain_sum = drain_sum + ip + tid + time + addr
    seen = seen + 1
  end
  return seen
end

rows.ring = ring(drain_reused)
rows["ring-fresh"] = ring(drain_fresh)
rows["ring-each"] = ring(drain_fields)

rows["ring-tally"] = function(perf)
  local hits = perf.tally { by = { "ip", "tid" } }
  return ring(function(ev) return hits:take(ev) end)(perf)
end

local function drain_file(file)
  local seen = 0
  for rec in file:records() do
    if rec.type == "sample" then
      drain_sum = drain_sum + rec.ip + rec.tid + rec.time + rec.addr
      seen = seen + 1
    end
  end
  return seen
end

-- The file that mk/bench.mk recorded, from opening to closing; the time for n samples is computed from that for all.
local function decode(drain)
  return function(perf)
    local path = (os.getenv "BUILD" or "build") .. "/bench/samples.data"
    if not io.open(path) then none "no perf.data file was recorded" end
    return function(n)
      local start = now()
      local file = assert(perf.data.open(path))
      local seen = drain(file)
      assert(not file:error())
      file:close()
      return (now() - start) * n / seen
    end
  end
end

rows.data = decode(drain_file)
rows["data-each"] = decode(drain_fields)

local function many_events(perf)
  return function(n)
    local events = {}
    local start = now()
    for i = 1, n do events[i] = perf.open { event = "task-clock", disabled = false } end
    local spent = now() - start
    for i = 1, n do events[i]:close() end
    return spent
  end
end

local function many_rings(perf)
  return function(n)
    local events = {}
    local start = now()
    for i = 1, n do events[i] = mapped(perf, 8) end
    local spent = now() - start
    for i = 1, n do events[i]:close() end
    return spent
  end
end

for _, n in ipairs { 10, 100, 1000 } do rows["many-events-" .. n] = many_events end
for _, n in ipairs { 8, 64 } do rows["many-rings-" .. n] = many_rings end

-- A separate process each time, since a process loads the module only once.
local function load_row(arguments)
  return function()
    local command = ("%s bench/load.lua %s"):format(os.getenv "BENCH_LUA", arguments)
    return function(n)
      local spent = 0
      for _ = 1, n do
        local p = io.popen(command)
        spent = spent + tonumber(p:read "*l")
        p:close()
      end
      return spent
    end
  end
end

rows.load = load_row ""
rows["load-measure"] = load_row "measure"
rows["load-memory"] = load_row "measure memory"

rows.garbage = function(perf)
  return garbage(function(n)
    for _ = 1, n do perf.measure(LIST, empty) end
  end)
end

rows["garbage-group"] = function(perf)
  local group = assert(perf.group(LIST))
  return garbage(function(n)
    for _ = 1, n do group:measure(empty) end
  end)
end

rows["garbage-ring"] = function(perf)
  local kit = require "testkit"
  local ev = mapped(perf, 256)
  local rec
  local function drain(n)
    for _ = 1, n do
      rec = ev:read_record(0, rec)
      drain_sum = drain_sum + rec.ip + rec.tid + rec.time + rec.addr
    end
  end
  local bytes = garbage(drain)
  return function(n)
    ev:enable()
    kit.touch_pages(n + 200)
    ev:disable()
    local result = bytes(n)
    drain_reused(ev)
    return result
  end
end

rows["memory-event"] = function(perf)
  return function(n)
    local events = {}
    for i = 1, n do events[i] = false end
    perf.open("task-clock"):close()
    collectgarbage()
    collectgarbage()
    local before = collectgarbage "count"
    for i = 1, n do events[i] = perf.open "task-clock" end
    collectgarbage()
    collectgarbage()
    local bytes = (collectgarbage "count" - before) * 1024
    for i = 1, n do events[i]:close() end
    return bytes
  end
end

if not rows[row] then none "not measured for this module" end
local run = rows[row](require "perf")
print "ready"
for line in io.lines() do
  if line == "0" then break end
  local value = run(tonumber(line))
  print(("%.0f"):format(tonumber(value)))
end
