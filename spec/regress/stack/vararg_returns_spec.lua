-- The story: where a vararg function returned, the interpreter's base was that of its lower frame already, its pc still the link
-- from the upper one. No function was found there: 1 % of the samples of a loop of vararg calls. The same was true where a
-- metamethod returned or made a tail call.
local util = require "spec.support.util"

-- Runs in a new process without the compiler, so that no trace is left while the program is stepped.
local TEXT = [[
  jit.off()
  local kit = require "testkit"
  assert(kit.unwind.learn())
  local function first(...)
    local a = ...
    return a
  end
  local function none(...) end
  local function all(...) return ... end
  local function tail(...) return all(...) end
  local function pack(...) return { ... } end
  local t = setmetatable({}, { __index = function(...) return select("#", ...) end, __call = function(...) return all(...) end })
  local function calls()
    local sum = 0
    for i = 1, 3 do
      none()
      none(i)
      sum = sum + first(i, i, i) + all(i, i) + #pack(i, i) + tail(i) + t[i] + #{ t(i) }
      pcall(first, i)
    end
    return sum
  end
  calls()
  collectgarbage "stop"
  local runs, why = kit.unwind.steps(calls)
  if not runs then return io.write("pending: ", why) end
  local n, cut, without = 0, 0, 0
  for _, run in ipairs(runs) do
    n = n + run.n
    cut = cut + (run.failed ~= 0 and run.n or 0)
    without = without + (run.linedefined > 0 and run.line < 1 and run.n or 0)
  end
  assert(n > 1000)
  io.write(cut, " cut, ", without, " without line")
]]

it("the stack of vararg calls is whole, with its lines, after each machine instruction", function()
  requires { lua = "luajit", registers = true, nosan = true }
  util.with_tmpname(function(path)
    util.write_file(path, TEXT)
    local output, status = util.shell(("%s %s"):format(util.lua(), path))
    if output:find "^pending" then return pending(output) end
    assert.same({ "0 cut, 0 without line", 0 }, { output, status })
  end)
end)
