-- The story: make demo LUA=lua5.9 installed LuaJIT and more packages, and only then said that it does not know lua5.9.
local shell = require "spec.support.luaperf".shell
local util = require "spec.support.util"

describe("make demo", function()
  -- A directory with this Makefile, in which tools/setup.sh says that it would install. @return what make prints
  local function demo(arguments)
    local output
    util.with_directory(function(dir)
      shell(dir, "mkdir tools")
      util.write_file(dir .. "/Makefile", (util.read_file "Makefile"))
      util.write_file(dir .. "/tools/setup.sh", "#!/bin/sh\necho install for $LUA\nexit 1\n")
      shell(dir, "chmod +x tools/setup.sh")
      output = shell(dir, "LD_PRELOAD= env -u LUA_INCDIR -u MAKEFLAGS make -s demo " .. arguments .. " 2>&1")
    end)
    return output
  end

  before_each(function() requires { cmd = "make" } end)

  it("installs nothing for an interpreter that it does not know", function()
    local said = demo "LUA=lua5.9"
    assert.matches("LUA=lua5.9 is none of: luajit lua5.1 lua5.2 lua5.3 lua5.4", said, 1, true)
    assert.is_nil(said:find("install", 1, true))
    assert.matches("install for lua5.4\n", demo "LUA=lua5.4", 1, true)
  end)

  it("leaves an interpreter whose headers are given to the build", function()
    assert.matches("install for lua5.9\n", demo "LUA=lua5.9 LUA_INCDIR=/usr/include", 1, true)
  end)
end)
