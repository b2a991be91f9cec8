-- Tallies: every record is counted under its key or under other, or was lost; and memory is bounded.
local kit = require "testkit"
local perf = require "perf"
local rings = require "spec.support.rings"
local util = require "spec.support.util"

local faults, touch, raises = rings.faults, rings.touch, rings.raises
local FIELDS = { sample_type = { "ip", "tid", "addr", "period" } }

describe("a tally", function()
  setup(function() rings.compiler(false) end)
  teardown(function() rings.compiler(true) end)
  after_each(rings.close_all)

  local function tally(opts) return rings.keep(assert(perf.tally(opts))) end

  it("counts the records of each key", function()
    local ev = faults(FIELDS)
    local hits = tally { by = "tid" }
    touch(ev, 64)
    assert.equal(64, hits:take(ev))
    assert.equal(0, hits:take(ev))
    touch(ev, 36)
    assert.equal(36, hits:take(ev))
    assert.equal(100, hits:count(kit.gettid()))
    assert.equal(0, hits:count(1))
    assert.same({ { tid = kit.gettid(), count = 100, share = 1 } }, hits:top())
    assert.same({ total = 100, other = 0, keys = 1, without = 0, lost = 0 }, hits:totals())
    assert.matches("100 +100.0 %% +tid " .. kit.gettid() .. "\n100 in all, 100 of them in 1 keys", tostring(hits))
  end)

  it("counts by several fields, with the same addresses as Records", function()
    local ev, same = faults(FIELDS), faults(FIELDS)
    assert(ev:enable() and same:enable())
    kit.touch_pages(300) -- so that the table grows
    assert(ev:disable() and same:disable())
    local hits = tally { by = { "addr", "pid" } }
    assert.equal(300, hits:take(ev))
    local seen = {}
    for count, addr, pid in hits:each() do
      assert.same({ 1, kit.getpid() }, { count, pid })
      seen[perf.hex(addr)] = true
    end
    for rec in same:records() do
      assert.is_true(seen[perf.hex(rec.addr)])
      assert.equal(1, hits:count(rec.addr, rec.pid))
      seen[perf.hex(rec.addr)] = nil
    end
    assert.is_nil(next(seen))
    assert.equal(300, #hits:top(1000))
    assert.equal(10, #hits:top())
  end)

  it("reads records that wrap around the ring's end", function()
    local ev = faults(FIELDS, { pages = 1 })
    local hits = tally { by = "tid" }
    for _ = 1, 20 do
      touch(ev, 50)
      assert.equal(50, hits:take(ev))
    end
    assert.equal(1000, hits:count(kit.gettid()))
    assert.equal(0, ev:lost())
  end)

  it("tells apart the events that share a ring", function()
    local a = faults { sample_type = { "identifier", "tid" }, sample_id_all = true }
    local b = faults({ event = "minor-faults:u", sample_type = { "identifier", "tid", "addr" }, sample_id_all = true }, false)
    assert(b:set_output(a))
    local hits = tally { by = { "id", "tid" } }
    assert(a:enable() and b:enable())
    kit.touch_pages(30)
    assert(a:disable() and b:disable())
    assert.equal(60, hits:take(a))
    assert.same({ 30, 30 }, { hits:count(a:id(), kit.gettid()), hits:count(b:id(), kit.gettid()) })
  end)

  it("adds up a field instead of counting", function()
    local ev = faults(FIELDS)
    local hits = tally { by = "pid", weight = "tid" }
    touch(ev, 64)
    assert.equal(64, hits:take(ev))
    assert.equal(64 * kit.gettid(), hits:count(kit.getpid()))
    assert.equal(64 * kit.gettid(), hits:totals().total)
  end)

  it("holds no more keys than its max, and adds up the rest", function()
    local ev = faults(FIELDS)
    local hits = tally { by = "addr", max = 10 }
    touch(ev, 64)
    assert.equal(64, hits:take(ev))
    assert.same({ total = 64, other = 54, keys = 10, without = 0, lost = 0 }, hits:totals())
    local sum = 0
    for count in hits:each() do sum = sum + count end
    assert.equal(10, sum)
    hits:clear()
    assert.same({ total = 0, other = 0, keys = 0, without = 0, lost = 0 }, hits:totals())
    assert.equal("Tally: nothing was counted", tostring(hits))
  end)

  it("and the lost records add up to all records", function()
    local ev = faults({ sample_type = FIELDS.sample_type, read_format = { "lost" } }, { pages = 1 })
    local hits = tally { by = "ip" }
    touch(ev, 1000)
    hits:take(ev)
    assert.is_true(ev:lost() > 0)
    assert.equal(1000, hits:totals().total + ev:lost())
  end)

  it("reads fields without a fixed position, and knows absent ones", function()
    requires { perf_open = true }
    local ev = faults { sample_type = { "tid", "phys_addr", "callchain" } }
    local hits, none = tally { by = { "tid", "phys_addr" } }, tally { by = "cgroup" }
    touch(ev, 8)
    assert.equal(8, hits:take(ev))
    assert.equal(8, hits:totals().total)
    touch(ev, 8)
    assert.equal(0, none:take(ev))
    assert.same({ total = 0, other = 0, keys = 0, without = 8, lost = 0 }, none:totals())
  end)

  it("takes records of other types, and leaves damaged ones out", function()
    local ev = rings.open({ event = "dummy", task = true, sample_id_all = true, sample_type = { "tid" } }, nil, { pages = 8 })
    ev:enable()
    for _ = 1, 3 do kit.fork(function() end) end
    ev:disable()
    local forks = tally { by = "ppid", type = "fork" }
    assert.equal(3, forks:take(ev))
    assert.equal(3, forks:count(kit.getpid()))
  end)

  it("takes records from groups, sets and files", function()
    requires { perf_open = "user" }
    local group = rings.keep(assert(perf.group { { event = "page-faults:u", sample_period = 1, sample_type = { "tid" } },
      "task-clock" }))
    group[1]:map { pages = 8 }
    local set = rings.keep(assert(perf.set({ event = "page-faults:u", sample_period = 1, sample_type = { "tid" } },
      { pid = 0, deferred_enable = true })))
    assert(set:map { pages = 8 })
    local hits
    util.settled(function()
      hits = tally { by = "tid" }
      group:enable()
      kit.touch_pages(5)
      group:disable()
      assert.equal(5, hits:take(group))
      set:enable()
      kit.touch_pages(7)
      set:disable()
      assert.equal(7, hits:take(set))
    end)
    assert.equal(12, hits:count(kit.gettid()))

    local ev = faults(FIELDS)
    touch(ev, 20)
    util.with_tmpname(function(path)
      local writer = assert(perf.data.create(path, { events = { ev }, features = {} }))
      assert(writer:write(ev:drain()))
      writer:close()
      local file = assert(perf.data.open(path))
      assert.equal(20, hits:take(file))
      assert.equal(0, hits:take(file))
      file:close()
      raises("closed", function() hits:take(file) end)
    end)
    assert.equal(32, hits:totals().total)
  end)

  it("refuses unknown fields, types and options", function()
    raises("table of options expected, got string", perf.tally, "ip")
    raises("unknown option 'bye'", perf.tally, { bye = "ip" })
    raises("option 'by': one to four names", perf.tally, {})
    raises("option 'by': one to four names", perf.tally, { by = { "ip", "pid", "tid", "cpu", "addr" } })
    raises("(field 'comm' is not one number, but a string)", perf.tally, { by = "comm" })
    raises("(field 'exact_ip' is not one number, but a boolean)", perf.tally, { by = "exact_ip" })
    raises("(field 'callchain' is not one number; read it from a Record, as records() gives them)", perf.tally,
      { by = "ip", weight = "callchain" })
    raises("(field 'perod' is not one number; did you mean 'period'?)", perf.tally, { by = "ip", weight = "perod" })
    raises("(no record of the kernel has the type 'smaple')", perf.tally, { by = "ip", type = "smaple" })
    raises("option 'max'", perf.tally, { by = "ip", max = 0 })
    raises("option 'max': number expected", perf.tally, { by = "ip", max = "all" })
    local hits, ev = tally { by = "tid" }, faults(FIELDS, false)
    raises("not mapped", function() hits:take(ev) end)
    raises("Event, Group, Set or perf.data file expected, got number", function() hits:take(5) end)
    raises("number expected", function() hits:count {} end)
    hits:close()
    hits:close()
    raises("Tally is closed", function() hits:totals() end)
  end)
end)
