-- Sampling by a hardware counter's overflow, in an emulated Arm machine.
local kit = require "testkit"
local perf = require "perf"

local function open(attr, opts)
  local ev = assert(perf.open(attr, opts))
  ev:map { pages = 64 }
  return ev
end

local function samples(ev)
  local list, other = {}, {}
  while ev:has_record() do
    local rec = assert(ev:read_record(0))
    if rec.type == "sample" then list[#list + 1] = rec:totable() else other[rec.type] = (other[rec.type] or 0) + 1 end
  end
  return list, other
end

describe("samples of cycles", function()
  before_each(function() requires { vm = "arm64", pmu = true } end)

  it("occur once in each period, with the address", function()
    requires { vm = "icount" }
    for _, period in ipairs { 1000000, 100000 } do
      local ev = open { event = "cycles:u", sample_period = period, sample_type = { "ip", "tid", "time", "period", "read" } }
      ev:enable()
      kit.spin(2e7)
      ev:disable()
      local count = ev:read().value
      local list, other = samples(ev)
      local expected = math.floor(count / period)
      assert.is_nil(other.lost)
      -- The first and the last period may be incomplete.
      assert.is_true(math.abs(#list - expected) <= 2, ("%d of %d"):format(#list, expected))
      local last = 0
      for i, rec in ipairs(list) do
        assert.equal(period, rec.period)
        assert.equal(kit.gettid(), rec.tid)
        assert.equal(kit.getpid(), rec.pid)
        assert.is_true(rec.time > last)
        last = rec.time
        -- The counter at the sample has passed its period, but not a second one.
        assert.is_true(rec.counts[1].value >= i * period, i)
        assert.is_truthy(rec.ip)
      end
      ev:close()
    end
  end)

  it("occur at about the requested frequency", function()
    requires { vm = "icount" }
    local ev = open { event = "cycles:u", sample_freq = 1000, sample_type = { "ip", "period", "time" } }
    ev:enable()
    kit.spin(3e8)
    ev:disable()
    local list = samples(ev)
    -- The kernel finds the period within a few ticks.
    assert.is_true(#list >= 200 and #list <= 400, #list)
    local sum = 0
    for i = #list - 100, #list do sum = sum + list[i].period end
    assert.is_true(math.abs(sum / 101 / 1e6 - 1) < 0.25, sum / 101)
    ev:close()
  end)

  it("have the addresses of the interpreter and of its functions' callers", function()
    local ev = open { event = "cycles:u", sample_period = 500000, sample_type = { "ip", "callchain" } }
    ev:enable()
    kit.spin(2e7)
    ev:disable()
    local list = samples(ev)
    assert.is_true(#list > 5)
    for _, rec in ipairs(list) do assert.equal(rec.ip, rec.callchain[1]) end
    ev:close()
  end)

  it("stop after refresh(n) overflows", function()
    local ev = open { event = "cycles:u", sample_period = 100000, sample_type = { "ip" } }
    assert(ev:refresh(5))
    kit.spin(2e7)
    assert.is_true(ev:poll(0))
    assert.equal(5, #samples(ev))
    assert(ev:refresh(3))
    kit.spin(2e7)
    assert.equal(3, #samples(ev))
    ev:close()
  end)

  it("wake a poll for n samples", function()
    local ev = open { event = "cycles:u", sample_period = 100000, wakeup_events = 4, sample_type = { "ip" } }
    assert.is_falsy(ev:poll(0))
    ev:enable()
    kit.spin(1e7)
    ev:disable()
    assert.is_true(ev:poll(0))
    assert.is_true(#samples(ev) >= 4)
    ev:close()
  end)

  it("may change their period while they run", function()
    requires { vm = "icount" }
    local ev = open { event = "cycles:u", sample_period = 1000000, sample_type = { "period" } }
    ev:enable()
    kit.spin(1e7)
    local before = #samples(ev)
    assert(ev:set_period(100000))
    kit.spin(1e7)
    ev:disable()
    local list = samples(ev)
    assert.is_true(before >= 8 and before <= 16, before)
    assert.is_true(#list >= 80, #list)
    assert.equal(100000, list[#list].period)
    ev:close()
  end)

  it("have registers and a stack of this machine", function()
    local ev = open { event = "cycles:u", sample_period = 500000, sample_type = { "ip", "regs_user", "stack_user", "regs_intr" },
      sample_regs_user = 2 ^ 31 + 2 ^ 32, sample_regs_intr = 1, sample_stack_user = 512 } -- sp, pc; x0
    ev:enable()
    kit.spin(1e7)
    ev:disable()
    local list = samples(ev)
    assert.is_true(#list > 3)
    for _, rec in ipairs(list) do
      assert.equal(rec.ip, rec.user_regs.pc)
      assert.is_truthy(rec.user_regs.sp)
      assert.is_truthy(rec.intr_regs.x0)
      assert.equal(512, #rec.user_stack)
    end
    ev:close()
  end)

  it("signal a process that asked for SIGTRAP at once", function()
    -- No code handles it: the first overflow ends the child.
    local status = kit.fork(function()
      local ev = assert(perf.open { event = "cycles:u", sample_period = 100000, sigtrap = true, remove_on_exec = true })
      ev:enable()
      kit.spin(1e8)
    end)
    assert.equal(-5, status)
  end)

  it("of a group carry the counts of all", function()
    local leader = assert(perf.open { event = "cycles:u", sample_period = 200000, sample_type = { "read" },
      read_format = { "group", "id", "total_time_enabled", "total_time_running" } })
    local member = assert(perf.open({ event = "cycles", disabled = false,
      read_format = { "group", "id", "total_time_enabled", "total_time_running" } }, { group = leader }))
    leader:map { pages = 16 }
    leader:enable()
    kit.spin(1e7)
    leader:disable()
    local list = samples(leader)
    assert.is_true(#list > 5)
    local last = 0
    for _, rec in ipairs(list) do
      assert.equal(2, #rec.counts)
      assert.equal(leader:id(), rec.counts[1].id)
      assert.equal(member:id(), rec.counts[2].id)
      assert.is_true(rec.counts[2].value >= rec.counts[1].value)
      assert.is_true(rec.counts[1].value > last)
      last = rec.counts[1].value
    end
    member:close()
    leader:close()
  end)
end)
