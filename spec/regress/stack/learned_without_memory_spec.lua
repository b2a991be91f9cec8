-- The story: the learner of LuaJIT's structures removed the program's hook, stopped the collector and replaced the allocator, and
-- then made its last objects. If there was no memory for one of those, the error left everything as it was then: the hook was
-- lost, the collector stood still, and the next allocation called the learner's allocator, whose data was gone: a crash. And the
-- compiler's optimizations stayed changed, since their restoration made a string.
-- Later: the layout is learned again for each refused allocation.
local util = require "spec.support.util"

describe("a start of the unwinder without memory", function()
  it("leaves the hook, the collector, the allocator and the compiler's optimizations as they were", function()
    requires { lua = "luajit", registers = true }
    local output = util.shell(([[timeout -s KILL 600 %s -e '
      local core, kit = require "perf.core", require "testkit"
      kit.settle_after_forks(false) -- no page faults are counted
      local function optimizations() return table.concat({ jit.status() }, " ", 2) end
      local function collects()
        for i = 1, 2e5 do kept = { i } end
        return collectgarbage "count" < 8000 -- KB
      end
      jit.off(collects)
      local function attempt(n)
        jit.opt.start("-fold", "-dse")
        local before = optimizations()
        debug.sethook(function() end, "c")
        local made = kit.fail_alloc_once(n, function()
          pcall(core.unwinds)
          kept = ("x"):rep(3000):gsub(".", "%%0%%0") -- overwrites the C stack
          for i = 1, 20 do kept = { i, {} } end
        end)
        local _, mask = debug.gethook()
        debug.sethook()
        return table.concat({ mask, tostring(collects()), tostring(optimizations() == before) }, " ")
      end
      local function check(n)
        local status, text = kit.fork(attempt, n)
        if text ~= "c true true" then print(n, status, text) end
      end
      local _, all = kit.fork(function() return (kit.fail_alloc_once(0, core.unwinds)) end)
      assert(tonumber(all) > 100, "nothing was learned")
      for n = 1, 40 do check(n) end
      for n = all - 40, all do check(n) end
      io.write "end"']]):format(util.lua()))
    assert.equal("end", output)
  end)
end)

-- The story: the same at safe points, where the learner also stayed in its learning state: the next sample wrote to the C stack.
describe("a profiler at safe points that starts without memory", function()
  it("leaves the hook as it was, and the next one counts", function()
    requires { lua = "luajit", perf_open = true }
    local output = util.shell(([[timeout -s KILL 600 %s -e '
      local core, kit, perf = require "perf.core", require "testkit", require "perf"
      core.use_safe_points(true)
      local function attempt(n)
        local p = assert(perf.profiler { event = "page-faults:u" })
        debug.sethook(function() end, "c")
        kit.fail_alloc_once(n, p.start, p)
        local _, mask = debug.gethook()
        debug.sethook()
        p:close()
        local prof, sum = assert(perf.profile({ event = "page-faults:u" }, kit.touch_pages, 100)), 0
        for _, s in ipairs(prof:samples()) do sum = sum + s.weight end
        return mask .. " " .. tostring(sum >= 100)
      end
      for n = 1, 40 do
        local status, text = kit.fork(attempt, n)
        if text ~= "c true" then print(n, status, text) end
      end
      io.write "end"']]):format(util.lua()))
    assert.equal("end", output)
  end)
end)

-- The story: PUC Lua's learner made objects in a thread that was in no call. Without memory Lua 5.1 ended the process, and newer
-- versions left the learner by way of the main thread. Then SIGTRAP stayed taken, and the next learner single-stepped too early:
-- a crash.
describe("a start of PUC Lua's unwinder without memory", function()
  it("fails, and the next one works", function()
    requires { puc = true, registers = true }
    local output = util.shell(([[timeout -s KILL 600 %s -e '
      local core, kit = require "perf.core", require "testkit"
      kit.settle_after_forks(false) -- no page faults are counted
      local function attempt(n)
        kit.fail_alloc(n, core.unwinds)
        return core.unwinds()
      end
      local _, all = kit.fork(function() return (kit.fail_alloc(0, core.unwinds)) end)
      assert(tonumber(all) > 100, "nothing was learned")
      for n = 1, all do
        if math.fmod(n, 15) == 1 or n > all - 150 and math.fmod(n, 2) == 1 then -- the defects were at many, or at two in a row
          local status, text = kit.fork(attempt, n)
          if text ~= "true" then print(n, status, text) end
        end
      end
      io.write "end"']]):format(util.lua()))
    assert.equal("end", output)
  end)
end)
