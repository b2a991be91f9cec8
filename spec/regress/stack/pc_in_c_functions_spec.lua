-- The story: while a C function ran that Lua 5.4's interpreter loop had called, the unwinder took the first word on the C stack
-- that looked like a pc. In a build with gcc -O3, 4.6 % of the machine instructions had the line of an earlier one; a few builds
-- of clang could not be unwound at all. Now the C functions' unwind tables tell where they have saved the loop's registers.
local kit = require "testkit"
local stepped = require "spec.support.stepped"

local compile = rawget(_G, "loadstring") or load
local FIRST, LAST = 2, 9
local text = [[
return function(a, b, t, ...)
  local c = { a, b }
  a = function() return c end
  b = 3.25
  c = 'of a number: ' .. b
  t.x = c
  t.y = { c, ... }
  b = b % 7 + #c
  t = { b, c, a, b, c }
end]]

it("the line is right in C functions that the interpreter's loop has called", function()
  requires { puc = true, registers = true, nosan = true }
  assert(kit.unwind.learn())
  local fn = assert(compile(text, "=calls"))()
  fn(1, 2, {}, 3)
  local why = stepped.check(fn, FIRST, LAST, 0.04, 1, 2, {}, 3)
  if why then pending(why) end
end)
