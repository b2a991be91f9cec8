-- luaperf and the scripts that it runs: their environment, their results, and words that are not scripts.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local shell = require "spec.support.luaperf".shell
local util = require "spec.support.util"

local with_directory = util.with_directory

describe("a script under luaperf", function()
  before_each(function() requires { perf_open = true, nosan = true } end)

  it("sees the same arguments as without luaperf", function()
    -- Lua 5.1 and 5.2 set arg after the code that luaperf has them run first.
    local before = util.shell(util.lua() .. " -e 'print(arg)' /dev/null"):find "^table"
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", ("for i = %d, 3 do io.write(tostring(arg[i]), ' ') end"):format(before and -6 or 0))
      for _, lua in ipairs { util.lua(), util.lua() .. " -lperf.version" } do
        local wanted = shell(dir, lua .. " a.lua b 'c d'")
        for _, line in ipairs { "stat -o out", "record" } do
          local output = shell(dir, ("export LUA='%s'; luaperf %s a.lua b 'c d' 2>/dev/null"):format(lua, line))
          assert.equal(wanted, output)
        end
      end
    end)
  end)

  it("is run without a profiler with -p and -a", function()
    requires { root = true }
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "print('ran', arg[1], arg[0]) os.exit(4)")
      for _, line in ipairs { "stat -a", "record -a", "stat -p $$", "record -p $$" } do
        local output, status = shell(dir, "luaperf " .. line .. " -e task-clock a.lua x")
        assert.equal(4, status, line .. output)
        assert.matches("^ran\tx\ta.lua\n", output)
      end
    end)
  end)

  it("may change its directory: the result is written relative to the first one", function()
    with_directory(function(dir)
      local chdir = "assert(require('testkit').chdir('sub'))"
      util.write_file(dir .. "/a.lua", chdir)
      util.execute("mkdir " .. dir .. "/sub")
      local output, status = shell(dir, "luaperf record -o a.html a.lua; luaperf stat -o a.json a.lua; ls sub *.html *.json; "
        .. "PERF_MODE=stat PERF_OUTPUT=b.json $LUA -lperf.auto a.lua; ls sub *.json")
      assert.equal(0, status, output)
      assert.matches(" in a.html %]\na.html\na.json\n\nsub:\na.json\nb.json\n\nsub:\n$", output)
    end)
  end)

  it("may be recorded with the options for call graphs of other programs", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "print 'ran'")
      for _, mode in ipairs { "-g", "--call-graph fp", "--call-graph=dwarf" } do
        for _, what in ipairs { "a.lua", "-- $LUA a.lua" } do
          local output, status = shell(dir, ("luaperf record %s -e task-clock:u %s"):format(mode, what))
          assert.equal(0, status, output)
          assert.matches("ran\n", output)
        end
      end
    end)
  end)
end)

describe("a file that is not a script", function()
  it("is named in the message", function()
    with_directory(function(dir)
      util.write_file(dir .. "/noext", "print 'ran'")
      for _, command in ipairs { "stat", "record -e task-clock:u" } do
        local output, status = shell(dir, "luaperf " .. command .. " noext")
        assert.equal(128 - 255, status)
        assert.matches("^luaperf: noext: no program in PATH; and the file of that name here is not a Lua script: .*\n$", output)
      end
    end)
  end)
end)
