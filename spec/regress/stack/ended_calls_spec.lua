-- The story: where a function had just ended, its first result was over it on Lua's stack, half written. Where an error was
-- caught, its message was over the function that pcall had called. The unwinder ended the stack there: 1.6 % of a loop's samples.
local kit = require "testkit"

local unwind = kit.unwind

it("the stack is whole where a call ends, by a result or by an error", function()
  requires { perf_open = true, registers = true, puc = true, nostress = true }
  assert(unwind.learn())
  local function same(...) return ... end
  local function fails() error "x" end
  local sum = 0
  unwind.start(50000)
  for i = 1, 5e5 do sum = sum + same(i, i, i) + select("#", same(i, i)) end
  for _ = 1, 25e4 do pcall(fails) end
  local all, cut = 0, 0
  for _, stack in ipairs(unwind.stop()) do
    all = all + stack.count
    if stack.failed then cut = cut + stack.count end
  end
  assert.is_true(sum > 0 and all > 100)
  assert.is_true(cut <= all / 4000, ("%d of %d"):format(cut, all))
end)
