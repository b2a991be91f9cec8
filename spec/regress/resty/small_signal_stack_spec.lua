-- The story: the handler that takes the stack of a blocked turn ran on the alternate stack of the worker's thread, however small.
-- Unwinding takes up to 16 KB, so the worker would have ended by SIGSEGV.
local kit = require "testkit"
local opened = require "spec.support.accounting"
local util = require "spec.support.util"

describe("the watcher of a thread with a small alternate stack", function()
  before_each(function()
    requires { nosan = true } -- a thread may hold the lock of the sanitizer's malloc at the fork; the child would wait for it
    opened.open()
  end)
  after_each(opened.close)

  -- Makes turns that are longer than the limit, until the watcher has the stack of one.
  local function catch(accounting)
    return util.eventually(function()
      opened.turn(3e6)
      local found = accounting.blocked()
      return found and not found.call and found.stack[1] ~= nil
    end)
  end

  for title, first in pairs {
    ["uses a larger one, and restores the program's"] = true,
    ["uses a larger one after the program has set its own"] = false,
  } do
    it(title, function()
      local size = util.small_stack()
      local found = util.in_child(function()
        local _, accounting = opened.open() -- the parent's is closed when the child's is open
        if first then kit.alternate_stack(size) end
        assert.is_true(accounting.watch(1e6, false))
        if not first then kit.alternate_stack(size) end
        local caught = catch(accounting)
        opened.close()
        return ("%s %d"):format(caught, kit.alternate_stack(false))
      end)
      assert.equal(("true %d"):format(size), found)
    end)
  end
end)
