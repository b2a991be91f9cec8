-- The story: luaperf record --timeout refused scripts, so a service had to be profiled until ^C, although the pages named the
-- option in place of perf top. Twice: the time is luaperf's.
local luaperf = require "spec.support.luaperf"
local run = require "perf.command.run"
local util = require "spec.support.util"

describe("the time that a script may run", function()
  it("ends a script that does not end by itself", function()
    requires { perf_open = "user" }
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "local n = 0 while true do n = n + #tostring(n % 7) end")
      -- The signal may come before the profiler runs: then the profile is lost, and the status is the same.
      local output = luaperf.shell(dir, "luaperf record --timeout 0.2 a.lua 2>&1; echo status $?")
      assert.matches("status 143\n$", output)
    end)
  end)

  it("sends SIGTERM to the program, which may end in its own way", function()
    util.with_directory(function(dir)
      local ready = dir .. "/ready"
      local program = ("trap 'exit 7' TERM; : >%s; i=0; while [ $i -lt 6000 ]; do sleep 0.01; i=$((i + 1)); done"):format(ready)
      local function started()
        local file
        repeat file = io.open(ready) until file
        file:close()
      end
      assert.same({ exit = 7 }, run.catching(run.run, { "sh", "-c", program }, { started = started, timeout = 0.01 }))
    end)
  end)
end)
