-- The story: a program ran out of memory under an address-space limit while it was profiled. On Lua 5.1, which does not collect
-- before it gives up, making the Profile failed too, with the heap full of garbage: the profile was lost. Then it was lost again:
-- before the part that is tried twice, the stop set a new field and called two more functions, which needed memory too.
--
-- LuaJIT runs it without its compiler. Before July 2023 an allocation that fails in compiled code reads the frame at an old
-- L->base (lj_err_mem), which is a crash if a table lies there: about 1 of 100 runs of this program did, and none of 600 with the
-- compiler off.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local util = require "spec.support.util"

describe("a profile of a program that runs out of memory", function()
  it("is kept", function()
    requires { perf_open = "user", nosan = true, nostress = true }
    for _, limit in ipairs { 45000, 61000, 90000 } do
      local output, status = util.shell(([[ulimit -v %d; %s -e '
        if jit then jit.off() end
        local perf = require "perf"
        local p = assert(perf.profiler {freq = 2999})
        assert(p:start())
        local ok = pcall(function()
          local t = {}
          for i = 1, 1e9 do t[i] = {i, i, i, i} end
        end)
        local prof = assert(p:stop())
        io.write(tostring(ok), " ", tostring(prof.total > 0))']]):format(limit, util.lua()))
      assert.same({ "false true", 0 }, { output, status })
    end
  end)
end)
