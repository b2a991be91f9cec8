-- The story: in a Lua 5.4 that was built with -O0, the pc is in a word of the C stack, and the unwinder took an older one below
-- it: two thirds of a loop's time were shown on its last line.
local kit = require "testkit"
local stepped = require "spec.support.stepped"

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
  local why = stepped.check(fn, FIRST, LAST, 0.05, 1, 2, {})
  if why then pending(why) end
end)
