-- The story: a server started a script for each job, and the pids began anew. The C functions of the first process with a pid
-- were missing in its stacks: its addresses were looked up in the mappings of the second one. In other processes they were
-- missing for the first 0.2 seconds: the first sample came before the interpreter was mapped, and the mappings were read again
-- after a pause. Later they were missing in some runs: a late sample of the first process's end had its mappings read again, when
-- the second one had the pid. Twice: C remembers the mappings of processes.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local SCRIPT = [[
  local ended = os.clock() + 0.3
  local function first()
    while os.clock() < ended do for _ = 1, 100 do string.rep("ab", 5000) end end
  end
  local function second()
    while os.clock() < ended do for _ = 1, 100 do string.rep("cd", 5000) end end
  end
  io.write(io.open "/proc/self/stat":read "*n", "\n")
  io.stdout:flush()
  if (...) == "first" then first() else second() end
  os.execute "sleep 1" -- a busy machine may need that long to read the mappings of the process
]]

describe("processes that have one pid in turn", function()
  it("have the names of their own C functions", function()
    -- With a sanitizer the profiler is so slow that the second process has ended before its mappings are read.
    requires { ext = { "bpf", "outside" }, bpf = true, perf_open = true, puc = true, nosan = true }
    local last = io.open("/proc/sys/kernel/ns_last_pid", "r+")
    if not last then return pending("needs: a kernel that lets root choose the next pid") end
    last:close()
    util.with_tmpname(function(path)
      util.write_file(path, SCRIPT)
      local child = assert(kit.start(function()
        local function run(which)
          local f = io.popen(("exec %s %s %s"):format(util.lua(), path, which))
          local pid = f:read "*n"
          f:close()
          return pid
        end
        local pid = run "first"
        for _ = 1, 50 do
          local f = assert(io.open("/proc/sys/kernel/ns_last_pid", "w"))
          f:write(pid - 1)
          f:close()
          if run "second" == pid then return "reused" end
        end
      end))
      local p = assert(perf.profiler { pid = child:pid(), event = "cpu-clock", freq = 1000 })
      assert(p:start())
      child:go()
      local status, text = child:wait()
      local prof = assert(p:stop())
      p:close()
      assert.equal(0, status, text)
      if text ~= "reused" then return pending("needs: a pid that no other process takes") end
      for _, name in ipairs { "first", "second" } do
        local whole = profiling.under(prof, name)
        assert.is_true(whole > 0 and profiling.under(prof, "string.rep", name) > 0.5 * whole, profiling.text(prof))
      end
    end)
  end)
end)
