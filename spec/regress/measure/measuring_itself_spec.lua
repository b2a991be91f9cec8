-- The story: perf.measure("syscalls:sys_enter_read", function() end), README's own example, gave 1: the read(2) that ends the
-- measurement. The same error was in raw_syscalls, event:measure, group:measure and a job of a pool. A measurement within another
-- one added its reads to the outer one's count, and a span with one child showed 3 to 4 although the program had read nothing.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local perf = require "perf"
local tracer = require("spec.support.spans").tracer
local util = require "spec.support.util"

local READ, READ_EXIT = "syscalls:sys_enter_read", "syscalls:sys_exit_read"
local CALL, CALL_EXIT = "raw_syscalls:sys_enter", "raw_syscalls:sys_exit"
local IOCTL, IOCTL_EXIT = "syscalls:sys_enter_ioctl", "syscalls:sys_exit_ioctl"
local ALL = { READ, READ_EXIT, CALL, CALL_EXIT, IOCTL, IOCTL_EXIT }
local reads, others = kit.reads, kit.syscalls

local function values(c)
  local t = {}
  for i, e in ipairs(c) do t[i] = e.value end
  return t
end

-- The expected counts of ALL for this many reads and other calls of the program.
local function all_of(r, o) return { r, r, r + o, r + o, 0, 0 } end

local function nothing() end

