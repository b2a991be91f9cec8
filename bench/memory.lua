--- Measures what counting and profiling Lua's memory costs, and how exact the estimates are: `make bench-memory`.
--
-- Each workload runs plain and profiled in turns, in an order that is shuffled again each round; it keeps what it made for some
-- time, so that the collector works too. A row is the CPU time of the profiled runs relative to that of the plain ones: the
-- minimum of each, and the median of the rounds' ratios.
--
-- Then each workload is profiled BENCH_SEEDS=60 times with a small period, and the estimated sum is compared with the exact
-- count: the mean should be 1 within three standard errors, and the deviation at most 1.2 times the square root of
-- period / bytes.
--
-- At last the profile of a period of 1, of functions that compiled code inlines: how many bytes are on the right line, and with
-- the right callers up to the loop; and whether allocated less freed is what `collectgarbage "count"` moved by.
--
-- BENCH_ROUNDS=15 rounds.
local json = require "perf.base.json"
local perf = require "perf"
local stats = require "perf.bench.statistics"

local ROUNDS = tonumber(os.getenv "BENCH_ROUNDS") or 15
local SEEDS = tonumber(os.getenv "BENCH_SEEDS") or 60
local KB = 1024

local function document()
  local t = {}
  for i = 1, 50 do t[i] = { id = i, name = "name " .. i, tags = { "a", "b", i }, nested = { x = i / 3, y = { i, i + 1 } } } end
  return t
end

local function tree(depth)
  if depth == 0 then return {} end
  return { tree(depth - 1), tree(depth - 1) }
end

local function count(t) return t[1] and count(t[1]) + count(t[2]) or 1 end

local kept, serial = {}, 0 -- serial: a string that exists already is not allocated
local workloads = {
  { "JSON", function(n)
    for i = 1, n do
      local text = json.encode(document())
      kept[i % 16 + 1] = json.decode(text)
    end
  end, 30 },
  { "strings", function(n)
    for i = 1, 300 * n do
      serial = serial + 1
      kept[i % 64 + 1] = ("%d:%s"):format(serial, ("x"):rep(i % 100)):upper() .. serial
    end
  end, 30 },
  { "binary trees", function(n)
    local sum = 0
    for i = 1, n do
      kept[i % 8 + 1] = tree(10)
      sum = sum + count(kept[i % 8 + 1])
    end
    return sum
  end, 30 },
  { "growing arrays", function(n)
    for i = 1, 30 * n do
      local t = {}
      for k = 1, 200 do t[k] = k end
      kept[i % 16 + 1] = t
    end
  end, 30 },
  { "beside large blocks", function(n)
    for i = 1, n do
      for k = 1, 50 do kept[k] = { k, i } end
      serial = serial + 1
      kept[i % 8 + 60] = (tostring(serial)):rep(20000)
    end
  end, 100 },
}

local function profiled(event, period)
  return function(work, n)
    local p = assert(perf.profiler { event = event, period = period })
    assert(p:start())
    local before = os.clock()
    work(n)
    local after = os.clock()
    p.sampler:stop() -- the Profile is not made
    p:close()
    return after - before
  end
end

local ways = {
  { "plain", function(work, n)
    local before = os.clock()
    work(n)
    return os.clock() - before
  end },
  { "lua-alloc-bytes", function(work, n)
    perf.measure("lua-alloc-bytes", collectgarbage, "count")
    local before = os.clock()
    perf.measure("lua-alloc-bytes", work, n)
    local after = os.clock()
    perf.release()
    return after - before
  end },
  { "alloc 512 KB", profiled("alloc", 512 * KB) },
  { "heap 512 KB", profiled("heap", 512 * KB) },
  { "alloc 64 KB", profiled("alloc", 64 * KB) },
  { "heap 64 KB", profiled("heap", 64 * KB) },
}

local order = {}
for i = 1, #ways do order[i] = i end

print(("%-20s %-16s %8s %8s"):format("CPU time", "", "by min", "median"))
for _, w in ipairs(workloads) do
  local least, ratios = {}, {}
  for i = 1, #ways do least[i], ratios[i] = math.huge, {} end
  for round = 0, ROUNDS do
    local took = {}
    for _, i in ipairs(stats.shuffle(order, math.random)) do
      collectgarbage()
      took[i] = ways[i][2](w[2], w[3])
    end
    if round > 0 then -- the first one compiles
      for i = 1, #ways do
        least[i], ratios[i][round] = math.min(least[i], took[i]), took[i] / took[1]
      end
    end
  end
  for i = 2, #ways do
    print(("%-20s %-16s %8.3f %8.3f"):format(i == 2 and w[1] or "", ways[i][1], least[i] / least[1], stats.median(ratios[i])))
  end
