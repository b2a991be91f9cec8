--- Measures the cost of profiling: `make bench-profile`, or luajit bench/profile.lua in the environment of `make env`.
--
-- Each workload runs plain and profiled in turns, in an order that is shuffled again each round. A row is the CPU time of the
-- profiled runs relative to that of the plain ones: the minimum of each, and the median of the rounds' ratios; then the samples a
-- second that were taken, and the cost of one by the minima.
--
--     kernel    the event at the same rate into a ring that is not read: the timer's interrupts alone
--     signal    the same, and a signal each time whose handler, in C, only counts: the floor of any profiler by signals
--     perf      perf.profiler
--     jit       LuaJIT's own profiler as jit.p uses it; ITIMER_PROF expires at the kernel's ticks, so there are no more samples
--               than ticks (250 a second on many kernels), whatever the requested rate is
--     jit+ev    the same at the full rate: its SIGPROF comes from the event, by fcntl(2), and its timer is off
--
-- BENCH_FREQ=1000 samples a second; BENCH_ROUNDS=31 rounds.
local perf = require "perf"
local stats = require "perf.bench.statistics"
local kit = require "testkit"

local FREQ = tonumber(os.getenv "BENCH_FREQ") or 1000
local ROUNDS = tonumber(os.getenv "BENCH_ROUNDS") or 31

local SIGTRAP = 5

local workloads = {}

workloads[1] = { "a numeric loop", function(n)
  local s = 0
  for i = 1, n * 6e5 do
    s = s + i % 7
    s = s * 0.5
  end
  return s
end }

local text = ("lorem ipsum dolor sit amet, "):rep(1000)
workloads[2] = { "words of a text", function(n)
  local count = 0
  for _ = 1, n do
    for word in text:gmatch "%a+" do count = count + #word end
  end
  return count
end }

workloads[3] = { "small tables", function(n)
  local t = {}
  for _ = 1, n * 3 do
    for i = 1, 2000 do t[i] = { i, i + 1 } end
  end
  return #t
end }

local function tree(depth)
  if depth == 0 then return 1 end
  return tree(depth - 1) + tree(depth - 1)
end
workloads[4] = { "recursive calls", function(n)
  local sum = 0
  for _ = 1, n do sum = sum + tree(14) end
  return sum
end }

local contestants = { { "plain", function() return function() return 0 end end } }

-- The event alone; returns a function that ends it and returns its samples.
local function bare(sigtrap, prepare)
  local ev = assert(perf.open { event = "task-clock", sample_freq = FREQ, sample_type = { "read" }, sigtrap = sigtrap,
    remove_on_exec = sigtrap })
  ev:map { pages = 128 }
  if prepare then prepare(ev:fd()) end
  ev:enable()
  return function()
    ev:disable()
    local n = 0
    for _ in ev:records { timeout = 0 } do n = n + 1 end
    ev:close()
    return n
  end
end

contestants[#contestants + 1] = { "kernel", function() return bare(false) end }

contestants[#contestants + 1] = { "signal", function()
  kit.count_signals(SIGTRAP)
  local stop = bare(true)
  return function()
    local n = stop()
    kit.count_signals(SIGTRAP, false)
    return n
  end
end }

contestants[#contestants + 1] = { "perf", function()
  local p = assert(perf.profiler { freq = FREQ })
  assert(p:start())
  return function() return p:stop().sample_count end
end }

local has_jit, profile = pcall(require, "jit.profile")
if has_jit then
  local function jit_p()
    local n, stacks = 0, {}
    profile.start("li" .. math.max(1, math.floor(1000 / FREQ)), function(thread, samples)
      n = n + samples
      local stack = profile.dumpstack(thread, "pFZ;", -100)
      stacks[stack] = (stacks[stack] or 0) + samples
    end)
    return function()
      profile.stop()
      return n
    end
  end

  local ffi = require "ffi"
  ffi.cdef [[
    int fcntl(int fd, int command, ...);
    int setitimer(int which, const long *value, long *old);
    struct owner { int type, pid; };
  ]]
  local F_SETFL, F_SETSIG, F_SETOWN_EX, O_ASYNC, SIGPROF, ITIMER_PROF = 4, 10, 15, 8192, 27, 2

  contestants[#contestants + 1] = { "jit", jit_p }
  contestants[#contestants + 1] = { "jit+ev", function()
    local stop = jit_p()
    ffi.C.setitimer(ITIMER_PROF, ffi.new "long[4]", nil)
    local stop_event = bare(false, function(fd)
      assert(ffi.C.fcntl(fd, F_SETOWN_EX, ffi.new("struct owner", 0, kit.gettid())) == 0)
      assert(ffi.C.fcntl(fd, F_SETSIG, ffi.cast("int", SIGPROF)) == 0)
      assert(ffi.C.fcntl(fd, F_SETFL, ffi.cast("int", O_ASYNC)) == 0)
    end)
    return function()
      stop_event()
      return stop()
    end
  end }
end

-- CPU seconds of one run, and the number of samples.
local function run(start, fn, n)
  if jit then jit.flush() end -- as starting LuaJIT's profiler does, so that no run uses traces of another
  local stop = start()
  local before = os.clock()
  fn(n)
  local took = os.clock() - before
  return took, stop()
end

-- The amount of work that takes an eighth of a second.
local function size(fn)
  local n = 1
  while true do
    local before = os.clock()
    fn(n)
    local took = os.clock() - before
    if took > 0.1 then return math.ceil(n * 0.125 / took) end
    n = n * 2
  end
end

print(("%d samples a second asked for, %d rounds; CPU time over that of plain runs"):format(FREQ, ROUNDS))
for _, workload in ipairs(workloads) do
  local name, fn = workload[1], workload[2]
  local n = size(fn)
  local ratios, least, rates = {}, {}, {}
  for _, c in ipairs(contestants) do ratios[c[1]], least[c[1]], rates[c[1]] = {}, math.huge, {} end
  local order = {}
  for i, c in ipairs(contestants) do order[i] = c end
  for _ = 1, ROUNDS do
    local took, samples = {}, {}
    for _, c in ipairs(stats.shuffle(order, math.random)) do took[c[1]], samples[c[1]] = run(c[2], fn, n) end
    for _, c in ipairs(contestants) do
      local t, s = took[c[1]], samples[c[1]]
      table.insert(ratios[c[1]], t / took.plain)
      least[c[1]] = math.min(least[c[1]], t)
      table.insert(rates[c[1]], s / t)
    end
  end
  print(name)
  for i, c in ipairs(contestants) do
    if i > 1 then
      local rate = stats.median(rates[c[1]])
      print(("  %-7s  least %.3f  median %.3f  %5.0f samples/s  %5.1f us each"):format(c[1], least[c[1]] / least.plain,
        stats.median(ratios[c[1]]), rate, (least[c[1]] - least.plain) / (rate * least[c[1]]) * 1e6))
    end
  end
end
