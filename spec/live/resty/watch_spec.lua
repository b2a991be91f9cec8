-- The watcher of turns (csrc/core/resty/watch.h): turns that take too long are caught, with their stacks.
local kit = require "testkit"
local opened = require "spec.support.accounting"
local util = require "spec.support.util"

describe("the watcher of turns", function()
  local ffi, accounting
  before_each(function() ffi, accounting = opened.open() end)
  after_each(opened.close)

  local CONTENT = 4

  local spin, turn = opened.spin, opened.turn

  it("catches those that are longer than the limit, with their counts, and no others", function()
    assert.is_true(accounting.watch(1e11, false))
    turn(1e6)
    assert.is_nil(accounting.blocked())
    accounting.close()
    opened.open()
    assert.is_true(accounting.watch(5e6, false))
    turn(20e6)
    local found, counts = accounting.blocked()
    assert.same({ 0, CONTENT, "" }, { found.route, found.phase, found.uri })
    assert.is_true(counts.wall_ns >= 20e6)
    assert.is_nil(accounting.blocked())
  end)

  it("times those of requests that are not counted, and reads no counters for them", function()
    local a, b, HEADER = ffi.cast("void *", 4096), ffi.cast("void *", 8192), accounting.number.header_filter
    accounting.admit(a, -1, 0, 0)
    assert.equal(0, accounting.enter(a, CONTENT)) -- nobody watches
    assert.is_true(accounting.watch(5e6, false))
    accounting.admit(b, 0, 0, 0)
    -- The watcher's thread may run too late for some of the turns. Shorter ones were interrupted on a busy machine.
    local function take(ns, blocks)
      local found, counts
      util.eventually(function()
        blocks()
        repeat
          found, counts = accounting.blocked()
        until not found or (found.wall_ns or 0) >= ns
        return found
      end)
      assert.same({ CONTENT, "" }, { found.phase, found.uri })
      assert.is_nil(found.route)
      assert.is_nil(counts)
      assert.is_true(found.wall_ns >= ns)
    end
    take(20e6, function()
      assert.equal(1, accounting.enter(a, CONTENT))
      assert.is_nil(accounting.request(a))
      spin(20e6)
      assert.equal(CONTENT + accounting.WATCHED, accounting.leave(a))
      assert.equal(0, accounting.leave(a))
    end)
    accounting.enter(b, CONTENT)
    accounting.leave(b)
    take(10e6, function()
      accounting.back(a, CONTENT + accounting.WATCHED, 0)
      assert.equal(CONTENT, accounting.turn(a))
      assert.equal(1 + CONTENT, accounting.enter(a, HEADER))
      assert.is_true(accounting.nested())
      accounting.exit(a, CONTENT)
      assert.is_false(accounting.nested())
      spin(10e6)
      accounting.exit(a, 0)
    end)
    accounting.enter(a, CONTENT) -- an error leaves it
    accounting.ended(a)
    assert.equal(0, accounting.turn(a))
    accounting.enter(a, accounting.number.log)
    assert.is_false(accounting.finish(a))
    assert.equal(0, accounting.turn(a))
    assert.equal(0, accounting.abandoned())
    accounting.finish(b)
    local whole, unattributed = accounting.balance()
    assert.is_true(unattributed.wall_ns >= 30e6)
    assert.equal(whole["page-faults:u"], unattributed["page-faults:u"] +
      tonumber(accounting.route_words(0, CONTENT)[3]))
  end)

  describe("sees the code between two turns", function()
    local beat, set, events
    before_each(function()
      pcall(ffi.cdef, "int epoll_create1(int flags); int epoll_wait(int set, void *events, int n, int ms); int close(int fd);")
      beat, events = ffi.new "uintptr_t[1]", ffi.new "char[64]"
      opened.close()
      opened.open(nil, { beat = beat })
      set = ffi.C.epoll_create1(0)
    end)
    after_each(function() if set then ffi.C.close(set) end end)

    it("that does not return to the event loop", function()
      assert.is_true(accounting.watch(1e6, false))
      local found, counts
      util.eventually(function()
        beat[0] = beat[0] + 1
        ffi.C.epoll_wait(set, events, 1, 5)
        spin(20e6)
        ffi.C.epoll_wait(set, events, 1, 5)
        found, counts = accounting.blocked()
        return found and not found.call -- this function's own pauses are blocked code too
      end)
      assert.equal(0, found.phase)
      assert.is_nil(found.route)
      assert.is_nil(counts)
      assert.is_true(found.wall_ns >= 1e6 and found.seen_ns >= 1e6)
    end)

    it("unless it waits for events there", function()
      assert.is_true(accounting.watch(1e6, false))
      for _ = 1, 10 do ffi.C.epoll_wait(set, events, 1, 20) end
      local found = accounting.blocked()
      while found do -- a busy machine may have kept this thread from running
        assert.not_equal("epoll_wait", found.call)
        found = accounting.blocked()
      end
    end)
  end)

  it("keeps the oldest ones if nobody takes them", function()
    assert.is_true(accounting.watch(1e6, false))
    for _ = 1, 40 do turn(1.5e6) end
    local n = 0
    while accounting.blocked() do n = n + 1 end
    assert.equal(16, n)
    turn(1.5e6)
    assert.is_table(accounting.blocked())
  end)

  it("takes names at any time, and ends with its accounting", function()
    local threads = kit.living_threads()
    for _ = 1, 20 do
      assert.is_true(accounting.watch(1e6, false))
      for n = 0, 40 do accounting.name_route(n, ("/a route "):rep(n)) end
      accounting.name_route(3, "/another")
      turn(2e6)
      accounting.close()
      opened.open()
    end
    assert.is_truthy(util.eventually(function() return kit.living_threads() == threads end))
  end)
end)
