-- The story: `for rec in ev:records{timeout = 0.2}` never ended while samples kept coming, since the timeout is the time without
-- a record, and nothing could limit the loop; `each` did not end either if records were written faster than it read them. And
-- nothing ended a read_record(math.huge): not another thread, not a signal, not even Ctrl-C.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local rings = require "spec.support.rings"
local util = require "spec.support.util"

local unpack = table.unpack or unpack -- luacheck: ignore

local attr = { event = "page-faults:u", sample_period = 1, sample_type = { "ip", "time" } }

-- Kinds of readers: objects with `records` and the other methods, mapped and enabled.
local readers = {}

function readers.event() return rings.open(attr, nil, { pages = 8 }) end

function readers.group()
  local g = rings.keep(assert(perf.group { attr, "task-clock" }))
  assert(g:map { pages = 8 })
  return g
end

function readers.set()
  local s = rings.keep(assert(perf.set(attr, { pid = 0, cpus = kit.cpus(), deferred_enable = true })))
  assert(s:map { pages = 8 })
  return s
end

-- A loop that causes at least one more record for each that it reads.
local function endless(ev, opts, fn)
  ev:enable()
  kit.touch_pages(2)
  local n = 0
  for rec in ev:records(opts) do
    n = n + (rec.type == "sample" and 1 or 0)
    kit.touch_pages(2)
    if fn then fn(n) end
  end
  ev:disable()
  return n
end

local function woken(rec, message, code)
  assert.is_nil(rec)
  assert.equal("the reader was woken", message)
  assert.equal("ECANCELED", code)
end

describe("a loop over records that never empties", function()
  before_each(function() requires { perf_open = "user" } end)
  after_each(rings.close_all)

  for _, kind in ipairs { "event", "group", "set" } do
    it("ends after max records, of an " .. kind, function()
      local ev = readers[kind]()
      assert.equal(7, endless(ev, { max = 7 }))
      assert.equal(3, endless(ev, { max = 3, timeout = math.huge }))
      assert.equal(0, endless(ev, { max = 0 }))
    end)

    it("ends after a duration, of an " .. kind, function()
      local ev = readers[kind]()
      local before = kit.clock_ns()
      endless(ev, { duration = 0.05 })
      assert.is_true(kit.clock_ns() - before >= 0.05e9)
      assert.equal(0, endless(ev, { duration = 0 }))
      -- Also while it waits: the event is disabled, and no record comes.
      for _ in ev:records { max = 100000 } do end -- luacheck: ignore
      before = kit.clock_ns()
      for _ in ev:records { timeout = math.huge, duration = 0.05 } do error "a record" end
      assert.is_true(kit.clock_ns() - before >= 0.05e9)
    end)

    it("ends when it is woken, of an " .. kind, function()
      local ev = readers[kind]()
      assert.equal(5, endless(ev, { timeout = math.huge }, function(n)
        if n == 5 then ev:wake() end
      end))
      -- Only one read: the next continues at the same place.
      assert.equal(3, endless(ev, { max = 3 }))
    end)

    it("refuses a wrong bound, of an " .. kind, function()
      local ev = readers[kind]()
      for _, wrong in ipairs { { max = "x" }, { max = -1 }, { max = 0 / 0 },
        { duration = "1" }, { duration = -1 }, { maximum = 1 } } do
        local name = next(wrong)
        rings.raises(name, function() ev:records(wrong) end)
      end
    end)
  end

  it("ends in each of these ways with each, too", function()
    local ev = readers.event()
    local function each(...)
      ev:enable()
      kit.touch_pages(2)
      local last = 0
      for i in ev:each(...) do
        last = i
        kit.touch_pages(2)
        if last == 50 then ev:wake() end
      end
      ev:disable()
      return last
    end
    assert.equal(7, each("sample", "ip", { max = 7 }))
    assert.equal(7, each("sample", { max = 7 }))
    assert.equal(50, each("sample", "ip", "time"))
    local before = kit.clock_ns()
    assert.is_true(each("sample", "ip", { duration = 0.05, max = 49 }) <= 49)
    assert.is_true(each("comm", "comm", { duration = 0.05 }) == 0)
    assert.is_true(kit.clock_ns() > before)
    for _, wrong in ipairs { { max = "x" }, { max = 1.5 }, { duration = -1 }, { maximum = 1 }, { timeout = 1 } } do
      rings.raises(next(wrong), function() ev:each("sample", "ip", wrong) end)
    end
  end)
end)

