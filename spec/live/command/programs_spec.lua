-- luaperf with other programs, and its messages. Twice: command_spec.lua has what depends on the interpreter, above all scripts.
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

local shell, signalled, with_directory = luaperf.shell, luaperf.signalled, util.with_directory

-- A program that has begun and goes on.
local SLEEPS = "-e task-clock:u -- sh -c 'echo >going; exec sleep 60'"

describe("luaperf stat", function()
  before_each(function() requires { perf_open = true, nosan = true } end)

  it("counts any program with its children, and prints to stderr", function()
    with_directory(function(dir)
      local output, status = shell(dir,
        "luaperf stat -e page-faults,task-clock -- sh -c 'echo out; exit 3' 2>err; echo $? >rc; cat err")
      assert.equal(0, status)
      assert.equal("3\n", util.read_file(dir .. "/rc"))
      assert.matches("^out\n", output)
      assert.matches("\nsh %-c echo out; exit 3:\n\n +[%d,]+ +page%-faults", output)
      assert.matches("[um]s  task%-clock", output)
      assert.matches("elapsed", output)
    end)
  end)

  it("counts a running process, and all CPUs, for a time", function()
    requires { root = true }
    with_directory(function(dir)
      local output, status = shell(dir, "sleep 60 & p=$!; luaperf stat -p $p --timeout 0.05; echo $?; kill $p")
      assert.equal(0, status, output)
      assert.matches("process %d+:\n\n.*task%-clock.*\n0\n$", output)
      output = shell(dir, "luaperf stat -a -- sleep 0.05")
      assert.matches("all CPUs during sleep 0.05:\n\n.*task%-clock", output)
    end)
  end)

  it("prints a message about a mistake, as other commands do", function()
    with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "")
      for line, wanted in pairs {
        ["stat -z"] = { 129, "luaperf: unknown option '-z'\nluaperf: luaperf stat --help lists the options\n" },
        ["stat"] = { 129, "luaperf: no script or program is given: luaperf stat script.lua\n" },
        ["sta"] = { 129, "luaperf: unknown command 'sta'; did you mean 'stat'?\nluaperf: luaperf --help lists them\n" },
        ["stat -e page-fualts true"] = { 129, "luaperf: page-fualts: unknown event; did you mean 'page-faults'?\n" },
        ["stat -e page-fualts a.lua"] = { 129, "luaperf: page-fualts: unknown event; did you mean 'page-faults'?\n" },
        ["stat /no/such/program"] = { 255, "luaperf: /no/such/program: No such file or directory\n" },
        ["stat -p 999999999"] = { 255, "luaperf: no process 999999999\n" },
        ["stat -a -p 1"] = { 129,
          "luaperf: options -p and -a exclude each other\nluaperf: luaperf stat --help lists the options\n" },
        ["record"] = { 129, "luaperf: no script or program is given: luaperf record script.lua\n" },
        ["record -F 9 -c 9 a.lua"] = { 129,
          "luaperf: options -F and -c exclude each other\nluaperf: luaperf record --help lists the options\n" },
        ["record --coroutines both a.lua"] = { 129,
          "luaperf: option --coroutines: alone, resumer or creator expected, got 'both'\n"
            .. "luaperf: luaperf record --help lists the options\n" },
        ["record --coroutines creator true"] = { 129, "luaperf: --coroutines is for scripts and processes that run Lua\n" },
        ["record -o /no/such/a.json a.lua"] = { 255, "luaperf: /no/such/a.json: No such file or directory\n" },
        ["record -e page-fualts a.lua"] = { 129, "luaperf: page-fualts: unknown event; did you mean 'page-faults'?\n" },
        ["record -e '' a.lua"] = { 129, "luaperf: empty event name\n" },
        ["record -o - a.lua"] = { 129, "luaperf: -o -: stdout is the program's; name a file\n" },
        ["stat -o /no/such/a.json a.lua"] = { 255, "luaperf: /no/such/a.json: No such file or directory\n" },
        ["report /dev/zero"] = { 255, "luaperf: /dev/zero: neither a profile nor a perf.data file\n" },
        ["list >/dev/full"] = { 255, "luaperf: stdout: No space left on device\n" },
        ["doctor >/dev/full"] = { 255, "luaperf: stdout: No space left on device\n" },
        ["report"] = { 255, "luaperf: luaperf.json: No such file or directory (luaperf record script.lua makes one)\n" },
        ["report a b"] = { 129, "luaperf: one file at a time; two are compared by --diff OLD NEW\n" },
        ["report --html --folded"] = { 129, "luaperf: one kind of report at a time\n" },
        ["report --perf-data"] = { 129, "luaperf: --perf-data needs a file: -o out.data\n" },
        ["list no-such-event-here"] = { 255, "luaperf: no event matches 'no-such-event-here'\n" } } do
        local output, status = shell(dir, "luaperf " .. line)
        output = output:gsub("; no tracepoints can be looked up.*\n", "\n") -- for ordinary users
        -- util.shell takes a status above 128 for a signal; this is the shell's own number.
        assert.same({ 128 - wanted[1], wanted[2] }, { status, output }, line)
      end
    end)
  end)

  it("has a help text for every command", function()
    local output, status = shell("/", "luaperf --help")
    assert.equal(0, status)
    for _, name in ipairs { "stat", "record", "report", "list", "doctor" } do
      assert.matches("\n  " .. name .. " +%w", output)
      local text, code = shell("/", "luaperf " .. name .. " -h")
      assert.equal(0, code)
      assert.matches("^usage: luaperf " .. name, text)
    end
    assert.matches("^luaperf %d", (shell("/", "luaperf --version")))
  end)
