-- The story: where a function had just ended, its first result was over it on Lua's stack, half written. Where an error was
-- caught, its message was over the function that pcall had called. The unwinder ended the stack there: 1.6 % of a loop's samples.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"

it("the stack is whole where a call ends, by a result or by an error, after each machine instruction", function()
  requires { puc = true, registers = true }
  assert(kit.unwind.learn())
  local function same(...) return ... end
  local function fails() error "x" end
  local function calls()
    local sum = 0
    for i = 1, 3 do
      sum = sum + same(i, i, i) + select("#", same(i, i))
      pcall(fails)
    end
    return sum
  end
  calls()
  collectgarbage "stop" -- a finalizer of the program is another function
  local runs, why = kit.unwind.steps(calls)
  collectgarbage "restart"
  if not runs then return pending(why) end
  local all, cut = 0, 0
  for _, run in ipairs(runs) do
    all = all + run.n
    cut = cut + (run.failed ~= 0 and run.n or 0)
  end
  assert.is_true(all > 1000, all)
  assert.equal(0, cut)
end)
