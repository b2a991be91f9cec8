--- Measures the cost of a span: start, finish and queue, with four counts, relative to the floor of two group reads in C; and its
-- garbage. The floor is read(2) twice through LuaJIT's FFI, which is a call in C; other interpreters show perf.measure instead.
-- Rounds are interleaved and shuffled; the output is the minimum and median of all.
--
--     eval "$(make -s env)"; taskset -c 1 luajit bench/spans.lua [ROUNDS]
local perf = require "perf"

local EVENTS = "task-clock,page-faults,context-switches,cpu-migrations"
local N, rounds = 200, tonumber((...)) or 301

local function sink() end
local function tracer(events)
  return assert(perf.tracer { service = "bench", events = events, exporter = sink, queue = 2 * N, batch = 2 * N, delay = 1e6 })
end

local with, without = tracer(EVENTS), tracer(false)
local function empty() end

local contestants = {
  { "perf.measure(list, fn)", function() for _ = 1, N do perf.measure(EVENTS, empty) end end },
  { "a span", function() for _ = 1, N do with:start("work"):finish() end end, with },
  { "a span within another", function()
    local parent = with:start "parent"
    local child = { parent = parent }
    for _ = 1, N do with:start("work", child):finish() end
    parent:finish()
  end, with },
  { "a span with an attribute", function()
    for _ = 1, N do with:start("work"):set_attribute("key", "value"):finish() end
  end, with },
  { "a span without counts", function() for _ = 1, N do without:start("work"):finish() end end, without },
}

local has_ffi, ffi = pcall(require, "ffi")
local group -- not that of the list, which would be measured differently once its descriptor is known
if has_ffi then
  ffi.cdef "long read(int, void *, size_t);"
  group = assert(perf.group(EVENTS))
  assert(group:enable())
  local fd, buffer = group:members()[1]:fd(), ffi.new "uint64_t[32]"
  local C = ffi.C
  table.insert(contestants, 1, { "floor: two group reads", function()
    for _ = 1, N do
      C.read(fd, buffer, 256)
      C.read(fd, buffer, 256)
    end
  end })
end

local times = {}
for i = 1, #contestants do times[i] = {} end
for round = 0, rounds do
  local order = {}
  for i = 1, #contestants do order[i] = i end
  for i = #order, 2, -1 do
    local k = math.random(i)
    order[i], order[k] = order[k], order[i]
  end
  for _, i in ipairs(order) do
    local c = contestants[i]
    local counts = perf.measure("dummy", c[2])
    if round > 0 then table.insert(times[i], counts.wall_ns / N) end
    if c[3] then c[3].sender.queue:clear() end
  end
end

local floor
print(("%-28s %9s %9s %12s"):format("ns", "min", "median", "over floor"))
for i, c in ipairs(contestants) do
  table.sort(times[i])
  local low, middle = times[i][1], times[i][math.ceil(#times[i] / 2)]
  floor = floor or low
  print(("%-28s %9.0f %9.0f %12.0f"):format(c[1], low, middle, low - floor))
end

-- Spans that are sent and then forgotten leave nothing behind.
local function heap(n)
  for _ = 1, n do
    with:start("work"):finish()
    if with.sender.queue:length() > N then with.sender.queue:clear() end
  end
  with.sender.queue:clear()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count"
end
heap(N)
local before = heap(N)
print(("\nheap after %d spans more: %+.1f KB"):format(1000 * N, heap(1000 * N) - before))
