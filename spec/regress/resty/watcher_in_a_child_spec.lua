-- The story: the child of a fork took the watcher's mutex, which the watcher's thread may have held at the fork. Then the child
-- waited for ever. Otherwise it reported the parent's blocked turns once more.
local opened = require "spec.support.accounting"
local util = require "spec.support.util"

describe("the child of a fork", function()
  local accounting
  before_each(function()
    requires { nosan = true } -- a thread may hold the lock of the sanitizer's malloc at the fork; the child would wait for it
    accounting = select(2, opened.open())
  end)
  after_each(opened.close)

  local function turn() opened.turn(3e6) end

  -- A blocked turn: the watcher's thread may run too late for some of them.
  local function blocked()
    local found
    util.eventually(function()
      turn()
      found = accounting.blocked()
      return found
    end)
    return found
  end

  it("reports no blocked turn of its parent, and can have a watcher of its own", function()
    assert.is_true(accounting.watch(1e6, false))
    assert.is_table(blocked())
    for _ = 1, 10 do turn() end
    local found = util.in_child(function()
      local inherited = accounting.blocked()
      accounting.name_route(0, "/route")
      opened.open() -- the parent's is closed when the child's is open
      assert.is_true(accounting.watch(1e6, false))
      local own, none = blocked(), accounting.blocked()
      opened.close()
      return ("%s %s %s"):format(type(inherited), type(own), type(none))
    end)
    assert.equal("nil table nil", found)
    assert.is_table(blocked())
  end)
end)
