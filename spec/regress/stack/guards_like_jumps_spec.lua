-- The story: before a call, compiled code tests whether the function is still the same one. If there was nothing else between
-- two snapshots, the test was taken for a conditional jump to the call. So in a call `g(a and b())` on two lines, the code before
-- the test was taken to end at the jump of `and`, and what `b` did was shown on the line of `a`, as if that were exact.
local page_fault = require "spec.support.page_fault"
local random_program = require "spec.support.random_program"

local ROUNDS = 40

local HEAD = [[
local g
g = function(s) if s > 500 then s = s + 1 end return 1 end
return function(n) local s = 1 for i = 1, n do
s = s + 1
]]
local ARGUMENTS = {
  ["`and`"] = "g(DROPPED and\nTOUCHED)",
  ["`and` and `and`"] = "s = s + g(DROPPED and\nTOUCHED and DROPPED and\nTOUCHED)",
  ["`or`"] = "g(not DROPPED or\nTOUCHED)",
}

describe("a call in the arguments of another one is on its line, or in a range with it:", function()
  before_each(function()
    page_fault.map()
    requires { nostress = true }
  end)
  after_each(page_fault.restore)

  for what, statement in pairs(ARGUMENTS) do
    for _, settings in ipairs { { "hotloop=2", "hotexit=1" }, { "hotloop=2", "hotexit=1", "-sink", "-loop", "-fuse" } } do
      it(("after %s, %s"):format(what, table.concat(settings, " ")), function()
        local text = HEAD .. statement .. "\nend return s end"
        local truth = random_program.truth(text, ROUNDS, ROUNDS, 2 * ROUNDS)
        local line, range, _, wrong = random_program.profile(text, truth, ROUNDS, ROUNDS, settings)
        assert.equal(0, #wrong, wrong[1])
        assert.equal(#truth, line + range)
      end)
    end
  end
end)
