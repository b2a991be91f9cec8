-- The story: a profile with native = true kept sixteen kinds of call chains apart until the next safe point, and attributed all
-- later ones to the last. One long call of a C function has hundreds: each run showed another address, with 42 %. Twice: C finds
-- the native frames.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

-- The numbers of samples by the innermost native frame. Their weights are not used: a late sample has the weight of several.
local function leaves(prof)
  local counts = {}
  for _, s in ipairs(prof:samples()) do
    local leaf = s.stack[1]
    if leaf.kind == "native" then counts[leaf.name] = (counts[leaf.name] or 0) + s.count end
  end
  return counts
end

describe("native leaves", function()
  it("of one long call have the same shares as in the event's ring", function()
    requires { ext = "symbols", perf_open = "user" }
    local before = kit.clock_ns "thread"
    kit.hot_spots(10)
    local rounds = math.ceil(10 * 4e8 / (kit.clock_ns "thread" - before)) -- of about 0.4 s here: 600 samples
    local symbols = assert(require("perf.symbols").open { pid = 0 })
    -- Two events sample the same work, one into this ring, the other for the profiler. Their frequencies differ: timers of one
    -- frequency keep their distance, and if that is some microseconds, all samples of the ring fall into the profiler's signal
    -- handler.
    local ring = assert(perf.open({ event = "task-clock", sample_freq = 1597, sample_type = { "ip" }, exclude_kernel = true,
      disabled = true }))
    assert(ring:map { pages = 256 })
    local p = assert(perf.profiler { event = "task-clock:u", freq = 1999, native = true })
    assert(p:start())
    local want, n, calls = {}, 0, 0
    repeat -- an emulated machine takes fewer samples
      ring:enable()
      kit.hot_spots(rounds)
      ring:disable()
      for record in ring:records() do
        if record.type == "sample" then
          local found = symbols:resolve(record.ip)
          if found and found.symbol and found.symbol:find "^hot_" then
            want[found.symbol] = (want[found.symbol] or 0) + 1
            n = n + 1
          end
        end
      end
      calls = calls + 1
    until n > 500 or calls == 20
    local prof = assert(p:stop())
    ring:close()
    symbols:close()
    local got, sum = {}, 0
    for name, count in pairs(leaves(prof)) do
      local symbol = name:match "^(hot_%w+)"
      if symbol then got[symbol], sum = (got[symbol] or 0) + count, sum + count end
    end
    assert.is_true(n > 500 and sum > 100, ("%d, %d"):format(n, sum))
    for _, symbol in ipairs { "hot_add", "hot_divide", "hot_mix" } do
      local a, b = 100 * (got[symbol] or 0) / sum, 100 * (want[symbol] or 0) / n
      -- By chance the shares differ by more than six standard deviations once in 500 million runs.
      local deviation = math.sqrt(b * (100 - b) * (1 / n + 1 / sum))
      assert.is_true(math.abs(a - b) < 6 * deviation, ("%s: %.1f %% of the profile, %.1f %% of the ring"):format(symbol, a, b))
    end
  end)

  it("without memory are called (other), and no weight is lost", function()
    requires { perf_open = "user" }
    local prof, sum, other, count
    local rounds = 60
    repeat -- an emulated machine takes fewer samples
      profiling.at_safe_points(function()
        local p = assert(perf.profiler { event = "task-clock:u", freq = 4999, native = true })
        assert(p:start())
        core.fault("mmap", "ENOMEM", 0) -- the first allocation after the table of 128 kinds is full
        kit.hot_places(rounds)
        core.fault()
        prof = assert(p:stop())
      end)
      sum, other, count = 0, 0, 0
      for _, s in ipairs(prof:samples()) do
        sum, count = sum + s.weight, count + s.count
        if s.stack[1].name == "(other)" then other = other + s.count end
      end
      rounds = 3 * rounds
    until other > 0 or rounds > 2000
    assert.equal(prof.total, sum)
    assert.equal(prof.sample_count, count)
    assert.equal(1, other)
  end)

  -- The second story: a profile of context-switches with weights by the time off the CPU ignored native = true. Its event did not
  -- sample call chains.
  it("of waiting are those of the sleep's system call", function()
    requires { perf_open = "user", paranoid = 1 }
    local prof = assert(perf.profile({ event = "context-switches", native = true }, kit.sleeps, 10, 1000000))
    local slept = 0
    for _, s in ipairs(prof:samples()) do
      local kind = s.stack[1].kind
      if kind == "kernel" or kind == "native" then slept = slept + s.weight end
    end
    -- A nap's timer starts before the thread leaves its CPU, and a busy host may run another machine then.
    assert.is_true(slept >= 10 * 1000000 * 0.5, profiling.text(prof))
    prof = assert(perf.profile({ event = "context-switches", native = false }, kit.sleeps, 1, 1000))
    for _, s in ipairs(prof:samples()) do
      local kind = s.stack[1].kind
      assert.is_true(kind ~= "kernel" and kind ~= "native", profiling.text(prof))
    end
  end)
end)
