-- The command luaperf and perf.auto, as a user calls them, under the interpreter that runs the specs. programs_spec.lua has what
-- does not depend on the interpreter.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local core = require "perf.core"
local json = require "perf.base.json"
local as_nobody = require "spec.support.nobody"
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

local shell, signalled, with_directory = luaperf.shell, luaperf.signalled, util.with_directory

local FAULTS = "local kit = require 'testkit'\nlocal function touch(n)\n  kit.touch_pages(n)\nend\ntouch(tonumber(arg[1]))\n"

local function counted(dir, n, options)
  util.write_file(dir .. "/faults.lua", FAULTS)
  local output, status = shell(dir, ("luaperf stat -e page-faults:u -o out.json %s faults.lua %d"):format(options or "", n))
  assert.equal(0, status, output)
  return assert(json.decode(util.read_file(dir .. "/out.json")))
end

describe("luaperf stat", function()
  before_each(function() requires { perf_open = true, nosan = true } end)

  it("counts a script", function()
    with_directory(function(dir)
      local few, many = counted(dir, 0), counted(dir, 2000)
      assert.near(2000, many.counts["page-faults:u"] - few.counts["page-faults:u"], 200)
      assert.is_true(many.wall_ns > 0)
    end)
  end)

  it("repeats a run", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "print 'ran'")
      local output, status = shell(dir, "luaperf stat -r 3 -e page-faults:u a.lua")
      assert.equal(0, status, output)
      assert.equal(3, select(2, output:gsub("ran\n", "")))
      assert.matches("a.lua, mean of 3 runs:\n\n +[%d.,]+ +page%-faults:u  %+%- %d+%.%d+ %%", output)
    end)
  end)

  -- The story: the file of several runs had no means, had another structure than that of one run, and was not documented.
  it("writes the means of several runs, and each run, as JSON", function()
    requires { module = "dkjson" }
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "local n = io.open('n', 'a') n:write 'x' n:close() os.exit(arg[1] and 3)")
      local function run(arguments)
        local output, status = shell(dir, "luaperf stat -r 4 -e page-faults:u,dummy -o x.json a.lua " .. arguments)
        return assert(require "dkjson".decode(util.read_file(dir .. "/x.json")), output), status
      end
      local t, status = run ""
      assert.equal(0, status)
      assert.equal("xxxx", util.read_file(dir .. "/n"))
      assert.equal(4, #t.runs)
      local sum, square = 0, 0
      for _, r in ipairs(t.runs) do
        assert.equal("page-faults:u", r.events[1].label)
        assert.equal(r.events[1].value, r.counts["page-faults:u"])
        sum = sum + r.events[1].value
      end
      local e = t.events[1]
      for _, r in ipairs(t.runs) do square = square + (r.events[1].value - sum / 4) ^ 2 end
      assert.same({ "page-faults:u", 4 }, { e.label, e.runs })
      assert.is_true(math.abs(e.mean - sum / 4) < 1e-6)
      assert.is_true(math.abs(e.stddev - math.sqrt(square / 3)) < 1e-6)
      assert.is_true(math.abs(e.percent - 100 * e.stddev / 2 / e.mean) < 1e-6)
      e = t.events[2]
      assert.same({ "dummy", 4, 0, 0, 0 }, { e.label, e.runs, e.mean, e.stddev, e.percent })
      assert.is_true(t.wall_ns.mean > 0)
      t, status = run "fail" -- the first run is the last: the structure is the same
      assert.equal(3, status)
      assert.same({ 1, 1, 0 }, { #t.runs, t.events[1].runs, t.events[1].stddev })
    end)
  end)

  it("exits with the script's status", function()
    with_directory(function(dir)
      util.write_file(dir .. "/exit.lua", "os.exit(7)")
      util.write_file(dir .. "/error.lua", "error 'oops'")
      util.write_file(dir .. "/kill.lua", "os.execute('kill -9 $PPID')")
      local output, status = shell(dir, "luaperf stat exit.lua")
      assert.equal(7, status)
      assert.matches("elapsed", output)
      output, status = shell(dir, "luaperf stat error.lua")
      assert.equal(1, status)
      assert.matches("error.lua:1: oops.*elapsed", output)
      output, status = shell(dir, "luaperf stat kill.lua")
      assert.equal(-9, status)
      assert.matches("kill.lua:\n.*elapsed", output)
    end)
  end)
end)

