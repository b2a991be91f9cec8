-- The story: luaperf that leads its session (`ssh -t host luaperf record app.lua`) went on after its terminal was closed, and so
-- did the script. The kernel sends the SIGHUP of a hang-up only to the leader, and luaperf passed on only signals of processes.
local luaperf = require "spec.support.luaperf".shell
local util = require "spec.support.util"

it("a terminal that is closed ends the script of the luaperf that leads its session", function()
  requires { perf_open = true, nosan = true, cmd = { "script" } }
  util.with_directory(function(dir)
    util.write_file(dir .. "/a.lua", [[
      io.open("going", "w"):close()
      local core = require "perf.core"
      for _ = 1, 600 do core.watch({}, 0.1) end
      io.open("ended", "w"):close()]])
    -- SIGKILL ends script(1), which has the other side of the terminal.
    local output = luaperf(dir, "export root; mkfifo going keys; "
      .. "script -qfc 'exec env --default-signal=HUP $root/bin/luaperf record a.lua 2>out' /dev/null <keys >/dev/null & s=$!; "
      .. "exec 3>keys; timeout 60 cat going; kill -s KILL $s; "
      .. "until grep -q samples out || [ -e ended ]; do sleep 0.05; done; cat out; ls ended 2>/dev/null")
    assert.matches("^%[ luaperf: %d+ samples? of task%-clock in luaperf.json %]\n$", output)
  end)
end)