describe("a read without a timeout", function()
  before_each(function() requires { perf_open = "user" } end)
  after_each(rings.close_all)

  for _, kind in ipairs { "event", "group", "set" } do
    it("is ended by another thread, of an " .. kind, function()
      requires { nosan = true }
      -- In a child, since threads stay with the process that starts them.
      assert.equal("fine", util.in_child(function()
        local ev, pool = readers[kind](), assert(perf.pool { size = 1 })
        local job = assert(pool:submit(function(fd)
          require "perf.core".watch({}, 0.02)
          return require "perf".wake(fd)
        end, assert(ev:wake_fd())))
        woken(ev:read_record(math.huge))
        assert.is_true(job:get())
        pool:close()
        return "fine"
      end))
    end)

    it("is ended by perf.wake on the descriptor, of an " .. kind, function()
      local ev = readers[kind]()
      for _ = 1, 3 do assert.is_true(perf.wake(assert(ev:wake_fd()))) end -- they wake once
      woken(ev:poll(math.huge))
      assert.equal("ETIMEDOUT", (select(3, ev:read_record(0))))
    end)

    it("ends at once when it was woken beforehand, of an " .. kind, function()
      local ev = readers[kind]()
      ev:wake()
      woken(ev:read_record(math.huge))
      ev:wake()
      woken(ev:poll(math.huge))
      -- Also if there is a record, which stays.
      endless(ev, { max = 1 })
      ev:wake()
      woken(ev:read_record(math.huge))
      assert.equal("sample", ev:read_record(math.huge).type)
    end)

    it("lets a hook run, which may end it, of an " .. kind, function()
      -- fn runs in a hook while the read waits: the wait has begun by then.
      local function read(ev, fn)
        local since = kit.clock_ns()
        debug.sethook(function()
          if kit.clock_ns() - since < 20e6 then return end
          debug.sethook()
          fn()
        end, "c")
        local results = { pcall(ev.read_record, ev, math.huge) }
        debug.sethook()
        return unpack(results, 1, 4)
      end
      local ev = readers[kind]()
      woken(select(2, read(ev, function() ev:wake() end)))
      assert.same({ false, "interrupted!" }, { read(ev, function() error("interrupted!", 0) end) })
      local ok, _, _, code = read(ev, function() ev:close() end)
      assert.is_true(not ok or code == "EBADF")
    end)
  end

  it("is ended also when it reads bytes", function()
    local ev = readers.event()
    ev:wake()
    woken(ev:read_raw(math.huge))
  end)

  it("is ended by Ctrl-C", function()
    requires { nosan = true }
    util.with_directory(function(dir)
      local script, ready, said = dir .. "/script.lua", dir .. "/ready", dir .. "/said"
      util.write_file(script, ([[
        local perf = require "perf"
        local ev = assert(perf.open { event = "page-faults:u", sample_period = 1 })
        assert(ev:map { pages = 1 })
        local _, message = xpcall(function() -- from here on the signal may come, also before the read
          io.open(%q, "w"):close()
          ev:read_record(60)
        end, tostring)
        local f = io.open(%q, "w")
        f:write(tostring(message))
        f:close()]]):format(ready, said))
      local process = rings.keep(assert(core.spawn { util.lua(), script }))
      assert(process:start())
      assert(util.eventually(function()
        local f = io.open(ready)
        return f and f:close()
      end))
      process:kill(2)
      process:wait(true)
      assert.matches("interrupted!", util.read_file(said))
    end)
  end)

  it("closes the descriptor with the event", function()
    local before = #kit.fds()
    local ev = assert(perf.open(attr))
    assert(ev:map { pages = 1 })
    local fd = assert(ev:wake_fd())
    assert.equal(fd, ev:wake_fd())
    ev:close()
    assert.equal(before, #kit.fds())
    assert.is_nil((perf.wake(fd)))
    for _, wrong in ipairs { "x", -1, 1.5, 2 ^ 40 } do
      rings.raises("descriptor expected", function() perf.wake(wrong) end)
    end
  end)
end)
