-- The story: a call in a `while` loop was shown on the line of the jump back, or on one before the loop, as if that were exact.
-- In some rounds the compiler knows the conditions of the loop and of an `if` at its end, which leads back to the loop's start.
-- Then whole rounds lay between a snapshot before the start and the next one, at the start. Only the way up to the start counted.
-- Later: a round before the next snapshot, in a loop that the code had entered, was noticed only if it had more calls of the FFI
-- than the way to that has calls of any kind. Now it is noticed by the variables that have another known value there.
local page_fault = require "spec.support.page_fault"
local random_program = require "spec.support.random_program"

local ROUNDS = 60

-- The loop is in a side trace, so the compiler unrolls it. There it knows that `a == 3` and `b ~= 3`. Each use of `t` may exit.
local HEAD = [[
local t, tostring, floor = { 2, 3, 1 }, tostring, math.floor
return function(n) local s, x, C, at, size, r = 1, 1, C, at, size
for i = 1, n do
local a, b = i % 8, i % 2 + 5
if i > 16 and a == 3 and b ~= 3 then
x = t[x]
local j = 0 while j < 3 do
j = j + 1
]]
local LOOPS = {
  ["from the end of a round"] = "x = t[x]\nFAULT\nif a == 3 then\na = b FAULT\nend",
  ["that begins with an `if`"] = "if j ~= 1 then x = t[x] end\nFAULT\nif a == 3 then\na = b\nend",
  ["that the code enters"] = "x = t[x]\nFAULT\nif b == 3 then FAULT end",
  ["that the code enters, with a condition that is known once"] =
    "while s < 100 do\nFAULT\ns = s + 17 end\ns = 1",
  ["that the code enters, with more other calls"] = "r = tostring(s) r = tostring(r) r = tostring(i) r = floor(s) FAULT\n" ..
    "if j ~= 1 then\nx = t[x]\nend\nif b == 3 then\ns = s + 1\nend\nif b == 3 then\ns = s + 1\nend\nFAULT",
}

describe("a call in rounds whose conditions the compiler knows is on its line, or in a range with it:", function()
  before_each(function()
    page_fault.map()
    requires { nostress = true }
  end)
  after_each(page_fault.restore)

  for what, body in pairs(LOOPS) do
    for _, settings in ipairs { { "hotloop=2", "hotexit=1" }, { "hotloop=2", "hotexit=1", "-sink", "-loop", "-fuse" } } do
      it(("in a loop %s, %s"):format(what, table.concat(settings, " ")), function()
        local text = HEAD .. body .. "\nend\nend\nend return s end"
        local truth = random_program.truth(text, ROUNDS, ROUNDS, 8 * ROUNDS)
        local line, range, _, wrong = random_program.profile(text, truth, ROUNDS, ROUNDS, settings)
        assert.equal(0, #wrong, wrong[1])
        assert.equal(#truth, line + range)
      end)
    end
  end
end)
