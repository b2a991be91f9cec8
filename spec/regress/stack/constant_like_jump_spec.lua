-- The story: `x = 32735` within compiled code put what it called into a range of lines from above. The constant has the bits of a
-- jump backwards, and a walk along the bytecode took every large operand for the target of a jump.
local page_fault = require "spec.support.page_fault"
local profiling = require "spec.support.profiling"

local ROUNDS = 300

-- The faults of lines 6 and 9 are in two stretches, and the constant is in that of line 9.
local TEXT = [[
local math, tostring, t, buf, y = math, tostring, {}, require("ffi").new("double[8]"), 0
return function(n) local s, x = 1, 0 for i = 1, n do
s = math.floor(s) + #tostring(i)
t[#t % 8 + 1] = s
buf[i % 8] = s + x
FAULT
x = CONSTANT
y = x + i
FAULT
t[#t % 8 + 1] = y
end end]]

describe("a constant that looks like a jump", function()
  before_each(page_fault.map)
  after_each(page_fault.unmap)

  -- A short constant of 32767 looks like a jump to itself, and each number less is one instruction further back.
  for _, constant in ipairs { "32766", "32760", "32745", "32735", "-32766", "-32760" } do
    it("hides no line: " .. constant, function()
      local run = page_fault.program((TEXT:gsub("CONSTANT", constant)))
      run(ROUNDS)
      local prof = page_fault.profile(run, ROUNDS)
      local n = 0
      for _, s in ipairs(prof:samples()) do
        for _, frame in ipairs(s.stack) do
          if frame.line and page_fault.in_program(frame) then
            if frame.line > 6 and (frame.lastline or frame.line) == 9 then n = n + tonumber(s.weight) end
            break
          end
        end
      end
      assert.is_true(n >= ROUNDS - 5, profiling.text(prof))
    end)
  end
end)
