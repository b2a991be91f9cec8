--- Measures what a profiler's signal handler costs: `make bench-profile`, or luajit bench/handler.lua in the environment of
-- `make env`. With lua5.4 the loops are interpreted.
--
-- The events are page faults, one in each iteration of a loop, which LuaJIT compiles. A timer is not used, since its interrupts
-- would cost more than the handler, and their cost varies most. In each round, every way of the list below runs once, in a
-- shuffled order. A row has the CPU time of one event: the minimum of all rounds, less the minimum of the plain runs.
--
--     kernel    the event writes into a ring that is not read
--     signal    the event also sends a signal, whose handler in C only counts: a profiler that uses signals cannot cost less
--     perf      perf.profiler
--
-- The difference of the last two is the cost of the library's own handler: it takes the stack and adds the sample to it.
-- BENCH_ROUNDS=31 is the number of rounds.
local perf = require "perf"
local stats = require "perf.bench.statistics"
local kit = require "testkit"
local jit = rawget(_G, "jit")
local ffi = jit and require "ffi"
local loadstring = rawget(_G, "loadstring") or load

local ROUNDS = tonumber(os.getenv "BENCH_ROUNDS") or 31
local EVENTS, SIGTRAP, SIZE = 1000, 5, 4096

local at
if ffi then
  ffi.cdef [[
    void *mmap(void *, size_t, int, int, int, long);
    int bench_drop(void *, size_t, int) __asm__("madvise");
  ]]
  at = ffi.cast("char *", ffi.C.mmap(nil, SIZE, 3, 0x22, -1, 0))
end
local FAULT = ffi and "C.bench_drop(at, 4096, 4) at[0] = 1" or "C.touch_pages(1)"

-- A loop of this many lines, with a condition and a `goto` on every third of them.
local function loop(lines)
  local text = { "local C, at = ... return function(n) local i, x = 0, 1", "while i < n do i = i + 1" }
  for k = 1, lines - 2, 3 do
    text[#text + 1] = ("if i %% %d == 0 then goto l%d end"):format(k % 7 + 2, k)
    text[#text + 1] = "x = (x * 7 + i) % 61"
    text[#text + 1] = ("::l%d::"):format(k)
  end
  text[#text + 1] = FAULT .. " end return x end"
  return assert(loadstring(table.concat(text, "\n"), "=loop"))(ffi and ffi.C or kit, at)
end

-- A function that calls fn(n) this many frames deeper.
local function below(frames, fn)
  local function down(left, n)
    if left == 0 then return (fn(n)) end
    local x = down(left - 1, n)
    return x + 0
  end
  return function(n) return down(frames, n) end
end

local workloads = {
  { "a loop of 3 lines", loop(2) },
  { "the same, 20 frames deep", below(19, loop(2)) },
  { "a loop of 165 lines", loop(164) },
}

-- Opens the event, without a profiler. Returns a function that closes it.
local function bare(sigtrap)
  local ev = assert(perf.open { event = "page-faults", sample_period = 1, sample_type = { "read" }, sigtrap = sigtrap,
    remove_on_exec = sigtrap })
  ev:map { pages = 128 }
  ev:enable()
  return function()
    ev:disable()
    ev:close()
  end
end

local ways = {
  { "plain", function() return function() end end },
  { "kernel", function() return bare(false) end },
  { "signal", function()
    kit.count_signals(SIGTRAP)
    local stop = bare(true)
    return function()
      stop()
      kit.count_signals(SIGTRAP, false)
    end
  end },
  { "perf", function()
    local p = assert(perf.profiler { event = "page-faults", period = 1 })
    assert(p:start())
    return function() assert(p:stop().sample_count >= EVENTS) end
  end },
}

print(("%d rounds of %d events; us of CPU time for each event"):format(ROUNDS, EVENTS))
for _, workload in ipairs(workloads) do
  local name, fn = workload[1], workload[2]
  local least = {}
  for _ = 1, 3 do fn(EVENTS) end -- compiles it
  for _ = 1, ROUNDS do
    for _, way in ipairs(stats.shuffle(ways, math.random)) do
      local stop = way[2]()
      fn(10)
      local before = kit.clock_ns "thread"
      fn(EVENTS)
      local took = tonumber(kit.clock_ns "thread" - before)
      stop()
      least[way[1]] = math.min(least[way[1]] or math.huge, took)
    end
  end
  local function us(way) return (least[way] - least.plain) / EVENTS / 1000 end
  print(("  %-26s kernel %5.2f   signal %5.2f   perf %5.2f   the handler's own part %5.2f"):format(name, us "kernel", us "signal",
    us "perf", us "perf" - us "signal"))
end
