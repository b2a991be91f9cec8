--- Lines that the unwinder finds while a function of PUC Lua runs one machine instruction at a time.
local assert = require "luassert"
local kit = require "testkit"

local stepped = {}

--- Runs a function without jumps, whose lines are those from `first` to `last`, and which begins on the line before. Each must be
-- found, and none after a later one, except at a part of the machine instructions.
-- @param most that part, at most
-- @param ... the function's arguments
-- @return the reason why the machine cannot do it, for `pending`; else nil
function stepped.check(fn, first, last, most, ...)
  collectgarbage "stop" -- a finalizer of the program is another function
  local runs, why = kit.unwind.steps(fn, ...)
  collectgarbage "restart"
  if not runs then return why end
  local latest, wrong, all, lines = 0, 0, 0, {}
  for _, run in ipairs(runs) do
    if run.linedefined == first - 1 then
      latest = math.max(latest, run.line)
      all = all + run.n
      wrong = wrong + (run.line < latest and run.n or 0)
      lines[run.line] = true
    end
  end
  for line = first, last do assert.is_true(lines[line], line) end
  assert.is_true(wrong <= most * all, ("%d of %d"):format(wrong, all))
end

return stepped
