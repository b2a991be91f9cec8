-- The story: perf.route in a turn that blocked left it under the name that it had at its beginning. If a filter ran within a turn
-- that was only watched, the time before the filter was reported by nobody: that blocked turn had no end and no URI, so it was
-- counted for another route. When a route lost its place, the new route that got its number also got its blocked turns.
local opened = require "spec.support.accounting"
local util = require "spec.support.util"

describe("a turn that blocks", function()
  local ffi, accounting
  before_each(function() ffi, accounting = opened.open() end)
  after_each(opened.close)

  local CONTENT = 4

  -- The blocked turn of `turn`, a function. The watcher's thread may run too late for some of them. With `ns`, shorter turns are
  -- left out, which a busy machine has interrupted.
  local function blocked(turn, ns)
    local found
    util.eventually(function()
      turn(function() opened.spin(5e6) end)
      repeat
        found = accounting.blocked()
      until not found or not ns or (found.wall_ns or 0) >= ns
      return found
    end)
    return found
  end

  it("has the route that its request has at its end", function()
    assert.is_true(accounting.watch(1e6, false))
    local r, other = ffi.cast("void *", 4096), accounting.route()
    local found = blocked(function(spin)
      assert.equal(0, accounting.admit(r, 0, 0, 0))
      assert.equal(1, accounting.enter(r, CONTENT))
      assert.is_true(accounting.reroute(r, other))
      spin()
      accounting.exit(r, 0)
      assert.equal(other, accounting.finish(r))
    end)
    assert.equal(other, found.route)
  end)

  it("moves with its route to another one", function()
    assert.is_true(accounting.watch(1e6, false))
    local r, other, taken = ffi.cast("void *", 4096), accounting.route(), nil
    local found = blocked(function(spin)
      assert.equal(0, accounting.admit(r, other, 0, 0))
      assert.equal(1, accounting.enter(r, CONTENT))
      spin()
      accounting.exit(r, 0)
      taken = accounting.finish(r)
      accounting.merge(other, 0)
    end)
    assert.same({ other, 0 }, { taken, found.route })
  end)

  it("and is only watched ends when a filter begins within it", function()
    assert.is_true(accounting.watch(1e6, false))
    local r, HEADER = ffi.cast("void *", 4096), accounting.number.header_filter
    local found = blocked(function(spin)
      assert.equal(0, accounting.admit(r, -1, 0, 0))
      assert.equal(1, accounting.enter(r, CONTENT))
      spin()
      assert.equal(1 + CONTENT, accounting.enter(r, HEADER))
      accounting.exit(r, CONTENT)
      accounting.exit(r, 0)
      assert.is_false(accounting.finish(r))
    end, 5e6)
    assert.is_table(found)
  end)
end)