end

print(("\n%-20s %8s %10s %8s %8s %8s"):format("estimates", "period", "bytes", "mean", "errors", "CV"))
for _, w in ipairs(workloads) do
  local period, sum, squares, whole = 4096, 0, 0, 0
  for _ = 1, SEEDS do
    local prof = assert(perf.profile({ event = "alloc", period = period }, w[2], math.ceil(w[3] / 3)))
    local weight = 0
    for _, s in ipairs(prof:samples()) do weight = weight + s.weight end
    local ratio = weight / prof.total
    sum, squares, whole = sum + ratio, squares + ratio * ratio, whole + prof.total / SEEDS
  end
  local mean, expected = sum / SEEDS, math.sqrt(period / whole)
  local deviation = math.sqrt(math.max(0, squares / SEEDS - mean * mean) * SEEDS / (SEEDS - 1))
  print(("%-20s %8d %10d %8.4f %+8.2f %8.2f"):format(w[1], period, whole, mean,
    (mean - 1) / (deviation / math.sqrt(SEEDS)), deviation / expected))
end

print "\nmemory of the table of live blocks, and of stacks"
for _, n in ipairs { 10000, 20000, 100000, 200000 } do
  local objects = kept
  for i = 1, n do objects[i] = false end
  local p = assert(perf.profiler { event = "heap", period = 1 })
  assert(p:start())
  for i = 1, n do objects[i] = {} end
  local prof = assert(p:stop())
  print(("%8d samples: %.1f bytes each"):format(n, prof.memory / n))
end

-- Functions that call each other; the lines of each, from the one that allocates to the loop, are those of `stacks`.
local first = debug.getinfo(1, "l").currentline
local function a(i) kept[i % 64 + 1] = { i, i } end
local function b(i) a(i); kept[(i + 7) % 64 + 1] = { i } end
local function c(i) b(i); kept[(i + 3) % 64 + 1] = function() return kept, i end end
local function d(i) c(i); kept[(i + 9) % 64 + 1] = { x = i } end
local function calls(n) for i = 1, n do d(i) end end
local stacks = { { a, { 1, 2, 3, 4, 5 } }, { b, { 2, 3, 4, 5 } }, { c, { 3, 4, 5 } }, { d, { 4, 5 } } }

-- The bytes of a call, by the interpreter's own count.
local function bytes_of(fn)
  local least = math.huge
  for i = 1, 5 do -- the compiler may begin at any of them, and needs memory too
    local before = collectgarbage "count"
    fn(i)
    least = math.min(least, (collectgarbage "count" - before) * KB)
  end
  return least
end

-- How many of these lines a stack has, from the innermost on.
local function right(stack, lines)
  for k, line in ipairs(lines) do
    local frame = stack[k]
    if not frame or frame.line ~= first + line or frame.kind == "range" then return k - 1 end
  end
  return #lines
end

local N, size, before, known = 20000, {}, 0, 0
for i = 1, 64 do kept[i] = false end
calls(2000)
collectgarbage()
collectgarbage "stop"
for i, s in ipairs(stacks) do
  size[i] = bytes_of(s[1]) - before
  before = before + size[i]
end
local p = assert(perf.profiler { event = "alloc", period = 1 })
assert(p:start())
local began = collectgarbage "count"
calls(N)
local moved = (collectgarbage "count" - began) * KB
p.sampler:stop()
collectgarbage "restart"
local prof = assert(p:stop())
local on_line, whole = 0, 0
for i, s in ipairs(stacks) do
  local sum = 0
  for _, sample in ipairs(prof:samples()) do
    local n = right(sample.stack, s[2])
    sum = sum + (n > 0 and sample.weight or 0)
    whole = whole + (n == #s[2] and sample.weight or 0)
  end
  known = known + N * size[i]
  on_line = on_line + math.min(sum, N * size[i])
end
print(("\nperiod 1: %d bytes, %.3f %% on the right line, %.3f %% with the right stack"):format(known, 100 * on_line / known,
  100 * math.min(1, whole / known)))
print(("allocated less freed: %d, count moved by %d"):format(prof.blocks.allocated_bytes - prof.blocks.freed_bytes, moved))