describe("luaperf record", function()
  before_each(function() requires { perf_open = true, nosan = true } end)

  it("profiles a script by any event, into the kind of file that is asked for", function()
    with_directory(function(dir)
      util.write_file(dir .. "/faults.lua", FAULTS)
      local output, status = shell(dir, "luaperf record -e page-faults:u -c 1 faults.lua 3000; luaperf report -n 5")
      assert.equal(0, status, output)
      assert.matches("^%[ luaperf: [%d,]+ samples of page%-faults:u in luaperf.json %]\n", output)
      local self, name = output:match "Lua line\n *([%d,]+) +[%d.]+ +[%d,]+ +[%d.]+  ([^\n]+)\n"
      assert.matches("^faults.lua:3 ", name)
      assert.near(3000, tonumber((self:gsub(",", ""))), 150)
      for file, magic in pairs { ["a.html"] = "^<!DOCTYPE html>", ["a.folded"] = "^[^\n]*faults.lua:5 main chunk",
        ["a.data"] = "^PERFILE2", ["a.pb"] = "", ["a.json"] = '^{"$schema"' } do
        output, status = shell(dir, "luaperf record -e page-faults:u -o " .. file .. " faults.lua 100")
        assert.equal(0, status, output)
        assert.matches(magic, util.read_file(dir .. "/" .. file))
      end
    end)
  end)

  it("keeps the profile if the script ends by os.exit or an error", function()
    with_directory(function(dir)
      for code, wanted in pairs { ["os.exit(7)"] = 7, ["os.exit(7, true)"] = 7, ["error 'oops'"] = 1, ["error {}"] = 1,
        ["coroutine.wrap(function() os.exit(5) end)()"] = 5, ["os.exit = nil"] = 0, ["io.stdout:close()"] = 0 } do
        os.remove(dir .. "/luaperf.json")
        util.write_file(dir .. "/a.lua", code)
        local output, status = shell(dir, "luaperf record a.lua")
        assert.equal(wanted, status, code .. output)
        assert.matches('^{"$schema"', util.read_file(dir .. "/luaperf.json"))
      end
    end)
  end)

  it("writes the profile when SIGTERM ends a script", function()
    with_directory(function(dir)
      for name, code in pairs { compiled = "local s = 0 for i = 1, 1e15 do s = s + i % 7 end",
        calls = "while true do string.rep('x', 10):byte() end", waits = "require('perf.core').watch({}, 60)",
        coroutines = "coroutine.wrap(function() while true do coroutine.wrap(function() tostring(1) end)() end end)()",
        caught = "while true do pcall(string.rep) end" } do
        os.remove(dir .. "/luaperf.json")
        util.write_file(dir .. "/a.lua", "io.open('going', 'w'):close() " .. code)
        local status, output = signalled(dir, "TERM", "record a.lua")
        assert.equal(143, status, name .. output)
        assert.matches("^%[ luaperf: [%d,]+ samples? of task%-clock in luaperf.json %]\n$", output)
        assert.matches('^{"$schema"', util.read_file(dir .. "/luaperf.json"))
      end
      util.write_file(dir .. "/a.lua", "io.open('going', 'w'):close() require('perf.core').watch({}, 60)")
      local status, output = signalled(dir, "TERM", "stat -e task-clock a.lua")
      assert.equal(143, status)
      assert.matches("a.lua:\n\n.*task%-clock.*elapsed", output)
    end)
  end)

  it("handles SIGHUP and SIGQUIT like SIGTERM", function()
    with_directory(function(dir)
      for signal, wanted in pairs { HUP = 129, QUIT = 131 } do
        util.write_file(dir .. "/a.lua", "io.open('going', 'w'):close() require('perf.core').watch({}, 60)")
        for _, line in ipairs { "record a.lua", "stat -e task-clock a.lua" } do
          local status, output = signalled(dir, signal, line)
          assert.equal(wanted, status, line .. output)
          assert.matches(line:find "^stat" and "task%-clock.*elapsed" or "samples? ", output)
        end
      end
    end)
  end)

  it("ignores SIGHUP under nohup", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua",
        "io.open('going', 'w'):close() require('perf.core').watch({}, 0.5) os.exit(3)")
      os.remove(dir .. "/going")
      shell(dir, "trap '' HUP; $root/bin/luaperf record a.lua >out 2>&1 & p=$!; for i in $(seq 1000); do [ -e going ] && break; "
        .. "sleep 0.01; done; kill -HUP $p; wait $p; echo $? >rc")
      assert.equal("3\n", util.read_file(dir .. "/rc"))
    end)
  end)

  it("leaves SIGTERM to a script that handles it", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "local kit = require 'testkit' kit.count_signals(15) io.open('going', 'w'):close() "
        .. "require('perf.core').watch({}, 60) os.exit(kit.count_signals(15, false) > 0 and 9 or 8)")
      local status, output = signalled(dir, "TERM", "record a.lua")
      assert.equal(9, status, output)
      assert.matches("luaperf.json %]\n$", output)
    end)
  end)

  it("ends a script by SIGTERM on an interrupt that no terminal sent", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "io.open('going', 'w'):close() while true do string.rep('x', 10):byte() end")
      local status, output = signalled(dir, "INT", "record a.lua")
      assert.equal(143, status, output)
      assert.matches("luaperf.json %]\n$", output)
    end)
  end)

  it("writes a profile elsewhere if its file cannot be written", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "")
      local output, status = shell(dir, "TMPDIR=" .. dir .. " luaperf record -o /dev/full a.lua")
      assert.equal(0, status, output)
      local path = output:match "^luaperf: /dev/full: No space left on device\n%[ luaperf: %d+ samples? of task%-clock in (%S+)"
      assert.equal(dir, path:match "^(.*)/")
      assert.matches('^{"$schema"', util.read_file(path))
    end)
  end)

  it("writes no profile in the child of a fork", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua",
        "local kit = require 'testkit' kit.fork(function() os.exit(0) end) kit.fork(function() end)")
      local output, status = shell(dir, "luaperf record a.lua")
      assert.equal(0, status, output)
      assert.equal(1, select(2, output:gsub("luaperf:", "")), output)
    end)
  end)
