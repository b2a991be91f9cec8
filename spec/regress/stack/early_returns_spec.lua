-- The story: in compiled code that leaves a function, a call was shown on a wrong line, or in a range without its line. There
-- were two causes.
-- * The search for the lines up to the function's end stopped at the first `return`, as that of an `if`. But the compiler knows
--   some conditions, and makes no exit for them, so the code may have gone past that `return`.
-- * The search did not get out of a `while` loop without a `return`. (The spec of random programs has this case.)
--
-- Besides, a call after a `goto` was shown on a line before the `goto`. The code had jumped over the instruction at which the
-- search ended, and had come back to it by another `goto`. Later this was still so if it had come back by several, or if the
-- `goto` were in a numeric loop that the code had gone round before.
local page_fault = require "spec.support.page_fault"
local random_program = require "spec.support.random_program"

local ROUNDS = 60

local PROGRAMS = {
  ["after an `if` with a `return`"] = [[
local function g1(s) s = s + 1 if s % 7 == 1 then s = s + 2 end return s end
local function g2(s, early)
for j = 1, 30 do s = s + 1 end
C.page_fault_drop(at, size, 4)
if s % 3 == 1 then s = s + 2 end
if early then
C.page_fault_drop(at, size, 4)
return 0 end
FAULT
return g1(s) end
return function(n) local s = 1
for i = 1, n do
s = g2(s) % 100
end return s end]],
  ["between several `goto`"] = [[
return function(n) local s = 1
for i = 1, n do
goto a
::d::
FAULT
goto e
::f::
s = s * 3 % 101
goto g
::b::
s = s + 1
goto c
::e::
if s % 3 == 1 then s = s + 2 end
goto f
::c::
s = s + 1
goto d
::a::
if s % 4 == 0 then s = s + 1 end
goto b
::g::
s = s % 1000
end return s end]],
  ["between `goto` in a loop"] = [[
local t = { 2, 3, 1 }
return function(n) local s, C, at, size = 1, C, at, size
for i = 1, n do
if i > 5 then
for j = 1, 2 do
goto b
::a::
FAULT
s = t[s]
goto c
::b::
FAULT
goto a
::c::
FAULT
s = t[s]
end
end
end return s end]],
  ["after a `goto`"] = [[
return function(n) local s = 1
for i = 1, n do
s = s + 1
if s % 3 == 1 then s = s + 2 end
goto b
::a::
if s % 5 == 1 then s = s + 2 end
goto c
::b::
FAULT
goto a
::c::
s = s % 1000
end return s end]],
}

describe("a call in code that another way passes over is on its line, or in a range with it:", function()
  before_each(function()
    page_fault.map()
    requires { nostress = true }
  end)
  after_each(page_fault.restore)

  for what, text in pairs(PROGRAMS) do
    for _, settings in ipairs { { "hotloop=1", "hotexit=1" }, { "hotloop=2", "hotexit=1", "-sink", "-loop", "-fuse" } } do
      it(("%s, %s"):format(what, table.concat(settings, " ")), function()
        local truth = random_program.truth(text, ROUNDS, ROUNDS, 6 * ROUNDS)
        local line, range, _, wrong = random_program.profile(text, truth, ROUNDS, ROUNDS, settings)
        assert.equal(0, #wrong, wrong[1])
        assert.equal(#truth, line + range)
      end)
    end
  end
end)
