--- Stacks that the unwinder finds while a function runs one machine instruction at a time.
local assert = require "luassert"
local kit = require "testkit"
local util = require "spec.support.util"

local stepped = {}

local CHILD = [[
  %s
  local kit = require "testkit"
  assert(kit.unwind.learn())
  %s
  calls()
  collectgarbage "stop"
  local runs, why = kit.unwind.steps(calls)
  if not runs then return io.write("cannot: ", why) end
  local n, cut, without, compiled = 0, 0, 0, 0
  for _, run in ipairs(runs) do
    n = n + run.n
    cut = cut + (run.failed ~= 0 and run.n or 0)
    without = without + (run.linedefined > 0 and run.line < 1 and run.n or 0)
    compiled = compiled + (run.state == 3 and run.n or 0)
  end
  assert(n > 1000)
  io.write(cut, " ", without, " ", compiled)
]]

--- Runs in a new process of LuaJIT the function `calls`, which the text defines.
-- @param settings a statement for the compiler; nil: there is none, so that no trace is left while the function is stepped
-- @return how many stacks are cut, how many begin with a Lua function without a line, and how many were taken in compiled code or
-- on the way out of it; nil and the reason, for `pending`, if the machine cannot do it
function stepped.run(text, settings)
  local output, status
  util.with_tmpname(function(path)
    util.write_file(path, CHILD:format(settings or "jit.off()", text))
    output, status = util.shell(("%s %s"):format(util.lua(), path))
  end)
  assert.equal(0, status, output)
  local why = output:match "^cannot: (.*)"
  if why then return nil, why end
  local cut, without, compiled = output:match "^(%d+) (%d+) (%d+)$"
  return tonumber(cut), tonumber(without), tonumber(compiled)
end

--- Runs a function of PUC Lua without jumps, whose lines are those from `first` to `last`, and which begins on the line before.
-- Each line must be found; and a line must not be found after a later one, except at few machine instructions.
-- @param most the share of these, at most
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
