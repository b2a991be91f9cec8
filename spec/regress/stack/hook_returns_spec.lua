-- The story: where a hook or a finalizer of Lua returned, the pc of the interrupted function was read from the hook's own frame
-- on the C stack, where none is saved: 1 % of the samples of a loop with a hook had a function without a line. And a finalizer
-- that returned to the collector had no stack at one machine instruction, after which a register has the negative of the frame's
-- base.
local stepped = require "spec.support.stepped"

local TEXT = [[
  local function hook() end
  local function finalizer() return 1 end
  local function calls()
    local sum = 0
    debug.sethook(hook, "crl", 3)
    for i = 1, 3 do
      getmetatable(newproxy(true)).__gc = finalizer
      sum = sum + #tostring(i)
    end
    debug.sethook()
    collectgarbage()
    return sum
  end
]]

it("functions with hooks and finalizers have their lines after each machine instruction", function()
  requires { lua = "luajit", registers = true }
  local cut, without_line = stepped.run(TEXT)
  if not cut then return pending(without_line) end
  assert.equal(0, without_line)
  assert.equal(0, cut)
end)
