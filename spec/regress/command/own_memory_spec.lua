-- The story: an exact profile of a script's allocations had up to 2 KB that luaperf itself had allocated. Once the profile had
-- begun, luaperf made the functions that end it and the object whose finalizer calls them. It also asked the profiler for a field
-- that was absent; such a look-up calls debug.getinfo, which makes a table. On Lua 5.1, os.exit(0, true) sorted a list before it
-- ended the profile.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

describe("luaperf record of allocations", function()
  local dir

  before_each(function()
    requires { registers = true }
    dir = util.new_directory()
  end)
  after_each(function() util.remove_directory(dir) end)

  local function of_script_alone(stacks)
    assert.matches("a.lua:1 main chunk %d+\n", stacks)
    for stack in stacks:gmatch "[^\n]+" do
      assert.is_nil(stack:find("/perf/", 1, true), stacks)
      assert.is_nil(stack:find("(command line)", 1, true), stacks)
    end
  end

  it("has nothing of luaperf's own", function()
    for _, script in ipairs { "t = { 1 }", "t = { 1 } os.exit(0)", "t = { 1 } os.exit(0, true)" } do
      util.write_file(dir .. "/a.lua", script)
      for _, event in ipairs { "alloc", "heap" } do
        of_script_alone(luaperf.shell(dir, ("luaperf record -e %s -c 1 -o a.folded a.lua >&2; cat a.folded"):format(event)))
      end
    end
  end)

  it("has nothing of perf.auto's own", function()
    util.write_file(dir .. "/a.lua", "t = { 1 }")
    of_script_alone(luaperf.shell(dir,
      "PERF_EVENTS=alloc PERF_PERIOD=1 PERF_OUTPUT=a.folded $LUA -lperf.auto a.lua; cat a.folded"))
  end)
end)
