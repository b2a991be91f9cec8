-- The story: the first profiler of a process on LuaJIT claims the process for a moment, to learn the place of the compiler's
-- mode. A profiler at safe points that another thread started in that moment failed: another one seemed to run.
local util = require "spec.support.util"

local PROGRAM = [[
  local perf = require "perf"
  local pool = assert(perf.pool { size = 1 })
  local job = assert(pool:submit(function()
    local profiler = assert(require "perf".profiler { event = "page-faults:u" })
    assert(profiler.method == "registers")
    assert(profiler:start())
    profiler:close()
    return true
  end))
  local said
  repeat
    local profiler = assert(perf.profiler { event = "page-faults:u", coroutines = "creator" })
    assert(profiler.method == "safe point")
    local ok, message = profiler:start()
    said = said or message
    profiler:close()
  until job:wait(0)
  assert(job:get())
  pool:close()
  io.write(tostring(said))
]]

describe("the first profilers of two threads", function()
  it("start, one of them at safe points", function()
    requires { lua = "luajit", perf_open = true, registers = true, paranoid = 2 }
    util.with_tmpname(function(path)
      util.write_file(path, PROGRAM)
      for _ = 1, 20 do
        local output, status = util.shell(("%s %s"):format(util.lua(), path))
        assert.equal(0, status, output)
        assert.equal("nil", output)
      end
    end)
  end)
end)
