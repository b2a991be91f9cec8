-- The story: a chunk may have any name, also that of a pipe: lua script, where script is one. The profile looked for the names of
-- functions in that file, and waited for ever until someone would write into the pipe, or took what was written for others. With
-- another process, that one chose what luaperf opens.
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

describe("a profile of a chunk with a pipe's name", function()
  local dir

  before_each(function()
    requires { perf_open = true }
    dir = util.new_directory()
  end)
  after_each(function()
    util.remove_directory(dir)
    dir = nil
  end)

  it("leaves the pipe alone", function()
    util.write_file(dir .. "/script.lua", [[
local text = "local function fill() local t = {} for i = 1, 1000 do t[i] = ('x'):rep(5000 + i) end return t end return fill()"
assert((loadstring or load)(text, "@pipe"))()
]])
    local output = luaperf.shell(dir, [[
      mkfifo pipe; echo 'local function first() end' >pipe & p=$!
      luaperf record -e page-faults:u -c 1 -o x.folded script.lua >/dev/null 2>&1; echo $?; grep -c 'pipe:1 ' x.folded
      exec 3<>pipe; wait $p; echo end >&3
      while read line <&3; do echo "$line"; [ "$line" = end ] && break; done]])
    assert.matches("^0\n[1-9]%d*\nlocal function first%(%) end\nend\n$", output)
  end)
end)
