-- luaperf record -p PID: a profile by Lua line, as the output file's name says. Twice: outside_spec.lua has what depends on the
-- interpreter.
local luaperf = require "spec.support.luaperf"
local outside = require "spec.support.outside"
local util = require "spec.support.util"

-- Run commands beside a process that runs Lua, whose number is $p.
local function beside(dir, commands)
  util.write_file(dir .. "/worked.sh", outside.WORKED)
  util.write_file(dir .. "/busy.lua", "local function work() local s = 0 for i = 1, 1e5 do s = s + i % 7 end return s end\n"
    .. "io.stdout:write 'runs\\n' io.stdout:flush() local sleeps = require 'testkit'.sleeps\n"
    .. "while true do work() sleeps(1) end\n") -- it leaves the CPU to others
  return luaperf.shell(dir, ("rm -f ready; mkfifo ready; %s busy.lua >ready & p=$!; read line <ready; %s; kill $p; wait $p 2>&-")
    :format(util.lua(), commands))
end

describe("luaperf record -p of a process that runs Lua", function()
  local dir

  before_each(function()
    outside.requires { root = true }
    dir = util.new_directory()
  end)

  after_each(function()
    util.remove_directory(dir)
    dir = nil
  end)

  it("writes a profile, and counts each sample", function()
    local output = beside(dir, "luaperf record -p $p -o x.folded -- sh worked.sh $p; echo $?; cat x.folded")
    local all, with, without, lost = output:match(
      "^%[ luaperf: ([%d,]+) samples? of task%-clock in x.folded: ([%d,]+) with a Lua stack, ([%d,]+) without, (%d+) lost %]\n0")
    local function number(text) return tonumber((text:gsub(",", ""))) end
    assert.is_truthy(all, output)
    assert.equal(number(all), number(with) + number(without) + number(lost))
    assert.is_true(number(with) > 0, output)
    assert.matches("\nbusy.lua:3 main chunk;busy.lua:1 work %d+\n", output)
  end)

  it("has the children of the process, but not itself", function()
    local output = beside(dir, "luaperf record -p $$ -o x.folded -- sh worked.sh $p; cat x.folded")
    assert.matches("\nbusy.lua:3 main chunk;busy.lua:1 work %d+\n", output)
    assert.is_nil(output:find("luaperf:%d", 1), output)
  end)

  it("lasts until the given program ends, with its exit status", function()
    local output = beside(dir, "luaperf record -p $p -- sh -c 'echo ran; exit 6'; echo $?; ls *.json")
    assert.matches("^ran\n%[ luaperf: [%d,]+ samples? of task%-clock in luaperf.json: .- %]\n6\nluaperf.json\n", output)
    output = beside(dir, "luaperf record -p $p -o x.html -- ./no-such-program; echo $?; ls *.html")
    assert.matches("^luaperf: %./no%-such%-program: .-\n255\n", output)
  end)

  it("ends by a signal, with the profile", function()
    local output = beside(dir, "$root/bin/luaperf record -p $p -o x.html & q=$!; "
      -- waits until SIGTERM, whose bit this is, has a handler
      .. "for i in $(seq 1000); do grep -q '^SigCgt:.*[4-7c-f]...$' /proc/$q/status && break; sleep 0.01; done; "
      .. "kill -TERM $q; wait $q; echo $?; ls *.html")
    assert.matches("%[ luaperf: [%d,]+ samples? of task%-clock in x.html: .- %]\n143\nx.html\n", output)
  end)

  it("records perf.data where -o says so", function()
    local output = beside(dir, "luaperf record -p $p -o x.data -- true; luaperf report -n 1 x.data | head -1")
    assert.matches("^%[ luaperf: [%d,]+ samples? in x.data %]\n", output)
  end)

  it("shows each interval, until ^C or the end of the process", function()
    local output = beside(dir, "$root/bin/luaperf top -p $p -d 0.5 -n 9 >top & q=$!; "
      -- on a busy machine, the process may not run in an interval
      .. "for i in $(seq 3000); do [ $(grep -c 'busy.lua:1 work$' top) -gt 1 ] && break; sleep 0.1; done; "
      .. "kill $q; wait $q; echo $?; cat top")
    assert.matches("^143\ntask%-clock: .-\n[^\n]*busy.lua:1 work\n.*\ntask%-clock: .-\n[^\n]*busy.lua:1 work\n", output)
    output = beside(dir, "$root/bin/luaperf top -p $p -d 60 >top & q=$!; "
      -- waits until the process has the thread that reads the samples, and ends the process
      .. "for i in $(seq 1000); do [ $(ls /proc/$q/task | wc -l) -gt 1 ] && break; sleep 0.01; done; "
      .. "[ $i -lt 1000 ] || echo no thread; kill $p; wait $q; echo $?")
    assert.matches("^0\n", output)
    output = beside(dir, "luaperf top; echo $?; luaperf top -p $p busy.lua; echo $?")
    assert.matches("^luaperf: no process is given: luaperf top %-p PID\n.-129\nluaperf: 'busy.lua': .-129\n", output)
  end)

  it("says why a profile is refused", function()
    local output = beside(dir, "luaperf record -p $p -o x.nothing; echo $?; "
      -- one that is about to run another program would have no program for a moment
      .. "sh -c 'kill -STOP $$' & s=$!; until grep -q '^State:.T' /proc/$s/status; do sleep 0.01; done; "
      .. "luaperf record -p $s -o x.html; echo $?; kill -KILL $s; wait $s 2>&-")
    assert.matches("^luaperf: x.nothing: unknown ending; .-\n129\n"
      .. "luaperf: process %d+ %(/.-%) runs no Lua: no Lua state was found in its memory\n"
      .. "%-o FILE.data .-\n255\n", output)
  end)
end)
