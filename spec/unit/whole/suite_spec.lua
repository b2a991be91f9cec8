-- tools/suite.sh: its output and lists for runs that fail, skip, crash or are stopped. Once: it checks a shell script.
local util = require "spec.support.util"

describe("suite.sh", function()
  -- Its output, its status, and its list of failures with "SPEC" for the file.
  local function suite(text)
    local output, status, list
    util.with_tmpname(function(name)
      util.write_file(name .. "_spec.lua", text)
      output, status = util.shell(("PERF_TOTALS= PERF_FAILED=%s SUITE_NAME=some " ..
        "sh -c 'SUITE_PID=$$ exec tools/suite.sh -l %s %s_spec.lua'"):format(name, util.lua(), name))
      list = util.read_file(name):gsub(("%s_spec.lua"):format(name):gsub("%p", "%%%0"), "SPEC")
      list = list:gsub("\t[^\t]*lua[%w.]*\t", " LUA ")
      os.remove(name .. "_spec.lua")
    end)
    return output, status, list
  end

  it("adds up and names the needs", function()
    local output, status = suite[[
      it("a", function() end)
      it("b", function() requires{ncpu = 100000} end)]]
    assert.equal(0, status)
    assert.matches("\n    1 for lack of 100000 CPUs\n", output, 1, true)
    assert.matches("\n1 passed, 0 failed, 1 skipped\n$", output)
  end)

  -- The story: on Debian sid, whose busted has no files for Lua 5.2, each process of Lua 5.2 counted as a crash.
  it("leaves out an interpreter that busted is not installed for", function()
    local output, status
    util.with_tmpname(function(name)
      os.remove(name)
      local spec = name .. "/some_spec.lua"
      local made = ("mkdir -p %s/bin %s/build/bare && ln -s \"$(realpath ${BUILD:-build})/%s\" %s/build")
      assert.equal(0, select(2, util.shell(made:format(name, name, util.lua(), name))))
      util.write_file(name .. "/build/bare/testkit.so", "")
      util.write_file(name .. "/bin/bare", "#!/bin/sh\nexit 1\n")
      util.write_file(spec, [[it("a", function() end)]])
      output, status = util.shell(("chmod +x %s/bin/bare; PATH=%s/bin:$PATH BUILD=%s/build PERF_TOTALS= PERF_FAILED= " ..
        "tools/suite.sh -l 'bare %s' %s; s=$?; rm -r %s; exit $s"):format(name, name, name, util.lua(), spec, name))
    end)
    assert.equal(0, status, output)
    assert.matches("bare: busted is not installed for it, left out\n", output, 1, true)
    assert.matches("\n1 passed, 0 failed, 0 skipped\n$", output)
  end)

  it("counts a crash as a failure and names the spec", function()
    local output, status = suite[[
      it("a", function() end)
      it("b", function() require("testkit").kill(require("testkit").getpid(), 9) end)]]
    assert.equal(1, status)
    assert.matches("ended with status 137 in: [^\n]* > b\n", output)
    assert.matches("\n1 passed, 1 failed, 0 skipped\n$", output)
  end)

  -- The log of a run far away shows only its ends: the failures must be seen in a few lines.
  it("lists each failure on a line", function()
    local _, _, list = suite[[
      describe("all", function()
        it("a", function()
          error("first\nsecond")
        end)
        it("b", function() end)
        it("c", function() _G.kept = io.open("/dev/null") end)
        it("d", function() end)
      end)
      describe("some", function()
        before_each(function() error({}) end)
        it("e", function() end)
      end)]]
    assert.equal(([[
some LUA SPEC:3|all a|first second
some LUA SPEC:6|all c|spec/support/init.lua:N: leak in 'all c': descriptor N (/dev/null)
some LUA SPEC:10|some|{ }
]]):gsub("|", "\t"), (list:gsub("init.lua:%d+", "init.lua:N"):gsub("descriptor %d+", "descriptor N")))
  end)

  it("lists a crash with a sanitizer's message", function()
    local _, _, list = suite[[
      it("a", function()
        io.stderr:write("==7==ERROR: AddressSanitizer: heap-use-after-free on 0x1\n    #1 0x2 in f /there/csrc/core/x.c:12\n")
        require("testkit").kill(require("testkit").getpid(), 9)
      end)]]
    assert.equal("some LUA \tended with status 137 in: SPEC > a\t" ..
      "ERROR: AddressSanitizer: heap-use-after-free on 0x1 in f /there/csrc/core/x.c:12 \n", list)
  end)

  it("reports its progress if it is stopped", function()
    local output, status, list = suite([[
      it("a", function() end)
      it("b", function()
        os.execute("kill $SUITE_PID")
        while true do end -- until it is told to end as well
      end)]])
    assert.equal(1, status)
    assert.matches("\n1 passed, 1 failed, 0 skipped\n$", output)
    assert.matches("^some LUA \tended with status %d+ in: SPEC > b\t\n$", list)
  end)

  -- The story: "Once:" was recognized only at the beginning of a line, so every interpreter ran four files that had it elsewhere.
  -- An interrupted run listed the spec that ran, and the processes that ended early, as failures.
  it("says that it was interrupted, which is no failure", function()
    local output, _, list = suite[[
      it("a", function() end)
      it("b", function()
        os.execute("kill -s INT $SUITE_PID")
        error("interrupted!", 0)
      end)]]
    assert.matches("interrupted: [01] passed, 0 failed, 0 skipped", output)
    assert.equal("", list)
  end)

  it("runs a file once, twice, on each interpreter, or later, as its comment says", function()
    util.with_directory(function(dir)
      local modules = package.cpath:match "([^;]*)/%?%.so"
      util.shell(("cd %s && ln -s $(command -v %s) one && ln -s one two && ln -s one three && mkdir build"):format(dir,
        util.lua()))
      util.shell(("ln -s \"$(realpath %s)\" %s/build/one && ln -s one %s/build/two && ln -s one %s/build/three"):format(modules,
        dir, dir, dir))
      for name, comment in pairs { a = "", b = "-- Once: it is short.\n", c = "-- A comment. Once: it is short.\n",
        d = "-- A comment: it has a colon. Twice: it is short.\n", e = "-- Long: it is long.\n",
        f = "-- Later: it is the longest.\n", g = "-- Twice: it is long. Later: it is longer.\n" } do
        util.write_file(("%s/%s_spec.lua"):format(dir, name), comment .. "it('runs', function() end)\n")
      end
      for long, passed in pairs { [""] = { one = 7, two = 3, three = 5 }, ends = { one = 7, two = 2, three = 3 },
        test = { one = 5, two = 1, three = 2 }, rest = { one = 2, two = 2, three = 3 } } do
        local output = util.shell(("PATH=%s:$PATH BUILD=%s/build PERF_TOTALS= PERF_FAILED= SUITE_LONG=%s "):format(dir, dir, long)
          .. "tools/suite.sh -l 'one two three' " .. dir)
        local found = {}
        for name, count in output:gmatch "(%a+): (%d+) passed, 0 failed" do found[name] = tonumber(count) end
        assert.same(passed, found, output)
      end
    end)
  end)
end)
