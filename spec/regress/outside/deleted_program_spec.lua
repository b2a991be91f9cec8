-- The story: after an upgrade of the interpreter's package, or of a server that has it, processes still run the old file, which
-- has no name any more. luaperf said that such a process runs no Lua, and did not choose its interpreter.
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

describe("a process whose program was deleted", function()
  local dir

  before_each(function() dir = util.new_directory() end)
  after_each(function() util.remove_directory(dir) end)

  it("is known by the interpreter in it", function()
    local interpreter = require("perf.outside.seen").own()
    local output = luaperf.shell(dir, ([[
      cp "$(readlink -f "$(command -v %s)")" program && mkfifo input output
      ./program -e 'print "runs" io.stdout:flush() io.read()' <input >output & p=$!
      exec 3>input; read line <output; rm program
      %s -e "local name, path = require('perf.outside.seen').interpreter($p) print(name, path)"
      exec 3>&-; wait $p]]):format(util.lua(), util.lua()))
    assert.equal(("%s\t%s/program (deleted)\n"):format(interpreter, dir), output)
  end)
end)