end)

describe("luaperf report", function()
  it("converts a profile into every format", function()
    with_directory(function(dir)
      local prof = require "spec.support.profiles".program()
      assert(prof:speedscope(dir .. "/luaperf.json"))
      assert.equal(tostring(prof:top(3)) .. "\n", (shell(dir, "luaperf report -n 3")))
      assert.equal(prof:folded(), (shell(dir, "luaperf report --folded luaperf.json")))
      assert.equal(prof:folded(), (shell(dir, "luaperf report -o a.folded && cat a.folded")))
      assert.matches("^<!DOCTYPE html>", (shell(dir, "luaperf report --html | head -n 1")))
      assert.matches("^<!DOCTYPE html>", (shell(dir, "luaperf report luaperf.json -o a.html; head -n 1 a.html")))
      assert.equal(tostring(prof:diff(prof)) .. "\n", (shell(dir, "luaperf report --diff luaperf.json luaperf.json")))
      assert.equal(tostring(prof:diff(prof, 2)) .. "\n", (shell(dir, "luaperf report -n 2 --diff luaperf.json luaperf.json")))
      assert.matches('"diff":true', (shell(dir, "luaperf report --diff luaperf.json --html luaperf.json")))
      assert.equal("task-clock: 100.000 ms in 6 samples\n",
        (shell(dir, "luaperf report -o a.data; luaperf report a.data | head -n 1")))
      local output, status = shell(dir, "luaperf report -e cycles")
      assert.same({ "luaperf: luaperf.json: has no event 'cycles', but task-clock\n", 128 - 255 }, { output, status })
      output, status = shell(dir, "luaperf report --html -o /dev/full")
      assert.same({ "luaperf: /dev/full: No space left on device\n", 128 - 255 }, { output, status })
      for _, kind in ipairs { "", "--folded" } do
        output, status = shell(dir, "luaperf report " .. kind .. " >/dev/full")
        assert.same({ "luaperf: stdout: No space left on device\n", 128 - 255 }, { output, status })
      end
      assert.equal(prof:folded(), (shell(dir, "cat luaperf.json | luaperf report --folded -o - -")))
      output, status = shell(dir, "luaperf report -o a.data && head -c 700 a.data >b.data; luaperf report b.data")
      assert.equal(0, status)
      assert.matches("^luaperf: b.data: .*; the profile is incomplete\n%l+%-clock: ", output)
    end)
  end)
end)

describe("luaperf list and doctor", function()
  it("print the text of the module's function", function()
    assert.matches("^NAME +KIND.*\npage%-faults", (shell("/", "luaperf list page-faults")))
    assert.matches("^lua%-perf ", (shell("/", "luaperf doctor")))
  end)
end)

