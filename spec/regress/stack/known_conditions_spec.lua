-- The story: a call in the condition of an `if` was shown on the line before its own, as if that were exact. The compiler
-- knows some parts of a condition, such as a call's number that is never false, and leaves no exit for them. The causes:
-- * If the `if` ends the body of a loop, its jumps lead back to the loop's start. The search for the jump of a later part
--   ended at the first jump back, that of a part that the compiler knows.
-- * If two parts with an exit follow one that the compiler knows, the search for the jump of the first of them ended at the
--   first jump of all, because all their jumps have the same target.
--
-- A later story: a comparison itself was shown on the line of the part after it, whose condition the compiler knows. The
-- addresses of the snapshots before and after the comparison are the two targets of that part's jump, too.
local page_fault = require "spec.support.page_fault"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local jit = rawget(_G, "jit")
local ROUNDS = 60

-- In each round, the page faults are those of TOUCHED. BEFORE is a statement, HEAD and TAIL are around the `if`.
local TEXT = [[
local u = 0
return function(n) local s = 1
for i = 1, n do
HEAD
BEFORE
if CONDITION then s = s + 1 end
TAIL
s = s % 100 + 5
end return s, u end]]

local LOOPS = {
  ["the end of a loop"] = { "local j = 0 while j < 2 do\nj = j + 1", "end" },
  ["the middle of a loop"] = { "local j = 0 while j < 2 do\nj = j + 1", "u = u + 1 end" },
  ["a block"] = { "do", "end" },
}
local BEFORE = { "", "if s % 2 == 0 then u = u + 2 end", "C.page_fault_drop(at, size, 4) u = u +\n(TOUCHED and 1)" }
local CONDITIONS = {
  "s >= 0 and DROPPED and\nTOUCHED and\ns % 3 ~= 1",
  "s >= 0 and DROPPED and\nTOUCHED and\ns < 1e9 and s % 3 ~= 1",
  "s and DROPPED and\nTOUCHED and\ns >= 0 and\ns < 1e9 and\ns % 3 ~= 1",
  "DROPPED and\nTOUCHED and\ns >= 0 and\ns < 1e9",
  "s < 1e9 and DROPPED and\nTOUCHED and\ns >= 0 and s < 1e8 and\ns < 1e7",
}

describe("a call in a condition that the compiler knows in part", function()
  before_each(function()
    page_fault.map()
    requires { nostress = true }
  end)
  after_each(page_fault.restore)

  -- The lines of the page faults of one run, as the interpreter says.
  local function lines_of(text)
    local lines = {}
    local function touch()
      lines[#lines + 1] = page_fault.frames()[1].line
      return 0
    end
    local C = { page_fault_drop = function() return 0 end, page_fault_touched = touch }
    jit.off()
    page_fault.program(text, C)(ROUNDS)
    jit.on()
    return lines
  end

  for where, loop in pairs(LOOPS) do
    for b, before in ipairs(BEFORE) do
      for c, condition in ipairs(CONDITIONS) do
        it(("is on its line, or in a range with it: in %s, %d, %d"):format(where, b, c), function()
          local parts = { HEAD = loop[1], TAIL = loop[2], BEFORE = before, CONDITION = condition }
          local text = TEXT:gsub("%u+", parts)
          local lines = lines_of(text)
          jit.flush()
          jit.opt.start("hotloop=1", "hotexit=1")
          local run = page_fault.program(text)
          run(ROUNDS)
          local prof = perf.profile({ event = "page-faults", period = 1, timeline = 1000 }, run, ROUNDS)
          local n = 0
          for k, s in page_fault.timeline(prof) do
            n = k
            for _, frame in ipairs(s.stack) do
              if page_fault.in_program(frame) then
                assert.is_true(frame.line <= lines[k] and lines[k] <= (frame.lastline or frame.line), profiling.text(prof))
                break
              end
            end
          end
          assert.equal(#lines, n)
        end)
      end
    end
  end

  -- The comparison reads memory that was freed. `s > y` is known, from line 6.
  local COMPARISON = [[
local p, t = require("ffi").cast("double *", at), { 1 }
return function(n) local s, y, u = 1, 5, 0
for i = 1, n do
s = s % 3 - 5
y = y % 11 + 7
if s > y then u = u + 1 end
C.page_fault_drop(at, size, 4)
if s > p[0] or
s > y then
u = u + 1
end
u = u + t[1]
end return u end]]

  for _, setting in ipairs { "+loop", "-loop" } do
    it("is on its line, or in a range with it, if it is a comparison: " .. setting, function()
      jit.flush()
      jit.opt.start("hotloop=1", "hotexit=1", setting)
      local run = page_fault.program(COMPARISON)
      run(ROUNDS)
      local prof = perf.profile({ event = "page-faults", period = 1, timeline = 1000 }, run, ROUNDS)
      local n = 0
      for k, s in page_fault.timeline(prof) do
        n = k
        assert.is_true(page_fault.in_program(s.stack[1]), profiling.text(prof))
        assert.is_true(s.stack[1].line <= 8 and 8 <= (s.stack[1].lastline or s.stack[1].line), profiling.text(prof))
      end
      assert.equal(ROUNDS, n)
    end)
  end
end)
