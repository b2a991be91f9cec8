-- The story: messages that did not say what was wrong. `luaperf record -c 9223372036854775807` and a period of 2 ^ 62 were
-- refused since a positive integer was expected: both are, but too large. `luaperf report --diff` said that option -d needs a
-- file. For an empty name, such as that of an unset variable, the message was ": No such file or directory". For a script that
-- the user may not read, in a directory where no file may be made, the message of record was about perf.data alone.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local luaperf = require "spec.support.luaperf"
local perf = require "perf"
local util = require "spec.support.util"

describe("the message of luaperf", function()
  local function try(command)
    local output
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "")
      output = luaperf.shell(dir, "luaperf " .. command .. " 2>&1")
    end)
    return output
  end

  it("has the largest number that an option allows, for a larger one", function()
    for number, wanted in pairs { ["record -c 9223372036854775807"] = "option -c: positive integer, at most 2^53, expected",
      ["record -F 99999999999999999999"] = "option -F: positive integer, at most 2^53, or max expected",
      ["stat -r 1e30"] = "option -r: positive integer, at most 2^53, expected",
      ["stat --timeout 1e99"] = "option --timeout: number above 0, at most 2^53, expected",
      ["record --timeout 1e999"] = "option --timeout: number above 0, at most 2^53, expected" } do
      assert.equal(("luaperf: %s, got '%s'"):format(wanted, number:match "%S+$"), try(number .. " a.lua"):match "[^\n]*")
    end
    for number, wanted in pairs { ["record -c 0"] = "option -c: positive integer expected, got '0'",
      ["record --timeout 0"] = "option --timeout: number above 0 expected, got '0'" } do
      assert.equal("luaperf: " .. wanted, try(number .. " a.lua"):match "[^\n]*")
    end
  end)

  it("has the option as it was given", function()
    for given, wanted in pairs { ["report --diff"] = "option --diff needs FILE: ", ["report -d"] = "option -d needs FILE: ",
      ["stat --pid=x"] = "option --pid: a process number expected, got 'x'",
      ["stat -px"] = "option -p: a process number expected, got 'x'",
      ["record --switch-output x true"] = "option --switch-output: a size (10M, with B, K, M or G) or a time " } do
      assert.matches("luaperf: " .. wanted, try(given), 1, true)
    end
  end)

  it("says that a name is empty", function()
    for _, command in ipairs { "stat", "record", "stat -p $$", "record -p $$" } do
      assert.equal("luaperf: the name of the script or program is empty\n", try(command .. " ''"))
    end
    for _, command in ipairs { "stat -o '' a.lua", "record -o '' a.lua", "report -o ''" } do
      assert.equal("luaperf: option -o: the name of a file expected, got ''", try(command):match "[^\n]*")
    end
    assert.equal("luaperf: the name of the file is empty\n", try "report ''")
    assert.equal("luaperf: option -i: the name of a file expected, got ''", (try "report -i ''"):match "[^\n]*")
  end)

  it("is about the script that cannot be read, not about the output; and says how another output is named", function()
    requires { root = true, perf_open = "user", cmd = "setpriv" }
    util.with_directory(function(dir)
      local run = luaperf.copied(dir)
      util.write_file(dir .. "/un.lua", "")
      util.execute(("chmod 600 %s/un.lua; chmod 755 %s"):format(dir, dir))
      local function refused(command)
        return run("setpriv --reuid 65534 --regid 65534 --clear-groups $root/bin/luaperf " .. command .. " 2>&1")
      end
      for _, command in ipairs { "stat", "record" } do
        assert.equal("luaperf: ./un.lua: Permission denied\n", refused(command .. " ./un.lua"))
        assert.equal("luaperf: un.lua: Permission denied\n", refused(command .. " un.lua"))
      end
      assert.equal("luaperf: perf.data: Permission denied (-o FILE names another file)\n", refused "record true")
      assert.equal("luaperf: ./x.data: Permission denied\n", refused "record -o ./x.data true")
    end)
  end)
end)

describe("the error of a function", function()
  it("has the largest number that an option allows, for a larger one", function()
    for _, v in ipairs { 2 ^ 62, 2 ^ 70, math.huge } do
      assert.matches("option 'period': positive integer, at most 2^53, expected, got ",
        util.message_of(perf.profile, { period = v }, print), 1, true)
    end
    assert.matches("option 'min_time': number of at least 0, at most 2^53, expected, got inf",
      util.message_of(perf.bench, print, { min_time = math.huge }), 1, true)
    assert.matches("option 'period': positive integer expected, got -1", util.message_of(perf.profile, { period = -1 }, print), 1,
      true)
  end)
end)
