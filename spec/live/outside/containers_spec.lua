-- Profiles across the borders of containers: the process has other numbers for processes than luaperf, and other files.
-- Twice: the borders of containers are those of the kernel, and outside_spec.lua has what depends on the interpreter.
local luaperf = require "spec.support.luaperf"
local outside = require "spec.support.outside"
local util = require "spec.support.util"

-- It leaves its CPU, makes a system call, and uses the CPU. It sleeps, since on an idle machine nothing else takes its CPU; where
-- it has other files, there is no testkit.
local BUSY = [[
local has_kit, kit = pcall(require, "testkit") local function work()
  for _ = 1, 50 do io.open("/dev/null"):close() end if has_kit then kit.sleeps(1) end
end
io.stdout:write "runs\n"
io.stdout:flush()
while true do work() end
]]

describe("the profile of a process in a container", function()
  local dir

  before_each(function()
    outside.requires { root = true, cmd = { "unshare", "chroot" },
      tracepoint = { "sched:sched_switch", "syscalls:sys_enter_close" } }
    local _, status = util.shell "unshare -p -f -m --mount-proc true"
    if status ~= 0 then requires { cmd = "unshare with its privileges" } end
    dir = util.new_directory()
    util.write_file(dir .. "/busy.lua", BUSY)
  end)

  after_each(function()
    util.remove_directory(dir)
    dir = nil
  end)

  -- Profile the process $p by three kinds of events; `begin` starts it, and waits until it runs.
  local function profiles(begin)
    util.write_file(dir .. "/worked.sh", outside.WORKED)
    util.write_file(dir .. "/profile.sh", begin .. [[

      for e in task-clock context-switches syscalls:sys_enter_close; do
        $root/bin/luaperf record -p $p -e $e -o x.folded -- sh worked.sh $p && grep -c 'busy.lua:2 work' x.folded
      done 2>&1 | grep -v '^.[ ]luaperf'
      kill -9 $p; wait 2>&-]])
    return "export root; sh profile.sh"
  end

  local function check(output) assert.matches("^[1-9]%d*\n[1-9]%d*\n[1-9]%d*\n$", output) end

  local starts = ("mkfifo ready; %%s %s busy.lua >ready 2>/dev/null & q=$!; read line <ready; p=%%s"):format(util.lua())
  local NEW = "unshare -p -f -m --mount-proc"

  it("is made from outside of it", function()
    check((luaperf.shell(dir, profiles(starts:format(NEW, "$(cat /proc/$q/task/$q/children)")))))
  end)

  it("is made in it", function()
    check((luaperf.shell(dir, ("export root; %s sh -c '%s'"):format(NEW, profiles(starts:format("", "$q"))))))
  end)

  it("is made from a container around it", function()
    local begin = starts:format(NEW, "$(cat /proc/$q/task/$q/children)")
    check((luaperf.shell(dir, ("export root; %s sh -c '%s'"):format(NEW, profiles(begin)))))
  end)

  it("reads its files, which have these names only there", function()
    util.write_file(dir .. "/worked.sh", outside.WORKED)
    local output = luaperf.shell(dir, ([[
      program=$(readlink -f $(command -v %s)); mkdir -p new/app new/dev; : >new/dev/null; cp $program new/app/lua
      for f in $(ldd $program | grep -o '/[^ ]*'); do mkdir -p new$(dirname $f); cp -L $f new$f; done
      sed 's/work()/work_in_container()/' busy.lua >new/app/own.lua
      mkfifo ready; chroot new /app/lua /app/own.lua >ready & p=$!; read line <ready
      luaperf record -p $p -o x.folded -- sh worked.sh $p 2>&-; kill -9 $p; cat x.folded]]):format(util.lua()))
    assert.matches("/app/own.lua:2 work_in_container", output)
  end)
end)
