-- The story: luaperf record and perf.auto crashed LuaJIT programs at their end, and lost the profile: 10 of 10 programs that left
-- 3,000 open files, 1 of 5 to 1 of 30 ordinary ones. lua_close stops LuaJIT's profiler before the first finalizer runs; our
-- signals went on coming and called LuaJIT's handler, whose state was NULL. jit.profile.stop() did the same at any time, and so
-- did jit.p.
local profiling = require "spec.support.profiling"
local perf = require "perf"
local util = require "spec.support.util"

describe("a running profile", function()
  before_each(function() requires { perf_open = "user" } end)

  it("is written when the state is closed, after any finalizers", function()
    util.with_tmpname(function(path)
      for _ = 1, 5 do
        os.remove(path)
        local output, status = util.shell(([[PERF_FREQ=5000 PERF_QUIET=1 PERF_OUTPUT=%s timeout -s KILL 600 %s -lperf.auto -e '
          local function finalizer() for i = 1, 100 do i = i + 1 end end
          files = {}
          for i = 1, 900 do
            files[i] = assert(io.open "/dev/null")
            local p = newproxy and newproxy(true)
            if p then getmetatable(p).__gc = finalizer else p = setmetatable({}, {__gc = finalizer}) end
            files[900 + i] = p
          end']]):format(path, util.lua()))
        assert.same({ "", 0 }, { output, status })
        assert.is_true(assert(require("perf.profile.load").all(path))[1].total > 0)
      end
    end)
  end)

  it("is not disturbed by jit.profile, and does not disturb it", function()
    requires { lua = "luajit", nostress = true } -- otherwise the collector would take most of the time
    local profile = require "jit.profile"
    local x, theirs = 0, 0
    local function spin(turns)
      for i = 1, turns do x = x + i % 7 end
    end
    local p = assert(perf.profiler { freq = 5000 })
    assert(p:start())
    spin(3e6)
    profile.start("li1", function(_, n) theirs = theirs + n end)
    for _ = 1, 100000 do
      spin(1e5)
      if theirs > 0 then break end
    end
    profile.stop()
    spin(3e6)
    local prof = assert(p:stop())
    assert.is_true(theirs > 0)
    assert.equal(prof.total, profiling.sum(prof))
    assert.is_true(profiling.under(prof, "spin") > 0)
    assert(p:start()) -- it can use LuaJIT's own profiler again
    local from = os.clock() -- for so long that a late timer has little of it
    repeat spin(1e6) until os.clock() - from > 0.3
    prof = assert(p:stop())
    assert.is_true(profiling.under(prof, "spin") > prof.total / 2, profiling.text(prof))
  end)
end)
