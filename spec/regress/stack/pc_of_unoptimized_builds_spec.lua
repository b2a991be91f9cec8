-- The story: in a Lua 5.4 that was built with -O0, the pc is in a word of the C stack, and the unwinder took an older one below
-- it: two thirds of a loop's time were shown on its last line.
local kit = require "testkit"

local compile = rawget(_G, "loadstring") or load
local FIRST, LAST = 3, 12
local text = [[
local up = 1
return function(a, b, t)
  local c = a * 3 + b
  c = c / 7
  t.x = c
  b = {}
  a = b == c
  t[1] = { c, c }
  c = c ^ 1.5
  up = c
  b = function() return a end
  c = #t + up
end]]

it("the line never decreases from one machine instruction to the next in a function without jumps", function()
  requires { puc = true, registers = true }
  assert(kit.unwind.learn())
  local fn = assert(compile(text, "=steps"))()
  collectgarbage "stop" -- a finalizer of the program is another function
  local runs, why = kit.unwind.steps(fn, 1, 2, {})
  collectgarbage "restart"
  if not runs then return pending(why) end
  local last, wrong, all, lines = 0, 0, 0, {}
  for _, run in ipairs(runs) do
    if run.linedefined == FIRST - 1 then
      last = math.max(last, run.line)
      all = all + run.n
      wrong = wrong + (run.line < last and run.n or 0)
      lines[run.line] = true
    end
  end
  for line = FIRST, LAST do assert.is_true(lines[line], line) end
  assert.is_true(wrong <= 0.05 * all, ("%d of %d"):format(wrong, all))
end)
