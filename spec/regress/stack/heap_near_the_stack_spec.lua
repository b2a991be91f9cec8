-- The story: a program that ran Lua in a thread of its own had profiles at safe points only. The heap lies near the C stack of
-- such a thread. The unwinder for LuaJIT left out addresses within 8 MB of that stack when it looked for the thread that had
-- resumed a coroutine, and the learner took pointers into the heap for frames on the C stack.
local util = require "spec.support.util"

describe("a coroutine on the C stack of another thread", function()
  for _, strings in ipairs { 0, 20, 80 } do
    it("is shown with its resumer, beside a heap of " .. strings .. " long strings", function()
      requires { registers = true }
      util.with_tmpname(function(path)
        util.write_file(path, ([[
          local kit = require "testkit"
          local function inside() return (kit.unwind.here()) end
          local function outside()
            local stack = coroutine.wrap(inside)()
            return stack
          end
          local keep = {}
          for i = 1, %d do keep[i] = ("x"):rep(100000 + i) end
          local ok, stack = kit.elsewhere(function()
            assert(kit.unwind.learn())
            return outside()
          end)
          assert(ok, stack)
          assert(not stack.failed, stack.failed)
          for _, place in ipairs(stack.places) do
            if place.linedefined == 3 then return io.write "whole" end
          end
        ]]):format(strings))
        assert.same({ "whole", 0 }, { util.shell(("%s %s"):format(util.lua(), path)) })
      end)
    end)
  end
end)