describe("perf.auto", function()
  before_each(function() requires { perf_open = true, nosan = true } end)

  local function auto(dir, env, rest)
    return shell(dir, ("%s $LUA -lperf.auto %s"):format(env, rest))
  end

  it("profiles a program without a change to it", function()
    with_directory(function(dir)
      util.write_file(dir .. "/faults.lua", FAULTS)
      local output, status = auto(dir, "PERF_EVENTS=page-faults:u PERF_PERIOD=1 PERF_VERBOSE=1", "faults.lua 2000")
      assert.equal(0, status)
      assert.matches("^%[ luaperf: [%d,]+ samples of page%-faults:u in luaperf.json %]\npage%-faults:u: ", output)
      assert.matches("faults.lua:3 touch\n", output)
      output = auto(dir, "PERF_OUTPUT=a.folded PERF_FREQ=99 PERF_QUIET=1", "faults.lua 0")
      assert.equal("", output)
      assert.is_string(util.read_file(dir .. "/a.folded"))
    end)
  end)

  it("counts a program without a change to it", function()
    with_directory(function(dir)
      local output, status = auto(dir, "PERF_MODE=stat PERF_EVENTS=page-faults,task-clock", "-e 'os.exit(3)'")
      assert.equal(3, status)
      assert.matches("^\n +[%d,]+ +page%-faults.*elapsed\n$", output)
    end)
  end)

  it("is quiet with PERF_QUIET, unless a result would be lost", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "")
      assert.equal("", (auto(dir, "PERF_QUIET=1 PERF_MODE=stat PERF_EVENTS=page-faults", "a.lua")))
      assert.equal("", (auto(dir, "PERF_QUIET=1 PERF_VERBOSE=1", "a.lua")))
      assert.matches("^luaperf: /dev/full: No space left on device\n%[ luaperf: .* in " .. dir .. "/luaperf%-%d+.json %]\n$",
        (auto(dir, "TMPDIR=" .. dir .. " PERF_QUIET=1 PERF_OUTPUT=/dev/full", "a.lua")))
    end)
  end)

  it("reports wrong variables, and does not run the program", function()
    for env, wanted in pairs { ["PERF_MODE=x"] = "perf.auto: PERF_MODE: record or stat expected, got 'x'\n",
      ["PERF_FREQ=fast"] = "perf.auto: PERF_FREQ: positive integer expected, got 'fast'\n",
      ["PERF_PERIOD=0"] = "perf.auto: PERF_PERIOD: positive integer expected, got '0'\n",
      ["PERF_NATIVE=yes"] = "perf.auto: PERF_NATIVE: 0 or 1 expected, got 'yes'\n",
      ["PERF_PERIOD=1 PERF_FREQ=1"] = "perf.auto: PERF_FREQ and PERF_PERIOD exclude each other\n",
      ["PERF_EVENTS=page-fualts"] = "luaperf: PERF_EVENTS: page-fualts: unknown event; did you mean 'page-faults'?\n",
      ["PERF_OUTPUT=/no/such/file"] = "luaperf: /no/such/file: No such file or directory\n" } do
      local output, status = auto("/tmp", env, "-e 'print(1)'")
      assert.same({ wanted, 128 - 255 }, { output, status }, env)
    end
  end)

  it("works without privileges", function()
    requires { root = true, cmd = "flock" }
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "for i = 1, 1e5 do tostring(i) end")
      local copied = luaperf.copied(dir)
      util.execute("chmod 777 " .. dir)
      local text = as_nobody(2, function()
        assert.is_true(core.euid() ~= 0)
        return copied "$LUA -lperf.auto a.lua; luaperf stat ls"
      end)
      assert.matches("task%-clock.*\n +[%d,]+ +page%-faults:u", text)
      assert.matches("samples? of task%-clock in luaperf.json", text)
    end)
  end)
end)

describe("luaperf annotate and the trees of luaperf report", function()
  it("show a script's work by its lines and calls", function()
    requires { perf_open = true, nosan = true }
    with_directory(function(dir)
      util.write_file(dir .. "/faults.lua", FAULTS)
      local output, status = shell(dir, "luaperf record -e page-faults:u -c 1 faults.lua 1000 2>&-; luaperf annotate faults.lua")
      assert.equal(0, status, output)
      local weight, share = output:match "\n *([%d,]+) +([%d.]+) +[%d,]+ +[%d.]+ +3  |   kit%.touch_pages%(n%)\n"
      assert.near(1000, tonumber((weight:gsub(",", ""))), 50)
      assert.is_true(tonumber(share) > 50)
      assert.falsy(output:find "\27")
      output, status = shell(dir,
        "luaperf annotate --color always -U 0; luaperf report --sandwich touch; luaperf report --tree -n 3")
      assert.equal(0, status, output)
      assert.matches("\27%[31m[^\n]*kit%.touch_pages%(n%)\27%[0m\n", output)
      assert.matches("\ntotal +%%  callers\n[^\n]*touch faults.lua:2\n[^\n]*main chunk faults.lua\n\n", output)
      assert.matches("  callees\n[^\n]*touch faults.lua:2\n[^\n]*testkit.touch_pages\n", output)
      assert.matches("  all\n[^\n]*main chunk faults.lua\n[^\n]*touch faults.lua:2\n[^\n]*lighter ones\n$", output)
      for line, wanted in pairs { ["report --sandwich tuch"] = "no function is called 'tuch'; did you mean 'touch'?",
        ["report --tree --html"] = "--tree and --sandwich are text, not another format",
        ["report --by line"] = "--by needs --tree or --sandwich", ["annotate a b"] = "one source file at a time",
        ["annotate no.lua"] = "no.lua: the profile has no line of this file; it has lines of faults.lua",
        ["annotate m.json"] = "m.json: the profile has no line of this file; to read it as a profile: -i m.json" } do
        output = shell(dir, "luaperf " .. line .. " 2>&1")
        assert.equal("luaperf: " .. wanted .. "\n", output)
      end
    end)
  end)
end)
