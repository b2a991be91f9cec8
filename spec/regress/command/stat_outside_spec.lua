-- The story: luaperf stat ran its own Lua code in the script's state. The heap of that code moved the steps of the collector, so
-- that a script that made garbage had other page faults than without luaperf (9,177 instead of 184), threads and children were
-- left out without a message, and an event that the machine lacks (cycles on many virtual machines) ended it before the script
-- ran. Now the script runs under its interpreter as it would alone, and is counted from outside. Twice: luaperf counts a script
-- from outside, as any program.
local kit = require "testkit"
local luaperf = require "spec.support.luaperf".shell
local json = require "perf.base.json"
local util = require "spec.support.util"

local with_directory = util.with_directory

local function counts_of(dir, line)
  local output, status = luaperf(dir, "luaperf stat -o out.json " .. line)
  assert.equal(0, status, output)
  return assert(json.decode(util.read_file(dir .. "/out.json"))).counts
end

local FAULTS = "page-faults:u"

describe("luaperf stat", function()
  before_each(function() requires { perf_open = "user", nosan = true } end)

  it("counts the same for a script that makes garbage as without luaperf", function()
    with_directory(function(dir)
      util.write_file(dir .. "/empty.lua", "")
      util.write_file(dir .. "/a.lua", "local t = {} for i = 1, 200000 do t[i % 20000 + 1] = { i, tostring(i) } end")
      local function outside(script)
        return counts_of(dir, ("-e %s -- $LUA %s"):format(FAULTS, script))[FAULTS]
      end
      local alone = outside "a.lua" - outside "empty.lua"
      assert.is_true(alone > 1000)
      -- The loader's random addresses decide whether a large block of malloc can grow in place: 3 % of the faults of Lua 5.3.
      assert.near(alone, counts_of(dir, ("-e %s a.lua"):format(FAULTS))[FAULTS], 0.1 * alone + 10)
    end)
  end)

  it("counts threads and children, unless it is told not to", function()
    with_directory(function(dir)
      util.write_file(dir .. "/child.lua", "require 'testkit'.touch_pages(3000)")
      util.write_file(dir .. "/a.lua", "os.execute(os.getenv 'LUA' .. ' child.lua')")
      assert.is_true(counts_of(dir, ("-e %s a.lua"):format(FAULTS))[FAULTS] >= 3000)
      assert.is_true(counts_of(dir, ("--no-inherit -e %s a.lua"):format(FAULTS))[FAULTS] < 3000)
      assert.is_true(counts_of(dir, ("--no-inherit -e %s -- $LUA a.lua"):format(FAULTS))[FAULTS] < 3000)
    end)
  end)

  it("begins with the script, and not with the interpreter", function()
    requires { tracepoint = "syscalls:sys_enter_getppid" }
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "require 'testkit'.syscalls(7)")
      local c = counts_of(dir, "-e syscalls:sys_enter_getppid,syscalls:sys_enter_execve,syscalls:sys_enter_ptrace a.lua")
      assert.equal(7, c["syscalls:sys_enter_getppid"])
      assert.equal(0, c["syscalls:sys_enter_execve"])
      assert.equal(0, c["syscalls:sys_enter_ptrace"])
    end)
  end)

  it("counts without an event that the machine lacks, in the order of the list", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "print 'ran' os.exit(7)")
      for _, what in ipairs { "a.lua", "-- $LUA a.lua" } do
        local output, status = luaperf(dir, "luaperf stat -e task-clock,no_such_pmu/event=1/,page-faults:u " .. what)
        assert.equal(7, status, output)
        assert.matches("^ran\n.*task%-clock.*\n +<not supported> +no_such_pmu/event=1/ +# [^\n]+\n +[%d,]+ +page%-faults:u",
          output)
        output, status = luaperf(dir, "luaperf stat -e no_such_pmu/event=1/ " .. what)
        assert.equal(7, status, output)
        assert.matches("^ran\n.*\n +<not supported> +no_such_pmu/event=1/", output)
        output, status = luaperf(dir, "luaperf stat -r 2 -e no_such_pmu/event=1/,task-clock " .. what)
        assert.equal(7, status, output)
      end
    end)
  end)

  it("counts faults, and cycles where the machine counts them", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "")
      local output, status = luaperf(dir, "luaperf stat -e cycles:u,page-faults:u a.lua")
      assert.equal(0, status, output)
      assert.matches("cycles:u.*\n +[%d,]+ +page%-faults:u", output)
    end)
  end)

  it("leaves a script its standard input, its arguments and its exit status", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "io.write(io.read '*a', ' ', tostring(arg[-2]), ' ', arg[-1], ' ', ...) os.exit(5)")
      local wanted = luaperf(dir, "echo in | $LUA a.lua b c")
      assert.equal(wanted, (luaperf(dir, "echo in | luaperf stat -o out a.lua b c")))
      util.write_file(dir .. "/kill.lua", "io.write 'ran' io.stdout:flush() os.execute('kill -9 $PPID')")
      local output, status = luaperf(dir, "luaperf stat -e task-clock kill.lua")
      assert.equal(-9, status)
      assert.matches("^ran\nkill.lua:\n\n.*task%-clock.*elapsed", output)
    end)
  end)

  it("counts from the interpreter's start, with a warning, where it cannot see the script's start", function()
    requires { seccomp = true }
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "print 'ran' os.exit(4)")
      local output = util.in_child(function()
        assert(kit.refuse("ptrace", 1))
        local text, status = luaperf(dir, "luaperf stat -e task-clock a.lua")
        return status .. " " .. text
      end)
      assert.matches("^4 luaperf: a.lua: the counts include the start of the interpreter, .*\nran\n.*task%-clock", output)
    end)
  end)

  it("passes on a signal that arrives before the script begins, and then still prints counts and their wall time", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "")
      util.write_file(dir .. "/wait", '#!/bin/sh\ncase $1 in a.lua) : >going; exec sleep 60;; esac\nexec $REAL "$@"\n')
      local output, status = luaperf(dir, "chmod +x wait; REAL=$LUA LUA=./wait; export REAL; "
        .. "$root/bin/luaperf stat -e task-clock -o out.json a.lua >out 2>&1 & p=$!; "
        .. "while ! [ -e going ]; do sleep 0.01; done; kill -TERM $p; wait $p; echo $? >rc")
      assert.equal(0, status, output)
      assert.equal("143\n", util.read_file(dir .. "/rc"))
      assert.matches("^luaperf: a.lua: the counts include the start .*: a signal arrived before it was opened\n$",
        util.read_file(dir .. "/out"))
      local c = assert(json.decode(util.read_file(dir .. "/out.json")))
      assert.is_true(c.counts["task-clock"] > 0 and c.counts["task-clock"] <= c.wall_ns)
    end)
  end)

  it("warns when a script's first line names another interpreter", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "#!/usr/bin/env lua9.9\nprint 'ran'")
      util.write_file(dir .. "/b.lua", "#!/usr/bin/lua\nprint 'ran'")
      for _, command in ipairs { "stat -e task-clock:u", "record -e task-clock:u" } do
        local output, status = luaperf(dir, ("luaperf %s a.lua"):format(command))
        assert.equal(0, status, output)
        assert.matches("^luaperf: a.lua: its first line names lua9.9, but it runs under [^\n]+\n.*ran\n", output)
        assert.is_nil((luaperf(dir, ("luaperf %s b.lua"):format(command))):find "its first line")
      end
    end)
  end)
end)
