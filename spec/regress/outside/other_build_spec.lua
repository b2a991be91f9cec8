-- The story: redis-server has Lua 5.1 in itself, as another build than that of luaperf. A loop of plain arithmetic was shown at
-- the line of its `for`, the last one for which Lua had saved the place.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local luaperf = require "spec.support.luaperf"
local outside = require "spec.support.outside"
local util = require "spec.support.util"

local LINES = [[
local function work(n)
  local s = 0
  for i = 1, n do
    s = s + i % 7
    s = s * 2
    s = s - s / 2
  end
  return s
end
io.stdout:write "runs\n"
io.stdout:flush()
while true do work(1e5) end
]]

describe("a process with another build of the interpreter", function()
  local dir

  before_each(function() dir = util.new_directory() end)
  after_each(function() util.remove_directory(dir) end)

  it("has the lines of the loop's instructions", function()
    outside.requires { root = true, puc = true }
    util.write_file(dir .. "/lines.lua", LINES)
    util.write_file(dir .. "/worked.sh", outside.WORKED)
    -- Another file is another build, as far as luaperf knows.
    local output = luaperf.shell(dir, ([[
      cp "$(readlink -f "$(command -v %s)")" program && mkfifo output
      ./program lines.lua >output & p=$!; read line <output
      luaperf record -p $p -o x.folded -- sh worked.sh $p 2>&1 | grep -v '^.[ ]luaperf'; kill $p; wait $p; cat x.folded]])
      :format(util.lua()))
    local sums, all = {}, 0
    for line, n in output:gmatch "lines.lua:(%d+) work (%d+)\n" do
      sums[line], all = tonumber(n), all + n
    end
    assert.is_true(all > 0, output)
    assert.is_true((sums["4"] or 0) + (sums["5"] or 0) + (sums["6"] or 0) > 0.6 * all, output)
  end)
end)
