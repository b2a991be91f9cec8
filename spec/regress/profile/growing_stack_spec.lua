-- The story: a coroutine recursed until its stack overflowed; a third of its samples had no stack. While LuaJIT moves a thread's
-- stack and clears the new part, the thread's base is still in the old one, which the kernel may have unmapped. If the kernel has
-- moved the stack's pages, the new one's address is only known as that of its first page.
local perf = require "perf"
local profiling = require "spec.support.profiling"

describe("a thread whose stack grows", function()
  it("has its frames meanwhile", function()
    requires { perf_open = true, registers = true, lua = "luajit", nostress = true }
    local function endless(n) return 1 + endless(n + 1) end
    local function overflow() return pcall(endless, 1) end
    local samples, missing = 0, 0
    local prof
    repeat -- a machine that runs other guests takes few samples
      prof = perf.profile({ freq = 4000 }, function()
        for _ = 1, 300 do coroutine.wrap(overflow)() end
      end)
      samples = samples + prof.sample_count
      for reason, n in pairs(prof.failures or {}) do missing = missing + (reason == "too deep" and 0 or n) end
    until samples >= 500
    assert.is_true(missing < 0.02 * samples, profiling.text(prof))
  end)
end)
