-- luaperf top at a terminal: its keys, and the terminal's modes at every end. Twice: nothing here depends on the interpreter.
-- Later: each spec starts a terminal, a program and a profiler, and waits for several screens.
local luaperf = require "spec.support.luaperf"
local outside = require "spec.support.outside"
local util = require "spec.support.util"

describe("luaperf top at a terminal", function()
  local dir

  before_each(function()
    outside.requires { root = true, cmd = { "script", "stty" } }
    dir = util.new_directory()
    util.write_file(dir .. "/busy.lua", "local function work() local s = 0 for i = 1, 1e5 do s = s + i % 7 end return s end\n"
      .. "local sleeps = require 'testkit'.sleeps\nwhile true do work() sleeps(1) end\n")
    -- The user: `press` sends keys, `sees` reads what the terminal shows until it has read a text, `run` runs a command.
    util.write_file(dir .. "/user.lua", [[
local keys, screen = assert(io.open("keys", "w")), assert(io.open("screen", "w"))
keys:setvbuf "no"
local function read()
  local byte = io.read(1)
  if byte then screen:write(byte) end
  return byte
end
local function variables(text) return (text:gsub("%$(%w+)", os.getenv)) end
function press(text) keys:write(text) end
function sees(text)
  local last = ""
  text = variables(text)
  while last ~= text do
    last = (last .. (read() or error("not seen: " .. text, 0))):sub(-#text)
  end
end
function run(command) os.execute(variables(command)) end
local ok, message = pcall(dofile, "acts.lua")
if not ok then print(message) end
while ok and read() do end
screen:close()
os.exit(ok and 0 or 1)
]])
  end)

  after_each(function()
    util.remove_directory(dir)
    dir = nil
  end)

  -- Run luaperf top in a new terminal, whose output is in the file `screen`, while the user does something.
  -- @return the exit status of luaperf top, as text, and what the terminal has shown; the terminal's modes are as before
  local function use(user, command)
    util.write_file(dir .. "/session.sh", "stty rows 30 cols 120; stty -g >before\n"
      .. (command or "$root/bin/luaperf top -p $p -d 0.3; echo $? >status\n") .. "stty -g >after\n")
    util.write_file(dir .. "/acts.lua", user)
    util.write_file(dir .. "/run.sh", ([[
%s busy.lua & p=$!; export p root
mkfifo keys shown
script -qfc "sh session.sh" /dev/null >shown <keys & s=$!
timeout -s KILL 600 %s user.lua <shown
result=$?
kill $p 2>&-; [ $result = 0 ] || kill $s; wait 2>&-; cmp before after && cat status]]):format(util.lua(), util.lua()))
    return luaperf.shell(dir, "export root; sh run.sh"), util.read_file(dir .. "/screen")
  end

  it("shows the rate, the shares and a table, which keys choose", function()
    local status, screen = use [[
      sees "Lua line"  sees "busy.lua:1 work"
      press "f"  sees "work busy.lua:1"
      press "t"  sees "main chunk busy.lua"
      press "h"  sees "this help, and back"
      press "h"  sees "h: keys"
      press "a"  sees "since the beginning"
      press "a"  sees "each 0.3 s"
      press "+"  sees "each 0.6 s"
      press "-"  sees "each 0.3 s"
      press "d"  sees "seconds of an interval: _"
      press "0."  press "5"  sees "seconds of an interval: 0.5_"
      press "\n"  sees "each 0.5 s"
      press "p"  sees "paused"
      press "z"  sees "no zones"
      press "l"  press "p"  sees "busy.lua:1 work"
      press "w"  sees "process $p ("
      press "w"  sees "each 0.5 s; h: keys"
      press "q"]]
    assert.equal("0\n", status, screen)
    assert.matches("task%-clock: [%d.]+ %S+ in [%d,]+ samples at 999 Hz[^\n]*\n%d+%.%d+ s a second, Lua %d+%.%d%%", screen)
  end)

  for _, key in ipairs { { "^C", "press '\\003'", 130 }, { "a signal", "run 'kill -TERM $(cat pid)'", 143 },
    { "the end of the process", "run 'kill $p'", 0 } } do
    it("gives the terminal its modes back after " .. key[1], function()
      local status, screen = use("sees 'busy.lua:1 work'\n" .. key[2],
        "sh -c 'echo $$ >pid; exec $root/bin/luaperf top -p $p -d 0.3'; echo $? >status\n")
      assert.equal(key[3] .. "\n", status, screen)
      assert.matches("\27%[%?7h\27%[%?25h", screen)
    end)
  end

  it("gives the terminal back while it is stopped by ^Z", function()
    local status, screen = use([[
      sees "busy.lua:1 work"
      press "\026"  sees "stopped now"
      press "go\n"  sees "busy.lua:1 work"
      press "q"]],
      "set -m\n$root/bin/luaperf top -p $p -d 0.3\nstty -g >while; echo stopped now; read line\n"
      .. "cmp before while; fg >/dev/null; echo $? >status\n")
    assert.equal("0\n", status, screen)
  end)

  it("keeps a terminal's modes that it finds when it comes to the foreground, and draws nothing before", function()
    local status, screen = use([[
      sees "now"  press "\n"  sees "busy.lua:1 work"
      press "q"]],
      "set -m\nstty -icanon -echo min 1\n$root/bin/luaperf top -p $p -d 0.3 & l=$!\n" -- as a shell that edits a line
      .. "until [ $((0x$(sed -n 's/^SigCgt:.//p' /proc/$l/status) >> 19 & 1)) = 1 ]; do sleep 0.01; done\n" -- it reads keys
      .. "stty $(cat before); sleep 1; echo now; read line; fg >/dev/null; echo $? >status\n")
    assert.equal("0\n", status, screen)
    assert.matches("^now", screen)
  end)

  it("does not wait for a key where the terminal gives each byte at once", function()
    local status, screen = use("", "stty -icanon min 1\n$root/bin/luaperf top -p $p -d 0.3 --times 2; echo $? >status\n"
      .. "stty icanon $(cat before)\n")
    assert.equal("0\n", status, screen)
  end)

  it("reads no keys and draws no screen where stdin or stdout is no terminal", function()
    -- On a busy machine the program may not run in the first interval. So the second command waits for an interval with a table.
    local status, screen = use("", "$root/bin/luaperf top -p $p -d 0.3 --times 1 </dev/null; echo $? >status\n"
      .. "$root/bin/luaperf top -p $p -d 0.3 </dev/null | grep -m 1 'Lua line'\n")
    assert.equal("0\n", status, screen)
    assert.not_matches("\27", screen)
    assert.matches("Lua line\r?\n$", screen)
  end)
end)
