-- The story: luaperf record -p A -p B took B alone, without a word, and so did luaperf stat; perf.profiler had one process only.
-- Twice: what a process runs has no part in it.
-- Later: it starts many processes.
local outside = require "spec.support.outside"
local kit = require "testkit"
local luaperf = require "spec.support.luaperf"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

describe("several processes", function()
  it("are one profile, each of them once", function()
    outside.requires()
    local function first() kit.touch_pages(300) end
    local function second() kit.touch_pages(500) end
    local function of_both()
      first()
      assert(kit.fork(second) == 0)
    end
    local a, b = assert(kit.start(of_both)), assert(kit.start(second))
    local prof = outside.profile_children({ pid = { a:pid(), b:pid(), a:pid() }, event = "page-faults", period = 1 }, a, b)
    local text, sum = profiling.text(prof), prof.accounting
    assert.equal(sum.samples, sum.resolved + sum.labelled + sum.dropped, text)
    local one, two = profiling.under(prof, "testkit.touch_pages", "first"), profiling.under(prof, "testkit.touch_pages", "second")
    assert.is_true(one >= 300 and one < 600, text) -- twice as many, if its events were opened twice
    assert.is_true(two >= 1000 and two < 2000, text)
    assert.is_nil(prof.pid)
  end)

  it("must be numbers of processes", function()
    for _, pid in ipairs { {}, { 1, "2" }, { 1, 0 }, { 1.5 }, 2 ^ 31 } do
      assert.has_error(function() perf.profiler { pid = pid } end)
    end
  end)

  -- Two programs that wait, whose numbers are $a and $b.
  local function beside(commands)
    local dir = util.new_directory()
    finally(function() util.remove_directory(dir) end)
    util.write_file(dir .. "/worked.sh", outside.WORKED)
    util.write_file(dir .. "/one.lua", "local function work_of_one() local s = 0 for i = 1, 1e5 do s = s + i % 7 end end\n"
      .. "io.stdout:write 'runs\\n' io.stdout:flush() local sleeps = require 'testkit'.sleeps\n"
      .. "while true do work_of_one() sleeps(1) end\n") -- they leave the CPUs to others
    util.write_file(dir .. "/two.lua", (util.read_file(dir .. "/one.lua"):gsub("work_of_one", "work_of_two")))
    return luaperf.shell(dir, ("mkfifo f g; %s one.lua >f & a=$!; %s two.lua >g & b=$!; read line <f; read line <g\n%s\n"
      .. "kill $a $b 2>&-; wait $a $b 2>&-"):format(util.lua(), util.lua(), commands))
  end

  it("are given to luaperf record and top by commas or several options", function()
    outside.requires { root = true }
    local output = beside [[
      for p in "-p $a,$b" "-p $a -p $b" "-p $b,$a,$b"; do
        luaperf record $p -o x.folded -- sh worked.sh $a $b 2>&-; cat x.folded
      done
      $root/bin/luaperf top -p $a,$b -d 0.5 >top & q=$!
      for i in $(seq 3000); do
        grep -q 'lua:1 work_of_one$' top && grep -q 'lua:1 work_of_two$' top && break
        sleep 0.1
      done
      kill $q; wait $q; cat top]] -- on a busy machine, an interval may have one of them only
    for _, name in ipairs { "work_of_one", "work_of_two" } do
      local _, n = output:gsub("lua:1 " .. name .. " %d+\n", "")
      assert.equal(3, n, output)
      assert.matches("  %S+.lua:1 " .. name .. "\n", output)
    end
  end)

  it("end the profile when all have ended", function()
    outside.requires { root = true }
    local output = beside [[
      $root/bin/luaperf record -p $a -p $b -o x.json 2>&- & q=$!
      for i in $(seq 1000); do [ $(ls /proc/$q/task | wc -l) -gt 1 ] && break; sleep 0.01; done # it has started
      kill $a; kill -0 $q && echo runs; kill $b; wait $q; echo $?]]
    assert.equal("runs\n0\n", output)
  end)

  it("are counted by luaperf stat and recorded into perf.data", function()
    requires { perf_open = true, root = true }
    local path = os.tmpname()
    finally(function() os.remove(path) os.remove(path .. ".data") end)
    local output = beside(([[
      luaperf stat -p $a,$b -e task-clock --timeout 0.1 2>&1
      luaperf record -p $a,$b -o %s -- sh worked.sh $a $b 2>&-
      kill $b; wait $b 2>&-; luaperf stat -p $a,$b 2>&1; echo $?; echo $a $b]]):format(path .. ".data"))
    assert.matches("^%s*processes %d+, %d+:\n.-task%-clock.-luaperf: no process %d+\n255\n", output)
    local seen = {}
    local file = assert(perf.data.open(path .. ".data"))
    for rec in file:records() do if rec.type == "sample" then seen[rec.pid] = true end end
    file:close()
    local a, b = output:match "(%d+) (%d+)\n$"
    assert.same({ true, true }, { seen[tonumber(a)], seen[tonumber(b)] })
  end)

  it("are refused if one is no number", function()
    local output = luaperf.shell(".", "for c in record stat top; do for p in 1,x ''; do "
      .. "luaperf $c -p \"$p\" 2>&1; echo $?; done; done")
    local _, n = output:gsub("luaperf: option %-p: a process number expected, got '(x?)'\n.-\n129\n", "")
    assert.equal(6, n, output)
  end)
end)
