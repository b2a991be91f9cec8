-- The story: a profiler that stopped let the next one start before it had released what a process has only once. It then reset
-- the signal's action of the next one, whose first sample ended the process by SIGTRAP; on LuaJIT the next one failed because
-- jit.p seemed to run. Twice: C has what a process has only once.
local core = require "perf.core"
local perf = require "perf"

describe("profiles of two threads in turn", function()
  it("fail only while another one runs, and count everything", function()
    requires { perf_open = "user" }
    local pool = assert(perf.pool { size = 2 })
    local jobs = {}
    for i = 1, 2 do
      jobs[i] = assert(pool:submit(function()
        local profile, touch = require("perf").profile, require("testkit").touch_pages
        local made, few, messages = 0, 0, {}
        for _ = 1, 150 do
          local prof, message = profile({ event = "page-faults" }, touch, 10)
          local sum = 0
          for _, s in ipairs(prof and prof:samples() or {}) do sum = sum + s.weight end
          if not prof then
            messages[message] = true
          else
            made = made + 1
            if sum < 10 then few = few + 1 end
          end
        end
        return made, few, messages
      end))
    end
    for i = 1, 2 do
      local made, few, messages = jobs[i]:get(120)
      assert.equal(0, few)
      assert.is_true(made > 0)
      for message in pairs(messages) do assert.matches("one at a time", message) end
    end
    pool:close()
    assert.is_table(perf.profile({ event = "page-faults" }, core.wall_ns))
  end)

  it("leave a coroutine function that one thread kept to that thread", function()
    requires { perf_open = "user" }
    local pool = assert(perf.pool { size = 2 })
    local kept = assert(pool:submit(function()
      local profile, resume = require("perf").profile, nil
      local opts = { event = "page-faults", coroutines = "resumer" }
      repeat until profile(opts, function() resume = coroutine.resume end)
      for _ = 1, 20000 do
        local co = coroutine.create(function() coroutine.yield() end)
        assert(resume(co))
        assert(resume(co))
      end
      return true
    end))
    local profiled = assert(pool:submit(function()
      local profile, made = require("perf").profile, 0
      while made < 50 do
        local prof = profile({ event = "page-faults", coroutines = "resumer" }, function()
          for _ = 1, 50 do
            coroutine.wrap(function() coroutine.wrap(function() end)() end)()
          end
          collectgarbage()
        end)
        made = made + (prof and 1 or 0)
      end
      return true
    end))
    assert.is_true(kept:get(120))
    assert.is_true(profiled:get(120))
    pool:close()
  end)
end)
