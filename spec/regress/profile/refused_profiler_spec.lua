-- The story: while a profiler ran on LuaJIT, another one was refused and closed, or an earlier one was collected. That cleared
-- the places in LuaJIT's memory that the running profiler reads. Its profile then had "(C function)" in place of string.find, and
-- the program crashed if a sample came at the wrong moment.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local perf = require "perf"
local profiling = require "spec.support.profiling"

local text = ("x"):rep(100000)

local function search(seconds)
  local clock, find = os.clock, string.find
  local stop = clock() + seconds
  while clock() < stop do
    for _ = 1, 5 do find(text, "y.") end
  end
end

local options = { event = "task-clock:u", freq = 1999 }

local function profile(meanwhile)
  local p = assert(perf.profiler(options))
  assert(p:start())
  meanwhile()
  search(0.15)
  local prof = assert(p:stop())
  p:close()
  return prof
end

describe("a running profiler at safe points", function()
  before_each(function() requires { gc64 = true, perf_open = "user" } end)

  local function names_functions(meanwhile)
    local prof = profile(meanwhile)
    -- `meanwhile` is left out: it may take as long, and calls methods of the library that have no name.
    assert.is_true(profiling.under(prof, "string.find") > profiling.under(prof, "search") / 2, profiling.text(prof))
    assert.is_true(profiling.under(prof, "string.find") > 0.05e9, profiling.text(prof))
    -- All of them had no name. Under collector pressure a hook runs at each call, and the C code that calls it has none.
    assert.is_true(profiling.under(prof, "(C function)", "search") < 0.1 * profiling.under(prof, "string.find"),
      profiling.text(prof))
  end

  it("names C functions after another one was refused", function()
    profiling.at_safe_points(names_functions, function()
      local other = assert(perf.profiler(options))
      assert.is_nil(other:start())
      other:close()
    end)
  end)

  it("names C functions after an earlier one was collected", function()
    profiling.at_safe_points(function()
      local earlier = assert(perf.profiler(options))
      assert(earlier:start())
      assert(earlier:stop())
      names_functions(function()
        earlier = nil
        collectgarbage()
        collectgarbage()
      end)
      assert.is_nil(earlier)
    end)
  end)
end)
