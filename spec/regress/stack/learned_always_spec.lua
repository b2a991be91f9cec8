-- The story: the layout of LuaJIT was sometimes not learned, depending on chance and on the program's settings. Finalizers that
-- ran meanwhile changed what the probes saw: four of ten such processes had safe points, and five did not know the exits of
-- traces. If jit.opt had turned optimizations off, the probes' loops were not those that the learner expects; if its limits were
-- very low, they were not compiled. A profiler that was made before jit.on() and started afterwards found no stack in compiled
-- code.
-- On arm64, the place of the number of a trace's exit was not learned, unless "hotexit" was high: there a loop is left by
-- another trace than its first one. So while LuaJIT restored the stack after an exit, samples had no line.
local kit = require "testkit"
local util = require "spec.support.util"

-- Runs a program, and returns what it wrote.
local function output(text)
  local written
  util.with_tmpname(function(path)
    util.write_file(path, text)
    local status
    written, status = util.shell(("%s %s"):format(util.lua(), path))
    assert.equal(0, status, written)
  end)
  return written
end

local PROFILE = [[
  local perf = require "perf"
  local function status() return table.concat({ tostring((jit.status())), select(2, jit.status()) }, " ") end
  local before = status()
  local prof = assert(perf.profile({ event = "task-clock:u", freq = 1000 }, function() return 1 end))
  assert(status() == before, "the compiler's optimizations have changed")
  io.write(prof.method, prof.method_reason and ": " .. prof.method_reason or "")
]]

describe("the layout of LuaJIT", function()
  before_each(function()
    requires { lua = "luajit", perf_open = "user", registers = true }
  end)

  it("is learned while finalizers run all the time", function()
    assert.equal("registers", output([[
      require "perf" -- before the finalizers: that it is loaded does not matter here
      local kept = {}
      local function finalizer()
        for i = 1, 3 do kept[i] = tostring(i) end
        local again = newproxy(true)
        getmetatable(again).__gc = debug.getinfo(1, "f").func
        kept[4] = pcall(error, "x")
      end
      for _ = 1, 1000 do getmetatable(newproxy(true)).__gc = finalizer end
      collectgarbage("setpause", 50)
      collectgarbage("setstepmul", 1000)
    ]] .. PROFILE .. [[
      local calls = 0
      getmetatable(newproxy(true)).__gc = function() calls = calls + 1 end
      for _ = 1, 1e6 do
        kept[1] = {}
        if calls > 0 then break end
      end
      assert(calls > 0, "the collector is off")
    ]]))
  end)

  for _, options in ipairs {
    "0", "1", "'-loop'", "'-sink', '-fuse'", "'-fold', '-cse', '-dce', '-fwd', '-dse', '-abc', '-narrow'",
  } do
    it("is learned after jit.opt.start(" .. options .. ")", function()
      assert.equal("registers", output("jit.opt.start(" .. options .. ")\n" .. PROFILE))
    end)
  end

  for _, limit in ipairs { "maxrecord=10", "maxirconst=5", "maxtrace=1", "maxsnap=1" } do
    it("is learned in a state with the usual limits after jit.opt.start('" .. limit .. "')", function()
      assert.equal("registers", output(("jit.opt.start('%s')\n"):format(limit) .. PROFILE))
    end)
  end

  it("has the place of the number of a trace's exit", function()
    requires { jit = true }
    local learned, why, knows_exits = kit.unwind.learn()
    assert.is_true(learned, why)
    assert.is_true(knows_exits)
  end)

  it("leaves a collector off that is off", function()
    assert.equal("registers", output("collectgarbage('stop')\n" .. PROFILE .. [[
      local calls = 0
      getmetatable(newproxy(true)).__gc = function() calls = calls + 1 end
      for i = 1, 1e5 do _G.t = { i } end
      assert(calls == 0, "the collector is on")
    ]]))
  end)

  it("is learned again when the compiler has been turned on", function()
    assert.equal("whole", output([[
      jit.off()
      local perf = require "perf"
      local prof = assert(perf.profiler { event = "task-clock:u", freq = 4000 })
      jit.on()
      local t = {}
      local function allocates(n)
        for i = 1, n do t[i % 7] = { i, i + 1 } end
      end
      assert(prof:start())
      for _ = 1, 10 do allocates(3e5) end
      local result = assert(prof:stop())
      local missing = (result.failures or {})["no trace"] or 0
      io.write(missing < 0.05 * result.sample_count and "whole" or missing .. " of " .. result.sample_count)
    ]]))
  end)
end)