describe("a measurement of system calls", function()
  local compiles

  -- The compiler and a growing heap make system calls themselves: the compiler is off, and the heap has grown after a first run
  -- of the function.
  setup(function()
    compiles = type(jit) == "table" and jit.status()
    if compiles then
      jit.off()
      jit.flush() -- hot exits of compiled code would be compiled also while the compiler is off
    end
  end)
  teardown(function() if compiles then jit.on() end end)
  before_each(function() requires { tracefs = true, perf_open = true, nosan = true, nostress = true } end)
  after_each(function() perf.release() end)

  -- Calls fn, at most five times, until it succeeds: during its first calls the heap may still grow. The mmap and brk of a
  -- growing heap are system calls of the program, so they are counted; no interpreter lets a program forbid them or report their
  -- number.
  local function settled(fn)
    local ok, why
    pcall(fn)
    for _ = 1, 5 do
      collectgarbage()
      collectgarbage "stop"
      pcall(fn)
      ok, why = pcall(fn)
      collectgarbage "restart"
      if ok then break end
    end
    assert(ok, why)
  end

  it("is 0 for an empty function, and N for N calls", function()
    for _, event in ipairs(ALL) do
      for _ = 1, 3 do assert.equal(0, perf.measure(event, nothing)[1].value, event) end
    end
    assert.same(all_of(0, 0), values(perf.measure(ALL, nothing)))
    assert.same(all_of(5, 0), values(perf.measure(ALL, reads, 5)))
    assert.same(all_of(0, 7), values(perf.measure(ALL, others, 7)))
    assert.equal(0, perf.measure({ "task-clock", READ }, nothing)[READ])
    settled(function()
      local m = perf.start(ALL)
      reads(2)
      assert.same(all_of(2, 0), values(m:stop()))
    end)
    assert.equal(9, perf.measure({ type = 2, config = perf.open(READ):attr().config }, reads, 9)[1].value)
  end)

  it("leaves out the reads of nested measurements", function()
    settled(function()
      local inner, deepest
      local outer = perf.measure(ALL, function()
        reads(2)
        inner = perf.measure({ READ, CALL }, function()
          reads(3)
          deepest = perf.measure(ALL, reads, 1)
        end)
        perf.measure("task-clock,page-faults", others, 4)
      end)
      assert.same(all_of(6, 4), values(outer))
      assert.same({ 4, 4 }, values(inner))
      assert.same(all_of(1, 0), values(deepest))
    end)
  end)

  it("leaves out the opening of a list within it", function()
    for _, event in ipairs { READ, READ_EXIT, IOCTL, IOCTL_EXIT } do
      perf.release()
      assert.equal(2, perf.measure(event, function() perf.measure("cpu-clock,syscalls:sys_enter_write", reads, 2) end)[1].value
        + (event:find "ioctl" and 2 or 0), event)
      assert.equal(0, perf.measure(event, function() pcall(perf.measure, "no-such-event", nothing) end)[1].value, event)
    end
  end)

  it("is exact in recursion", function()
    local found = {}
    local function down(n)
      if n > 0 then found[n] = values(perf.measure({ READ, READ_EXIT, IOCTL }, function() reads(1) down(n - 1) end)) end
    end
    down(8) -- not in raw_syscalls, which would show a heap that grows
    for n = 1, 8 do assert.same({ n, n, 0 }, found[n]) end
  end)

  it("is exact in coroutines that take turns", function()
    local counts = {}
    local function worker(i)
      return coroutine.wrap(function()
        counts[i] = perf.measure(ALL, function()
          reads(1)
          coroutine.yield()
          reads(10)
        end)
      end)
    end
    settled(function()
      local a, b, c = worker(1), worker(2), worker(3)
      a() b() c()
      a() c() b()
      assert.same(all_of(1 + 2 + 10, 0), values(counts[1]))
      assert.same(all_of(1 + 1 + 10 + 10 + 10, 0), values(counts[2]))
      assert.same(all_of(1 + 10 + 10, 0), values(counts[3]))
    end)
  end)

  it("is exact for a list of several kernel groups", function()
    local list = {}
    for i = 1, 200 do list[i] = ALL[i % #ALL + 1] end
    local expected = all_of(2, 1)
    settled(function()
      local c = perf.measure(list, function()
        reads(2)
        perf.measure(ALL, others, 1)
      end)
      for i = 1, 200 do assert.equal(expected[i % #ALL + 1], c[i].value, i) end
    end)
  end)

  it("is exact by event:measure and group:measure, while other events measure too", function()
    local group = assert(perf.group(ALL))
    for i, event in ipairs(ALL) do
      local plain = assert(perf.open(event))
      local own_format = assert(perf.open { event = event, read_format = { "lost" } })
      for _, ev in ipairs { plain, own_format } do
        local function value(fn, ...) return (ev:measure(fn, ...)).value end
        local function both(fn, ...) return { value(fn, ...), group:measure(fn, ...)[i].value } end
        local r, o = all_of(3, 0)[i], all_of(0, 3)[i]
        settled(function()
          assert.same({ 0, 0 }, both(nothing))
          assert.same({ r, r }, both(reads, 3))
          assert.same({ o, o }, both(others, 3))
          assert.same({ r, r }, both(function() perf.measure(ALL, reads, 3) end))
          assert.same({ r, r }, both(function() ev:measure(function() group:measure(reads, 3) end) end))
        end)
      end
      plain:close()
      own_format:close()
    end
    group:close()
  end)

  it("is exact if its group is disabled for a part of it", function()
    local group = assert(perf.group { READ, "task-clock", READ_EXIT })
    local c = group:measure(function()
      reads(1)
      group:disable()
      perf.measure(READ, reads, 5)
      group:enable()
      perf.measure(READ, reads, 2)
    end)
    assert.equal(3, c[1].value)
    assert.equal(3, c[3].value)
    group:close()
  end)

  it("counts the reads that the function itself makes by this library", function()
    local ev = assert(perf.open "task-clock")
    assert.equal(2, perf.measure(READ, function() ev:read() ev:read() end)[1].value)
    ev:close()
    ev = assert(perf.open(READ))
    ev:enable()
    reads(3)
    assert.equal(4, ev:read().value)
    ev:close()
  end)

  -- The one of these that a kernel heeds differs by tracepoint.
  it("is exact if user space or the kernel is excluded", function()
    for _, event in ipairs { READ .. ":u", READ .. ":k", READ .. ":uk", READ_EXIT .. ":u", READ_EXIT .. ":k", CALL .. ":k" } do
      local ev = assert(perf.open(event))
      ev:enable()
      reads(4)
      ev:disable()
      local n = ev:read().value
      n = n >= 4 and 4 or 0
      ev:close()
      assert.equal(0, perf.measure(event, nothing)[1].value, event)
      assert.equal(0, perf.measure(event, nothing)[1].value, event)
      assert.equal(n, perf.measure(event, reads, 4)[1].value, event)
      assert.equal(n, perf.measure(event, perf.measure, READ, reads, 4)[1].value, event)
      assert.equal(4, perf.measure(READ, perf.measure, event, reads, 4)[1].value, event)
    end
  end)

  -- a filter, and the calls that it accepts of 3 reads of 7 bytes and of 3 other calls
  for _, row in ipairs {
    { READ, "count == 7", 3, 0 }, { READ, "count > 7", 0, 0 }, { READ, "fd < 1000", 0, 0 },
    { READ_EXIT, "ret < 0", 3, 0 }, { READ_EXIT, "ret > 0", 0, 0 },
    { CALL, "id >= 0", 3, 3 }, { CALL_EXIT, "ret == 0", 0, 0 }, { CALL_EXIT, "ret < 0", 3, 0 }, { CALL_EXIT, "ret > 0", 0, 3 },
    { IOCTL, "cmd != 0", 0, 0 }, { IOCTL_EXIT, "ret == 0", 0, 0 },
  } do
    it(("is exact where a filter selects the calls: %s, %s"):format(row[1], row[2]), function()
      local event, filter, r, o = (table.unpack or unpack)(row)
      local ev, group = assert(perf.open(event)), assert(perf.group { "task-clock", CALL, event })
      local function each(measure)
        assert.equal(0, measure(nothing))
        assert.equal(r, measure(reads, 3, 7))
        assert.equal(o, measure(others, 3))
        assert.equal(r, measure(function() perf.measure(ALL, reads, 3, 7) end))
        assert.equal(r, measure(function() ev:measure(reads, 3, 7) end))
      end
      assert(ev:set_filter(filter))
      settled(function() each(function(...) return (ev:measure(...)).value end) end)
      ev:disable()
      assert(group[3]:set_filter(filter))
      settled(function()
        each(function(...)
          local c = group:measure(...)
          assert.equal(c[1].enabled_ns, c[1].running_ns)
          return c[3].value
        end)
      end)
      -- its neighbours do not see how it is disabled and enabled again
      settled(function()
        assert.same(all_of(3, 0), values(perf.measure(ALL, function() group:measure(reads, 3, 7) end)))
      end)
      ev:close()
      group:close()
    end)
  end

  it("is exact for two events with filters at once", function()
    local a, b = assert(perf.open(CALL)), assert(perf.open(CALL_EXIT))
    assert(a:set_filter "id >= 0")
    assert(b:set_filter "ret <= 0")
    local function nested(...)
      local inner
      local outer = a:measure(function(...) inner = b:measure(...).value end, ...)
      return { outer.value, inner }
    end
    settled(function()
      assert.same({ 0, 0 }, nested(nothing))
      assert.same({ 3, 3 }, nested(reads, 3))
      assert.same({ 3, 0 }, nested(others, 3))
    end)
    a:close()
    b:close()
  end)

  it("leaves out the reads that spans make: a leaf, a parent, pauses", function()
    local t, list = tracer { events = { READ, READ_EXIT } }
    t:span("leaf", nothing)
    t:span("three", reads, 3)
    t:span("parent", function()
      t:span("child", nothing)
      t:span("second", reads, 2)
      perf.measure(READ, reads, 1)
    end)
    local paused = t:start "paused"
    reads(1)
    paused:pause()
    reads(100)
    paused:resume()
    reads(1)
    paused:pause():resume()
    paused:finish()
    t:flush()
    local function check(name, total, own)
      for _, event in ipairs { READ, READ_EXIT } do
        assert.same({ total, own }, { list[name].counts[event], list[name].self_counts[event] }, name)
      end
    end
    check("leaf", 0, 0)
    check("three", 3, 3)
    check("parent", 3, 1)
    check("child", 0, 0)
    check("second", 2, 2)
    check("paused", 2, 2)
  end)

  it("is exact in a job of a pool", function()
    assert.equal("fine", util.in_child(function()
      local pool = assert(require "perf".pool { size = 1, events = "syscalls:sys_enter_read,syscalls:sys_exit_read" })
      pool:submit(function() require "testkit" end):get()
      for _, n in ipairs { 0, 5 } do
        local job = pool:submit(function(count) require "testkit".reads(count) end, n)
        job:get()
        local c = job:counts()
        if c[1].value ~= n or c[2].value ~= n then return ("%d reads: %s, %s"):format(n, c[1].value, c[2].value) end
      end
      pool:close()
      return "fine"
    end))
  end)

  it("is exact for requests that take turns", function()
    requires { lua = "luajit" }
    local ffi, accounting = require "ffi", require "resty.perf.accounting"
    local meter, names = require "perf.measure.open_list", require "perf.names"
    local CONTENT = 4
    local request = ffi.cast("void *", 4096)
    assert(accounting.open(assert(meter.open { assert(names.resolve(READ)), assert(names.resolve(READ_EXIT)) })))
    assert.equal(0, accounting.route())
    assert.equal(0, accounting.admit(request, 0, 0, 0))
    assert.equal(1, accounting.enter(request, CONTENT))
    reads(2)
    accounting.leave(request)
    reads(100)
    accounting.back(request, CONTENT, 0)
    perf.measure(READ, reads, 3)
    accounting.exit(request, 0)
    local c = accounting.request(request)
    assert.same({ 5, 5 }, { c[READ], c[READ_EXIT] })
    local whole, unattributed = accounting.balance()
    assert.same({ 105, 100 }, { whole[1].value, unattributed[READ] })
    accounting.close()
  end)
end)
