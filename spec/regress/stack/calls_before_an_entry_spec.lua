-- The story: in code from before the profiler's start, one snapshot may stand for code that enters two compiled functions, one
-- in the other. What the outer one called before it entered the inner one was shown in the inner one.
local page_fault = require "spec.support.page_fault"
local profiling = require "spec.support.profiling"

local PROGRAM = [[
local tonumber, tostring, math, string, U = tonumber, tostring, math, string, 0
local function inner(s)
  s = tonumber(s) or 1
  FAULT s = s + #(tostring(s) .. "x")
  FAULT local q = string.sub("abcdef", U % 3 + 1, 4)
  return s + #q
end
local function outer(s)
  s = tonumber(s) or 1
  s = s + #(tostring(s) .. "x")
  FAULT
  s = math.sin(s) * 1000
  s = inner(s)
  return s
end
return function(n)
  local s = 1
  for i = 1, n do
    FAULT
    s = outer(s)
  end
end]]

it("what a function calls before it enters another one is not in that one", function()
  page_fault.map()
  finally(page_fault.unmap)
  local run = page_fault.program(PROGRAM)
  run(1000)
  local prof = page_fault.profile(run, 1000)
  local got = 0
  for _, s in ipairs(prof:samples()) do
    local top = s.stack[1]
    if page_fault.in_program(top) and top.linedefined == 2 then got = got + tonumber(s.weight) end
  end
  assert.is_true(got <= 2050, profiling.text(prof))
end)
