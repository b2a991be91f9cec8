-- The watcher of turns (csrc/core/resty/watch.h): turns that take too long are caught, with their stacks.
local clock = require "perf.base.clock"
local kit = require "testkit"
local opened = require "spec.support.accounting"
local util = require "spec.support.util"

describe("the watcher of turns", function()
  local ffi, accounting
  before_each(function() ffi, accounting = opened.open() end)
  after_each(opened.close)

  local CONTENT = 4

  local function spin(ns)
    local to, n = clock.now() + ns, 0
    while clock.now() < to do n = n + 1 end
    return n
  end

  local function turn(ns)
    local r = ffi.cast("void *", 4096)
    assert.equal(0, accounting.admit(r, 0, 0, 0))
    assert.equal(1, accounting.enter(r, CONTENT))
    spin(ns)
    accounting.exit(r, 0)
    assert.equal(0, accounting.finish(r))
  end

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
