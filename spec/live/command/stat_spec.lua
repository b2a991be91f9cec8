-- The options of luaperf stat that perf stat has too: its lines for other programs, intervals, CPUs and threads.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local json = require "perf.base.json"
local kit = require "testkit"
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

local shell, with_directory = luaperf.shell, util.with_directory

local FAULTS = "require 'testkit'.touch_pages(tonumber(arg[1]))\n"

-- Split the lines of -x at their separator.
local function fields_of(text, separator)
  local rows = {}
  for line in text:gmatch "[^\n]+" do
    local row = {}
    for field in (line .. separator):gmatch("(.-)" .. separator) do row[#row + 1] = field end
    rows[#rows + 1] = row
  end
  return rows
end

local function objects_of(text)
  local rows = {}
  for line in text:gmatch "[^\n]+" do rows[#rows + 1] = assert(json.decode(line), line) end
  return rows
end

describe("luaperf stat, as perf stat,", function()
  before_each(function() requires { perf_open = true, nosan = true } end)

  it("has lines of fields, with the same fields as perf's", function()
    requires { cmd = "perf" }
    with_directory(function(dir)
      util.write_file(dir .. "/faults.lua", FAULTS)
      for _, options in ipairs { "-x,", "-x ';'", "-x, -r 2" } do
        local separator = options:find ";" and ";" or ","
        local function run(program)
          local output, status = shell(dir, ("%s stat %s -e task-clock:u,page-faults:u -o out -- $LUA faults.lua 2000; cat out")
            :format(program, options))
          assert.equal(0, status, output)
          return fields_of(output:gsub("#[^\n]*\n", ""):gsub("^\n+", ""), separator)
        end
        local theirs, ours = run "perf", run "luaperf"
        assert.equal(2, #ours)
        for i, row in ipairs(ours) do
          assert.equal(#theirs[i], #row, options)
          for _, k in ipairs { 2, 3, options:find "-r" and 6 or 5 } do assert.equal(theirs[i][k], row[k], options) end
          assert.equal(theirs[i][#row], row[#row]) -- the metric's unit
          assert.matches("^%d+%.%d+$", row[#row - 1])
        end
        assert.near(tonumber(theirs[2][1]), tonumber(ours[2][1]), 100)
        if options:find "-r" then assert.matches("^%d+%.%d%d%%$", ours[2][4]) end
      end
    end)
  end)

  it("has an object of JSON for each event on its line, with perf's names", function()
    requires { cmd = "perf" }
    with_directory(function(dir)
      util.write_file(dir .. "/faults.lua", FAULTS)
      for _, options in ipairs { "-j", "-j -r 2" } do
        local function run(program)
          local output, status = shell(dir, ("%s stat %s -e task-clock:u,page-faults:u -o out -- $LUA faults.lua 2000; cat out")
            :format(program, options))
          assert.equal(0, status, output)
          return objects_of(output:gsub("#[^\n]*\n", ""):gsub("^\n+", ""))
        end
        local theirs, ours = run "perf", run "luaperf"
        assert.equal(2, #ours)
        for i, row in ipairs(ours) do
          for name in pairs(theirs[i]) do assert.truthy(row[name] ~= nil, name) end
          for name in pairs(row) do assert.truthy(theirs[i][name] ~= nil, name) end
          for _, name in ipairs { "unit", "event", "metric-unit" } do assert.equal(theirs[i][name], row[name]) end
        end
        assert.near(tonumber(theirs[2]["counter-value"]), tonumber(ours[2]["counter-value"]), 100)
      end
    end)
  end)

  it("has a line for an event that the machine lacks", function()
    requires { nopmu = true }
    local output, status = shell("/", "luaperf stat -d -x, -e cycles,dummy true 2>&1")
    assert.equal(0, status)
    assert.matches("^<not supported>,,cycles,0,100.00,,\n0,,dummy:?u?,%d+,100.00,,\n<not supported>,,L1%-dcache%-loads,", output)
    assert.matches("luaperf: %-d: this machine counts none of the events that it adds\n$", output)
  end)

  it("counts intervals, each of which is written at once", function()
    with_directory(function(dir)
      util.write_file(dir .. "/steps.lua", [[
        local kit = require "testkit"
        for step = 1, 3 do
          kit.touch_pages(1000)
          local seen -- the counts of these pages are in the file before the next ones are touched
          while step < 3 and not seen do
            local f = assert(io.open "out")
            local sum = 0
            for n in f:read "*a":gmatch "(%d+),,page%-faults" do sum = sum + n end
            f:close()
            seen = sum >= 1000 * step
          end
        end]])
      local output, status = shell(dir, "luaperf stat -I 10 -x, -e page-faults:u -o out steps.lua")
      assert.equal(0, status, output)
      local rows, sum, last = fields_of(util.read_file(dir .. "/out"), ","), 0, 0
      for _, row in ipairs(rows) do
        assert.matches("^ *%d+%.%d%d%d%d%d%d%d%d%d$", row[1])
        assert.is_true(tonumber(row[1]) > last)
        last, sum = tonumber(row[1]), sum + (tonumber(row[2]) or 0)
      end
      assert.is_true(#rows >= 3)
      assert.is_true(sum >= 3000 and sum < 6000, sum)
      output = shell(dir, "luaperf stat -I 10 -e page-faults:u -- $LUA -e 'require \"testkit\".touch_pages(10)' 2>&1")
      assert.matches("^# +time +counts unit event\n +%d+%.%d+ +[%d,]+ +page%-faults:u", output)
    end)
  end)

  it("counts each CPU by itself", function()
    requires { root = true, cmd = "taskset" }
    with_directory(function(dir)
      util.write_file(dir .. "/faults.lua", FAULTS)
      local cpu = kit.cpus()[1]
      local output, status = shell(dir, ("luaperf stat -a -A -j -e page-faults,dummy -- taskset -c %d $LUA faults.lua 5000 2>&1")
        :format(cpu))
      assert.equal(0, status, output)
      local by_cpu = {}
      for _, row in ipairs(objects_of(output)) do
        if row.event == "page-faults" then by_cpu[row.cpu] = tonumber(row["counter-value"]) end
      end
      assert.is_true(by_cpu[tostring(cpu)] >= 5000, output)
      output, status = shell(dir, ("luaperf stat -C %d -A -x, -r 2 -e page-faults -- taskset -c %d $LUA faults.lua 5000 2>&1")
        :format(cpu, cpu))
      assert.equal(0, status, output)
      local rows = fields_of(output, ",")
      assert.same({ 1, "CPU" .. cpu, "page-faults" }, { #rows, rows[1][1], rows[1][4] })
      assert.is_true(tonumber(rows[1][2]) >= 5000)
      output = shell(dir, ("luaperf stat -C %d -A -e page-faults,dummy true 2>&1"):format(cpu))
      assert.matches(("^\nCPU %d during true:\n\n  CPU%d +[%%d,]+ +page%%-faults"):format(cpu, cpu), output)
    end)
  end)

  it("counts each thread by itself", function()
    requires { root = true }
    with_directory(function(dir)
      util.write_file(dir .. "/child.lua", [[
        local kit = require "testkit"
        local function say() io.stdout:write "line\n" io.stdout:flush() end
        say() io.read() kit.touch_pages(tonumber(arg[1])) say() io.read()]])
      local output = shell(dir, [[
        mkfifo a b out; $LUA child.lua 1000 <a >out & p=$!; $LUA child.lua 3000 <b >out & q=$!
        exec 4<>out 5>a 6>b; read line <&4; read line <&4
        luaperf stat --per-thread -j -p $p,$q -e page-faults -o counts -- sh -c \
          'echo >&5; echo >&6; read line <&4; read line <&4'
        status=$?; exec 5>&- 6>&-; wait; echo $p $q $status]])
      local p, q, status = output:match "(%d+) (%d+) (%d+)\n$"
      assert.equal("0", status, output)
      local by_thread = {}
      for _, row in ipairs(objects_of(util.read_file(dir .. "/counts"))) do
        by_thread[row.thread:match "%-(%d+)$"] = tonumber(row["counter-value"])
      end
      assert.is_true(by_thread[p] >= 1000 and by_thread[p] < 3000, by_thread[p])
      assert.is_true(by_thread[q] >= 3000, by_thread[q])
    end)
  end)

  it("refuses what does not go together", function()
    for line, wanted in pairs {
      ["-A true"] = "-A needs -a or -C",
      ["--per-thread true"] = "--per-thread needs -p",
      ["-x '' true"] = "option -x needs a separator",
      ["-C 1- true"] = "option -C: CPUs such as 0-3,6 expected, got '1-'",
      ["-C 1-0 true"] = "option -C: CPUs such as 0-3,6 expected, got '1-0'", -- it counted nothing, and said nothing
      ["-C 0-99999999999 true"] = "option -C: no CPU %d+ is online, but .*", -- "table overflow", after gigabytes
      ["-C 65000 true"] = "option -C: no CPU 65000 is online, but .*",
      ["-a -r 3"] = "-r needs a script or a program",
      ["-I 0 true"] = "option -I: positive integer expected, got '0'.*",
      ["-I 10 -o x.json true"] = "-o x.json: -I, -A and --per-thread write an object for each line: add -j" } do
      local output = shell("/", "luaperf stat " .. line .. " 2>&1; echo $?")
      assert.matches("^luaperf: " .. wanted:gsub("%-", "%%-") .. "\n129\n$", output)
    end
  end)
end)
