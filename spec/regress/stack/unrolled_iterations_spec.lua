-- The story: in code from before the profiler's start, calls of an unrolled loop were shown on another line, as if that were
-- exact, or in a range of other lines. The compiler drops the exits that are not needed, so the code may have gone through whole
-- iterations before the next snapshot in the loop. Only the lines of the first way to that counted. Now the loop's index at both
-- snapshots tells how often it has gone round: if it has not, the lines stay as few as before.
--
-- Later, calls in an inner loop made by `goto` were shown on the first line of the outer loop. The walk from one branch of the
-- condition found the next snapshot, but the walk from the other branch did not leave the inner loop.
--
-- Later still, in a condition of several lines, `a and b and c`, calls of b were shown on the line of a. All jumps of the
-- condition have the same target. The compiler knows that a, an integer, is true, so it makes no code for the first jump, but the
-- walk ended at that jump.
--
-- And if a loop ends in another trace, calls of a function in the loop were shown on the line of its caller. The other trace
-- needs the loop's index as another type of number. The comparison before this conversion ends the iteration, but was not
-- recognized, so the loop seemed to have gone round.
local page_fault = require "spec.support.page_fault"
local profiling = require "spec.support.profiling"

local ROUNDS = 300

local HEAD = [[
local tonumber, tostring, math, t, buf, U = tonumber, tostring, math, {}, require("ffi").new("double[8]"), 0
local function Q(s)
s = tonumber(s) or 1 for m = 1, 2 do
t[#t % 8 + 1] = s
end
s = s + 1 FAULT
FAULT
return s end
return function(n) local s = 1 for i = 1, n do
]]

-- The body of a loop, from line 10 on, and how many page faults each line of the program has in an iteration. What a function
-- calls may be shown on the line that calls it.
local SHAPES = {
  { "before it is entered", [[
s = s + 1
for j = 1, 2 do
if j % 2 == 0 then
buf[U % 8] = s
FAULT
end
FAULT
if j % 2 == 0 then
FAULT s = s + #(tostring(s) .. "x")
end s = math.sin(s) * 1000
end]], { [14] = 1, [16] = 2, [18] = 1 } },
  { "in the loop", [[
for j = 1, 2 do
if j % 2 == 1 then
s = s + #(tostring(s) .. "x")
else
s = s + 1 end
if j == 2 then
FAULT t[#t % 8 + 1] = s
else
s = s + 1
end
if j == 1 then
FAULT
end
end]], { [16] = 1, [21] = 1 } },
  { "in the loop around it", [[
for k = 1, 3 do
if k == 2 then
FAULT buf[U % 8] = s
else if k == 3 then
FAULT end
end
FAULT
for j = 1, 3 do
if j % 4 == 1 then
FAULT
else
if j == 3 then
s = s + #(tostring(s) .. "x")
s = s + #tostring(s)
else
FAULT
end
end
end
FAULT
end]], { [12] = 1, [14] = 1, [16] = 3, [19] = 3, [25] = 3, [29] = 3 } },
  { "of the caller", [[
s = Q(s)
for k = 1, 3 do
s = Q(s)
end]], { [6] = 4, [7] = 4, [10] = 2, [12] = 6 } },
  { "in a loop of goto in a loop", [[
local k = 0
while k < 3 and s < 1e9 do
k = k + 1
do local m = 0
::again::
m = m + 1
s = s - 1 FAULT
if m < 14 and s < 1e9 then goto again end end
end]], { [16] = 42 } },
  { "in a condition of several lines", [[
for j = 1, 90 do s = s + 1 end
if DROPPED and
TOUCHED and
s > 5 then U = U + 1 s = s - 1 end]], { [12] = 1 } },
  { "in functions of a loop that ends in another trace", [[
local v = {}
for j = 1, 3 do
v[j] = function(k)
local x = k + j
if (x + 2) % 3 == 0 then
FAULT
else
FAULT
end end
end
for j = 1, 3 do
v[j](j)
end]], { [15] = 1, [17] = 2 } },
}

--- The page faults that the innermost frames of the program have in some of the lines, in ranges within them, too.
local function faults_in(prof, first, last)
  local n = 0
  for _, s in ipairs(prof:samples()) do
    for _, frame in ipairs(s.stack) do
      if frame.line and page_fault.in_program(frame) then
        if frame.line >= first and (frame.lastline or frame.line) <= last then n = n + tonumber(s.weight) end
        break
      end
    end
  end
  return n
end

describe("what an unrolled loop calls is not on another line:", function()
  before_each(page_fault.map)
  after_each(page_fault.unmap)

  for _, shape in ipairs(SHAPES) do
    local title, body, faults = shape[1], shape[2], shape[3]

    it(title, function()
      for _ = 1, 4 do -- the compiler starts in another loop, by chance
        local run = page_fault.program(HEAD .. body .. "\nend end")
        run(ROUNDS)
        local prof = page_fault.profile(run, ROUNDS)
        for _, s in ipairs(prof:samples()) do
          local frame, most = s.stack[1], 0
          if page_fault.in_program(frame) then
            for line, n in pairs(faults) do
              if line >= frame.line and line <= (frame.lastline or frame.line) then most = most + n * ROUNDS end
            end
            local n = faults_in(prof, frame.line, frame.lastline or frame.line)
            -- The rest are faults of the compiler and of the heap.
            assert.is_true(n <= most + 50, ("%d: %d\n%s"):format(frame.line, n, profiling.text(prof)))
          end
        end
      end
    end)
  end
end)
