-- The story: where a hook or a finalizer of Lua returned, the pc of the interrupted function was read from the hook's own frame
-- on the C stack, where none is saved: 1 % of the samples of a loop with a hook had a function without a line.
local util = require "spec.support.util"

-- Runs in a new process without the compiler, so that no trace is left while the program is stepped.
local TEXT = [[
  jit.off()
  local kit = require "testkit"
  assert(kit.unwind.learn())
  local function hook() end
  local function finalizer() return 1 end
  local function calls()
    local sum = 0
    debug.sethook(hook, "crl", 3)
    for i = 1, 3 do
      getmetatable(newproxy(true)).__gc = finalizer
      sum = sum + #tostring(i)
    end
    debug.sethook()
    collectgarbage()
    return sum
  end
  calls()
  collectgarbage "stop"
  local runs, why = kit.unwind.steps(calls)
  if not runs then return io.write("pending: ", why) end
  local n, without = 0, 0
  for _, run in ipairs(runs) do
    n = n + run.n
    without = without + (run.linedefined > 0 and run.line < 1 and run.n or 0)
  end
  assert(n > 1000)
  io.write(without, " without line")
]]

it("functions with hooks and finalizers have their lines after each machine instruction", function()
  requires { lua = "luajit", registers = true, nosan = true }
  util.with_tmpname(function(path)
    util.write_file(path, TEXT)
    local output, status = util.shell(("%s %s"):format(util.lua(), path))
    if output:find "^pending" then return pending(output) end
    assert.same({ "0 without line", 0 }, { output, status })
  end)
end)
