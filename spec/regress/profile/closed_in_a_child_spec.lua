-- The story: at safe points the handler of samples reads LuaJIT's state through pointers, which belong to the profiler that
-- runs. The child of a fork that closed its parent's profiler cleared those of its own, whose profile then had no C functions.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

describe("a child that closes its parent's profiler at safe points", function()
  local before
  before_each(function() before = core.use_safe_points(true) end)
  after_each(function() core.use_safe_points(before) end)

  for _, method in ipairs { "close", "stop" } do
    it("keeps the C functions of its own profile, by " .. method, function()
      requires { perf_open = true, paranoid = 2 }
      local inherited = assert(perf.profiler { event = "page-faults:u" })
      assert.is_true(inherited:start())
      local faults = util.in_child(function()
        local own = assert(perf.profiler { event = "page-faults:u", period = 1 })
        assert(own:start())
        inherited[method](inherited)
        local function touch()
          kit.touch_pages(100)
          return true
        end
        touch()
        return profiling.under(own:stop(), "testkit.touch_pages")
      end)
      inherited:stop()
      assert.is_true(tonumber(faults) >= 100, faults)
    end)
  end
end)
