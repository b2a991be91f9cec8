-- The story: in a program without LuaJIT's compiler (luajit -joff), only the stacks of the first four profiles were unwound.
-- Those of later ones were taken at safe points: without compiled code the interpreter's structures are learned at each start,
-- and each attempt counted as failed.
local util = require "spec.support.util"

describe("many profiles in a program without the compiler", function()
  it("have the same method", function()
    requires { perf_open = true, registers = true, lua = "luajit" }
    local output, status = util.shell(([[timeout -s KILL 600 %s -joff -e '
      local perf, methods = require "perf", {}
      for i = 1, 12 do methods[perf.profile({event = "page-faults"}, table.concat, {}).method] = i end
      for method, last in pairs(methods) do io.write(method, " ", last) end']]):format(util.lua()))
    assert.same({ "registers 12", 0 }, { output, status })
  end)
end)
