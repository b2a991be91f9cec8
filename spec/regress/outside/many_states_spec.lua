-- The stories: a server makes a Lua state for each request, such as Apache's mod_lua, and 80 % of its Lua code was
-- "(outside Lua)", since only states that a search of its memory had found were known. At most 16 of them were, and threads of a
-- process with more had no stack, or that of another thread.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local outside = require "spec.support.outside"
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local TOUCH = "local function touch() require 'testkit'.touch_pages(200) return 1 end touch()"

describe("a process that makes Lua states", function()
  before_each(function()
    outside.requires()
  end)

  local function profile(period, fn) return (outside.profile({ event = "page-faults", period = period }, fn)) end

  -- A thread's first faults may lie before the function, and its last ones may be less than a period.
  local function check(prof, period, n)
    local text = profiling.text(prof)
    local touched = profiling.under(prof, "testkit.touch_pages", "touch")
    assert.is_true(touched > (200 - period) * n and touched < (220 + period) * n, text)
  end

  it("is profiled in states that exist for a moment", function()
    requires { puc = true }
    check(profile(1, function()
      for _ = 1, 10 do assert(kit.state(TOUCH, true)) end
    end), 1, 10)
  end)

  it("is profiled in all of 40 states, one for each thread", function()
    check(profile(20, function()
      local pool, jobs = assert(perf.pool { size = 40 }), {}
      for i = 1, 40 do
        jobs[i] = assert(pool:submit(function()
          local function touch() require "testkit".touch_pages(200) end
          touch()
        end))
      end
      for _, job in ipairs(jobs) do assert(job:wait()) end
      pool:close()
    end), 20, 40)
  end)
end)
