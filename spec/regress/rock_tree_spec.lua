-- The story: in a tree of LuaRocks luaperf could list events and not run a script: "module 'perf.command.session' not found".
-- LuaRocks moves the program below lib/luarocks, starts it by a launcher whose searcher finds the modules, and the interpreter
-- of the script knew nothing of either.
local util = require "spec.support.util"

local version = _VERSION:match "%d.%d"

-- Where the core that this spec runs with was found.
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
  before_each(function() requires { perf_open = true, nosan = true } end)

  it("runs scripts", function()
    util.with_directory(function(dir)
      local bin = ("%s/lib/luarocks/rocks-%s/lua-perf/1.2-3/bin"):format(dir, version)
      local here = util.shell "pwd":gsub("%s+$", "")
      local build = build_directory()
      local output, status = util.shell(([[
        set -e
        mkdir -p %s %s/share/lua/%s %s/lib/lua/%s
        cp bin/luaperf %s
        ln -s %s/lua/perf %s/share/lua/%s/perf
        ln -s $(readlink -f %s) %s/lib/lua/%s/perf]]):format(bin, dir, version, dir, version, bin, here, dir, version, build, dir,
        version))
      assert.equal(0, status, output)
      util.write_file(dir .. "/a.lua", "for i = 1, 1e5 do tostring(i) end print 'ran'")
      -- As the launcher does: a searcher finds the modules, package.path does not have the tree.
      util.write_file(dir .. "/launch.lua", ([[
        local path, cpath = package.path, package.cpath
        package.path = "%s/share/lua/%s/?.lua;%s/share/lua/%s/?/init.lua;" .. path
        package.cpath = "%s/lib/lua/%s/?.so;" .. cpath
        require "perf.core"
        require "perf.command"
        package.path, package.cpath = path, cpath]]):format(dir, version, dir, version, dir, version))
      for _, command in ipairs { "stat -e task-clock", "record -e task-clock -o a.json" } do
        output, status = util.shell(("cd %s && export LUA=%s && env -u LUA_PATH -u LUA_CPATH -u LUA_INIT timeout 60 "
          .. "$LUA -e 'dofile \"launch.lua\"' %s/luaperf %s a.lua"):format(dir, util.lua(), bin, command))
        assert.equal(0, status, output)
        assert.matches("ran\n", output)
      end
      assert.matches('^{"$schema"', util.read_file(dir .. "/a.json"))
    end)
  end)
end)
