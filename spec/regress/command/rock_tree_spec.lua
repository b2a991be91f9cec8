-- The story: in a tree of LuaRocks luaperf could list events but not run a script: "module 'perf.command.session' not found".
-- LuaRocks moved the program below lib/luarocks and started it by a launcher whose searcher found the modules; the interpreter of
-- the script had neither, and LUA did not choose luaperf's own interpreter. So the rock installs luaperf unchanged. Then it
-- loaded an older copy that the interpreter found, instead of the one that it was installed with. Twice: luaperf's launcher is a
-- shell script.
local util = require "spec.support.util"

local version = _VERSION:match "%d.%d"

-- The directory of the core that this spec uses.
local function build_directory()
  for pattern in package.cpath:gmatch "[^;]+" do
    local path = pattern:gsub("%?", "perf/core")
    local f = io.open(path, "rb")
    if f then
      f:close()
      return (path:gsub("/core%.so$", ""))
    end
  end
  error "the core is not in package.cpath"
end

describe("luaperf in a tree of LuaRocks", function()
  before_each(function() requires { perf_open = "user", nosan = true } end)

  it("runs scripts, with the modules that it was installed with", function()
    util.with_directory(function(dir)
      local here = util.shell "pwd":gsub("%s+$", "")
      local output, status = util.shell(([[
        set -e
        build=$(readlink -f %s)
        cd %s
        mkdir -p bin share/lua/%s lib/lua/%s older/perf
        cp %s/bin/luaperf bin
        ln -s %s/lua/perf share/lua/%s/perf
        ln -s "$build" lib/lua/%s/perf]]):format(build_directory(), dir, version, version, here, here, version, version))
      assert.equal(0, status, output)
      util.write_file(dir .. "/older/perf/command.lua", "error 'the older one'")
      util.write_file(dir .. "/a.lua", "for i = 1, 1e5 do tostring(i) end print 'ran'")
      for _, command in ipairs { "stat -e task-clock", "record -e task-clock -o a.json" } do
        output, status = util.shell(("cd %s && env -u LUA_CPATH -u LUA_INIT LUA_PATH='%s/older/?.lua;;' LUA=%s timeout 600 "
          .. "bin/luaperf %s a.lua"):format(dir, dir, util.lua(), command))
        assert.equal(0, status, output)
        assert.matches("ran\n", output)
      end
      assert.matches('^{"$schema"', util.read_file(dir .. "/a.json"))
    end)
  end)
end)
