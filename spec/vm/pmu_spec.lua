-- A PMU that counts, in an emulated Arm machine: the module's description of it, names of its events, and exact counts if the
-- machine's clock counts instructions.
local kit = require "testkit"
local perf = require "perf"
local core = require "perf.core"

local PMU = "armv8_pmuv3"
local SPIN = 5e6 -- ns; the emulated CPU has 1 GHz

local function counted(event, fn, ...)
  local ev = assert(perf.open(event))
  local e = ev:measure(fn, ...)
  ev:close()
  return e
end

describe("an Arm PMUv3", function()
  before_each(function() requires { vm = "arm64", pmu = true } end)

  it("is known by its kernel name and type", function()
    local found
    for _, p in ipairs(perf.pmus()) do if p.name == PMU then found = p end end
    assert.is_table(found)
    assert.equal(perf.pmu_type(PMU), found.type)
    local names = {}
    for _, row in ipairs(perf.list "^armv8_pmuv3/") do names[row.name] = row.kind end
    assert.is_string(names[PMU .. "/cpu_cycles/"])
  end)

  it("agrees with perf.features and perf.doctor", function()
    local f = perf.features { refresh = true }
    assert.is_true(f.pmu.present)
    assert.equal(7, f.pmu.counters) -- six, and the cycle counter
    local text = tostring(perf.doctor())
    assert.matches("hardware counters", text, 1, true)
    assert.matches("7 at once; count: cpu-cycles", text, 1, true)
  end)

  it("counts a thread's cycles: 1,000 a microsecond", function()
    local e = counted("cycles", kit.spin, SPIN)
    assert.is_true(e.value >= 0.9 * SPIN and e.value < 50 * SPIN, e.value)
    assert.equal(e.enabled_ns, e.running_ns)
    assert.equal(e.raw, e.value)
  end)

  it("counts user space and the kernel apart", function()
    local c = perf.measure("cycles,cycles:u,cycles:k", kit.syscalls, 2000)
    assert.is_true(c["cycles:u"] > 2000 and c["cycles:k"] > 2000)
    local sum = c["cycles:u"] + c["cycles:k"]
    assert.is_true(math.abs(sum / c[1].value - 1) < 0.05, sum / c[1].value)
  end)

  it("counts by generic, PMU's own, raw and numeric names alike", function()
    local kind = perf.pmu_type(PMU)
    local list = { "cycles:u", PMU .. "/cpu_cycles/u", "r11:u", PMU .. "/event=0x11/u", PMU .. "/config=0x11/u" }
    local g = assert(perf.group(list))
    local c = g:measure(kit.spin, SPIN)
    g:close()
    for i, name in ipairs(list) do
      assert.equal(name, c[i].label)
      -- The event on the cycle counter and those on others are read one after another.
      assert.is_true(math.abs(c[i].value / c[1].value - 1) < 0.02, name .. ": " .. c[i].value / c[1].value)
    end
    assert.equal(kind, perf.attr(PMU .. "/cpu_cycles/").type)
    assert.equal(0x11, perf.attr(PMU .. "/cpu_cycles/").config)
  end)

  it("measures hardware events without a list", function()
    local c = perf.measure(kit.spin, SPIN)
    assert.equal("hardware", c.source)
    assert.is_true(c.cycles >= 0.9 * SPIN)
    assert.is_number(c["task-clock"])
    assert.equal(0, c["page-faults"])
    local m = c:metrics()
    -- Events that this PMU does not have are not in the default list.
    assert.is_nil(c["branch-misses"])
    assert.is_nil(m["branch-miss-rate"])
    assert.matches("cycles", tostring(c))
  end)

  it("refuses events that it does not count, with the reason", function()
    local ev, message, code = perf.open("cache-misses")
    assert.is_nil(ev)
    assert.matches("^cache%-misses: perf_event_open: ", message)
    assert.matches("^E%u+$", code)
  end)

  it("counts zero for a raw code that it does not implement", function()
    local e = counted({ type = "raw", config = 0x3fe, exclude_kernel = true }, kit.spin, 1e5)
    assert.equal(0, e.value)
    assert.is_true(e.running_ns > 0)
  end)

  it("adds the counts of threads that inherit", function()
    local e = counted({ event = "cycles", inherit = true }, function()
      assert.equal(0, (kit.fork(function() kit.spin(SPIN) end)))
    end)
    assert.is_true(e.value >= 0.9 * SPIN)
  end)
end)

describe("instructions of an emulated CPU", function()
  before_each(function() requires { vm = "icount", pmu = true } end)

  it("are the same for the same work", function()
    local ev = assert(perf.open "instructions:u")
    -- For each number of calls, the least of several rounds: a reading makes a table, and the allocator does not always take the
    -- same path. Rounds end when the numbers agree; numbers that are wrong for any other reason never do.
    local least, rounds = { math.huge, math.huge, math.huge }, 0
    local function agree()
      local step = least[2] - least[1]
      return step == least[3] - least[2] and step > 0 and step % 1000 == 0
    end
    if rawget(_G, "jit") then jit.off() end
    collectgarbage "stop"
    ev:measure(kit.syscalls, 10)
    repeat
      for i = 1, 3 do least[i] = math.min(least[i], ev:measure(kit.syscalls, i * 1000).value) end
      rounds = rounds + 1
    until agree() or rounds == 100
    collectgarbage "restart"
    if rawget(_G, "jit") then jit.on() end
    ev:close()
    assert.is_true(agree(), table.concat(least, " "))
  end)

  it("count one cycle each", function()
    local c = perf.measure("{instructions:u,cycles:u}", kit.syscalls, 3000)
    assert.is_true(math.abs(c[1].value / c[2].value - 1) < 0.01, c[1].value / c[2].value)
    local m = c:metrics()
    assert.is_true(math.abs(m.ipc - 1) < 0.01)
  end)

  it("are in the default list", function()
    local c = perf.measure(kit.syscalls, 100)
    assert.equal("hardware", c.source)
    assert.is_true(c.instructions > 100 and c.cycles > 100)
    assert.is_number(c:metrics().ipc)
    assert.equal(core.hex(c.instructions), core.hex(c[2].value))
  end)
end)