end)

describe("luaperf record", function()
  before_each(function() requires { perf_open = true, nosan = true } end)

  it("records other programs into perf.data, and reports it", function()
    with_directory(function(dir)
      local output, status = shell(dir,
        "luaperf record -e page-faults:u -c 1 -- sh -c 'exit 4'; echo $?; luaperf report -n 3")
      assert.equal(0, status, output)
      local n = output:match "^%[ luaperf: (%d+) samples in perf.data %]\n4\n"
      assert.matches("page%-faults:u: " .. n .. " in " .. n .. " samples\n", output)
    end)
  end)

  it("records a process, and all CPUs, for a time", function()
    requires { root = true }
    with_directory(function(dir)
      local output, status = shell(dir,
        "sleep 60 & p=$!; luaperf record -p $p -- sleep 0.05; kill $p; "
        .. "luaperf record -a -o a.data --timeout 0.2; luaperf report -n 1 a.data")
      assert.equal(0, status, output)
      assert.matches("samples? in perf.data %]\n%[ luaperf: [%d,]+ samples? in a.data[^\n]* %]\n", output) -- some may be lost
    end)
  end)

  it("passes SIGTERM to a program, and writes the samples up to then", function()
    with_directory(function(dir)
      for _, line in ipairs { "record ", "stat " } do
        local status, output = signalled(dir, "TERM", line .. SLEEPS)
        assert.equal(143, status, output)
        assert.matches(line == "stat " and "elapsed" or "samples? in perf.data", output)
      end
    end)
  end)

  it("ends its program by SIGTERM for other signals too, and passes on an interrupt that no terminal sent", function()
    with_directory(function(dir)
      for signal, wanted in pairs { HUP = 129, QUIT = 131, INT = 130 } do
        local status, output = signalled(dir, signal, "stat " .. SLEEPS)
        assert.equal(wanted, status, output)
        assert.matches("task%-clock.*elapsed", output)
        status, output = signalled(dir, signal, "record " .. SLEEPS)
        assert.equal(143, status, output)
        assert.matches("samples? in perf.data", output)
      end
    end)
  end)

  it("records a process until a signal, or until another program ends", function()
    requires { root = true }
    with_directory(function(dir)
      for signal, wanted in pairs { INT = 130, TERM = 143 } do
        for _, line in ipairs { "record", "stat" } do
          local output, status = shell(dir, ("sleep 60 & p=$!; $root/bin/luaperf %s -e page-faults -p $p & q=$!; "
            -- waits until SIGTERM, whose bit this is, has a handler; that is set after SIGINT's
            .. "for i in $(seq 1000); do grep -q '^SigCgt:.*[4-7c-f]...$' /proc/$q/status && break; sleep 0.01; done; "
            .. "kill -%s $q; wait $q; echo $?; kill $p"):format(line, signal))
          assert.equal(0, status, output)
          assert.matches(line == "stat" and "elapsed" or "samples? in perf.data", output)
          assert.matches("\n" .. wanted .. "\n", output)
        end
      end
      local output, status = shell(dir,
        "sleep 60 & p=$!; luaperf record -e page-faults -p $p -- sh -c 'echo ran; exit 6'; echo $?; kill $p")
      assert.equal(0, status)
      assert.matches("^ran\n%[ luaperf: %d+ samples? in perf.data %]\n6\n", output)
      output = shell(dir, "luaperf record -e page-faults -c 1 -a -- sh -c :; echo $?")
      assert.matches("samples? in perf.data[^\n]* %]\n0\n$", output) -- a busy machine may have too many page faults for the ring
    end)
  end)
end)
