-- The story: the profile of a script that ended by exec or _exit was lost, and luaperf said nothing. If a sample is taken while
-- the kernel runs exec, its signal kills the new program, which has no handler: then luaperf said so, but not why.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

describe("luaperf record of a script", function()
  local dir

  before_each(function()
    requires { perf_open = true }
    dir = util.new_directory()
  end)
  after_each(function() util.remove_directory(dir) end)

  local function record(code, event)
    util.write_file(dir .. "/a.lua", code)
    return luaperf.shell(dir, ("luaperf record %s a.lua 2>&1; echo $?"):format(event or "-e page-faults -c 1000000"))
  end

  it("says so if the script ends without a profile", function()
    local lost = "luaperf: a.lua: it called exec or _exit, which end the script at once; its profile is lost\n"
    assert.equal(lost .. "3\n", record("require('testkit').exit(3)"))
    assert.equal("ran\n" .. lost .. "0\n", record("require('testkit').exec('echo', 'ran')"))
  end)

  it("says why a sample may have killed it", function()
    local killed = "^luaperf: a.lua: killed by signal 5; its profile is lost %(a script that calls exec [^\n]+%)\n133\n$"
    assert.matches(killed, record("require('testkit').exec('sh', '-c', 'kill -TRAP $$')"))
  end)

  it("does not say so of other ends", function()
    for _, code in ipairs { "", "os.exit(0)", "os.exit(0, true)", "require('testkit').fork(function() end)" } do
      assert.matches("^%[ luaperf: [^\n]+ in luaperf.json %]\n0\n", record(code))
    end
    assert.matches("^%S+: a.lua:1: no\n.-\n%[ luaperf: [^\n]+ in luaperf.json %]\n1\n", record "error 'no'")
  end)
end)
