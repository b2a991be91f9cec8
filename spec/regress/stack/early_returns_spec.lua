-- The story: in compiled code that leaves a function, what the function calls was shown on another line, as if that were
-- exact, or in a range without its line. There were these causes.
-- * A `return` in an `if` ended the walk to the function's end. The compiler knows some conditions, and leaves no exit for
--   them, so the code may have gone past that `return`.
-- * The walk did not leave a `while` loop if the loop has no `return`. (A seed of the spec of random programs has this.)
--
-- And a call that follows a `goto` was shown on a line before the `goto`: the code has jumped over the instruction at which
-- the walk ended, and has come back to it by another `goto`.
local page_fault = require "spec.support.page_fault"
local perf = require "perf"
local random_program = require "spec.support.random_program"

local jit = rawget(_G, "jit")
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
        local truth = random_program.truth(text, ROUNDS, ROUNDS, ROUNDS)
        jit.flush()
        jit.opt.start(unpack(settings))
        local run = page_fault.program(text)
        run(ROUNDS)
        local prof = perf.profile({ event = "page-faults", period = 1, timeline = 1000 }, run, ROUNDS)
        local line, range, _, wrong = random_program.compare(prof, text, truth)
        assert.equal(0, #wrong, wrong[1])
        assert.equal(ROUNDS, line + range)
      end)
    end
  end
end)
