-- The habits of perf's users: luaperf does what they type, or its message says what to use instead.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local luaperf = require "spec.support.luaperf"
local of_perf = require "perf.command.of_perf"
local options = require "perf.command.options"
local sysctl = require "spec.support.sysctl"
local util = require "spec.support.util"

local function try(command, files)
  local output
  util.with_directory(function(dir)
    for name, text in pairs(files or {}) do util.write_file(dir .. "/" .. name, text) end
    output = luaperf.shell(dir, command .. "\necho status $?")
  end)
  return output
end

local PROFILE = { ["luaperf.json"] = "main;f 3\n" }

describe("luaperf", function()
  it("says what to use instead of an option or a command of perf", function()
    for command, wanted in pairs {
      ["luaperf script"] = "unknown command 'script'; perf.data.open%(FILE%):records",
      ["luaperf stat -D 5 x.lua"] = "unknown option '%-D'; perf.start",
      ["luaperf report --sort=sym"] = "unknown option '%-%-sort=sym'; the tables are by line",
      ["luaperf top --call-graph"] = "unknown option '%-%-call%-graph'; use luaperf record",
      ["luaperf record --no-such"] = "unknown option '%-%-no%-such'",
      ["luaperf report -n"] = "option %-n needs N: rows of each table" } do
      assert.matches("^luaperf: " .. wanted .. ".*status 129", try(command))
    end
  end)

  it("has none of the options and commands that it sends elsewhere", function()
    local main = require "perf.command"
    for command, texts in pairs(of_perf) do
      for name in pairs(texts) do
        if command == "commands" then
          for _, own in ipairs(main.commands) do assert.not_equal(own, name) end
        else
          local _, _, unknown = options.parse(require("perf.command." .. command).options, { name }, 1)
          assert.equal(name, unknown, command)
        end
      end
    end
  end)

  it("shows the help of a command by `help`", function()
    assert.equal(try "luaperf report --help", (try "luaperf help report"))
    assert.matches("unknown command 'rport'; did you mean 'report'", try "luaperf help rport")
  end)

  -- The story: the help was up to 130 columns wide, and COLUMNS was not read.
  it("wraps the help at the width of $COLUMNS, or at 80 columns in a pipe", function()
    local usual = 0
    for _, command in ipairs { "", "stat", "record", "report", "annotate", "top", "list", "doctor", "manual" } do
      for columns, most in pairs { ["COLUMNS="] = 80, ["COLUMNS=x"] = 80, ["COLUMNS=50"] = 50, ["COLUMNS=200"] = 100 } do
        local text = try(("export %s; luaperf %s --help"):format(columns, command))
        for line in text:gmatch "[^\n]+" do
          assert.is_true(#line <= most, line)
          if most == 80 then usual = math.max(usual, #line) end
        end
      end
    end
    assert.is_true(usual > 70)
    assert.matches("\n  source <%(luaperf completion bash%)\n", try "COLUMNS=20 luaperf completion --help")
  end)

  it("makes its tables as wide as $COLUMNS, except in a file", function()
    local long = { ["luaperf.json"] = "main;" .. ("long"):rep(30) .. " 3\n" }
    assert.falsy(try("COLUMNS=60 luaperf report", long):find(("long"):rep(20), 1, true))
    assert.truthy(try("luaperf report", long):find(("long"):rep(30), 1, true))
    assert.truthy(try("COLUMNS=60 luaperf report --stdio -o x && cat x", long):find(("long"):rep(30), 1, true))
  end)

  it("prints tables for report --stdio, whatever the name of the output", function()
    assert.equal(try("luaperf report", PROFILE), try("luaperf report --stdio", PROFILE))
    assert.equal(try("luaperf report", PROFILE), try("luaperf report --stdio -o x.html && cat x.html", PROFILE))
  end)

  it("lists events by perf's names of kinds, and the names alone", function()
    local names = try "luaperf list --raw-dump hw"
    assert.matches("^cpu%-cycles\ncycles\n", names)
    assert.equal(names, try "luaperf list hardware --raw-dump")
    assert.falsy(names:find "page")
    assert.truthy(("\n" .. try "luaperf list --raw-dump"):find("\npage-faults\nfaults\n", 1, true))
  end)

  it("samples as often as the kernel allows", function()
    requires { perf_open = "user", nosan = true }
    assert.matches("option %-F: positive integer or max expected, got 'maximum'", try "luaperf record -F maximum true")
    sysctl("perf_event_max_sample_rate", nil, function() -- another spec lowers the value
      local function most() return tonumber((util.read_file "/proc/sys/kernel/perf_event_max_sample_rate":match "%d+")) end
      local before = most()
      local output = try(("luaperf record -F max -e dummy:u -o x.data -- true && " .. util.lua() .. " -e '"
        .. "for _, a in ipairs(require [[perf]].data.open [[x.data]].attrs) do if a.freq then print(a.sample_freq) end end'"))
      local used = tonumber(output:match "\n(%d+)\n")
      assert.is_true(used <= before and used >= most(), output) -- the kernel lowers the rate if samples take too long
    end)
  end)
end)

describe("luaperf record --filter", function()
  before_each(function() requires { tracepoint = "syscalls:sys_enter_write", paranoid = -1, nosan = true } end)

  local WRITES = "for i = 1, 3 do io.stderr:write 'x' end for i = 1, 5 do io.stdout:write 'y' io.stdout:flush() end"

  for _, case in ipairs { { "a script", "a.lua", "json" }, { "another program", "-- " .. util.lua() .. " a.lua", "data" } } do
    it("records only some hits of a tracepoint, of " .. case[1], function()
      requires { perf_open = "user" }
      local output = try(("luaperf record -e syscalls:sys_enter_write --filter 'fd == 2' -o x.%s %s >/dev/null")
        :format(case[3], case[2]), { ["a.lua"] = WRITES })
      assert.matches("xxx%[ luaperf: 3 samples.*status 0", output)
    end)

    it("refuses a filter of other fields, or of other events, of " .. case[1], function()
      requires { perf_open = "user" }
      local line = "luaperf record -o x.%s -e %s --filter 'no_such == 2' %s"
      local output = try(line:format(case[3], "syscalls:sys_enter_write", case[2]), { ["a.lua"] = WRITES })
      assert.matches("the filter names a field that the tracepoint does not have.*status 255", output)
      output = try(line:format(case[3], "page-faults", case[2]), { ["a.lua"] = WRITES })
      assert.matches("only tracepoints, probes and PMUs with address filters", output)
    end)
  end

  it("is not for Lua's memory, and not twice", function()
    local output = try("luaperf record -e alloc --filter x a.lua", { ["a.lua"] = "" })
    assert.matches("alloc: %-%-filter is for events of the kernel", output)
    assert.matches("option %-%-filter is given twice", try("luaperf record --filter x --filter y a.lua"))
  end)
end)
