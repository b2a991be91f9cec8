-- The stories: luaperf stat -p left out the children that the process had already, which luaperf record -p has; and it did not
-- end when the process had ended, as long as its parent did not wait for it. Twice: what a process runs has no part in it.
local kit = require "testkit"
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

describe("luaperf stat -p", function()
  before_each(function() requires { perf_open = true, root = true } end)

  it("counts the children that the process has, unless they are not to be followed", function()
    local dir = util.new_directory()
    finally(function() util.remove_directory(dir) end)
    util.write_file(dir .. "/child.lua", "local kit = require 'testkit' io.stdout:write 'runs\\n' io.stdout:flush() io.read()\n"
      .. "kit.touch_pages(1000)\n")
    local function faults(option)
      local output = luaperf.shell(dir, ([[
        rm -f input output; mkfifo input output
        sh -c '%s child.lua <input >output; while :; do :; done' & p=$!
        exec 3>input; read line <output; child=$(cat /proc/$p/task/$p/children)
        luaperf stat %s -p $p -e page-faults -- sh -c "echo >&3; while [ -d /proc/$child ]; do :; done" 2>&1
        kill $p; exec 3>&-; wait $p 2>&-]]):format(util.lua(), option))
      return tonumber((output:match "([%d,]+)%s+page%-faults" or error(output)):gsub(",", "") .. "")
    end
    assert.is_true(faults "" >= 1000)
    assert.is_true(faults "--no-inherit" < 500)
  end)

  it("ends with the process, also before its parent has waited for it", function()
    local child = assert(kit.start(function() end))
    local pid = child:pid()
    finally(function() child:close() end)
    local output = luaperf.shell(".", ([[
      $root/bin/luaperf stat -p %d -e task-clock 2>/dev/null & q=$!
      until ls -l /proc/$q/fd 2>/dev/null | grep -q perf_event; do :; done
      kill -KILL %d; wait $q; echo $?; grep State /proc/%d/status]]):format(pid, pid, pid))
    assert.matches("^0\nState:%s+Z", output)
  end)
end)
