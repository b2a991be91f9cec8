-- The stories of luaperf record -p of a process that runs Lua: a file that could not be created was refused only after the
-- whole profile had been taken, which was then lost; it was lost too if the directory had gone meanwhile; and a name without an
-- ending, which the manual says is a profile, was given perf.data. Twice: the files are those of luaperf.
local luaperf = require "spec.support.luaperf"
local outside = require "spec.support.outside"
local util = require "spec.support.util"

local function beside(dir, commands)
  util.write_file(dir .. "/waits.lua", "io.stdout:write 'runs\\n' io.stdout:flush() io.read()\n")
  return luaperf.shell(dir, ("mkfifo input output; %s waits.lua <input >output & p=$!; exec 3>input; read line <output\n%s\n"
    .. "exec 3>&-; wait $p"):format(util.lua(), commands))
end

describe("the output of luaperf record -p", function()
  local dir

  before_each(function() dir = util.new_directory() end)
  after_each(function() util.remove_directory(dir) end)

  it("is refused before the program that is given runs", function()
    local output = beside(dir, "luaperf record -p $p -o nowhere/x.html -- touch ran 2>&1; echo $?; ls ran 2>&-")
    assert.equal("luaperf: nowhere/x.html: No such file or directory\n255\n", output)
  end)

  it("goes to another directory if its own has gone", function()
    outside.requires { root = true }
    local output = beside(dir, "mkdir d t; TMPDIR=t luaperf record -p $p -o d/x.html -- rmdir d 2>&1; echo $?; ls t")
    local message, other, file = output:match("^luaperf: d/x.html: (.-)\n"
      .. "%[ luaperf: .- in t/(luaperf%-%d+.json): .- %]\n0\n(.-)\n$")
    assert.equal("No such file or directory", message, output)
    assert.equal(other, file)
  end)

  it("is a profile if its name has no ending", function()
    outside.requires { root = true }
    local output = beside(dir, "luaperf record -p $p -o prof -- true 2>&1; head -c 1 prof")
    assert.matches("^%[ luaperf: .- of task%-clock in prof: .- lost %]\n{$", output)
  end)
end)
