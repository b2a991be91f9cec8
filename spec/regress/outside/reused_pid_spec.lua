-- The story: a server started a script for each job, and the pids began anew. The C functions of the first process with a pid
-- were missing in its stacks: its addresses were looked up in the mappings of the second one. In other processes they were
-- missing for the first 0.2 seconds: the first sample came before the interpreter was mapped, and the mappings were read again
-- after a pause. Later they were missing in some runs: a late sample of the first process's end had its mappings read again, when
-- the second one had the pid. And the system calls of any process that got the pid of a profiled one were counted: the program of
-- a tracepoint runs for all tasks, and it knew the profiled ones by their pids alone.
-- Twice: C remembers the mappings of processes.
local core = require "perf.core"
local kit = require "testkit"
local outside = require "spec.support.outside"
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
  if (...) == "first" then first() else second() end
  os.execute "sleep 1" -- a busy machine may need that long to read the mappings of the process
]]
local REFUSED = "needs: a kernel that lets root choose a pid, which no other process has taken"

-- Run a function in a process with this number (nil: any). Its result is 0, or the process has failed.
-- @return the number; nil if there is none
local function run(number, fn)
  local pid = kit.split(true, number)
  if pid == 0 then
    local ok = pcall(fn)
    kit.exit(ok and 0 or 1)
  end
  if pid then assert.equal(0, kit.reap(pid)) end
  return pid
end

describe("processes that have one pid in turn", function()
  it("have the names of their own C functions", function()
    -- With a sanitizer the profiler is so slow that the second process has ended before its mappings are read.
    outside.requires { puc = true, nosan = true }
    util.with_tmpname(function(path)
      util.write_file(path, SCRIPT)
      local child = assert(kit.start(function()
        local function script(which)
          return function() kit.exec(util.lua(), path, which) end
        end
        local pid = run(nil, script "first")
        return run(pid, script "second") and "reused"
      end))
      local p = assert(perf.profiler { pid = child:pid(), event = "cpu-clock", freq = 1000 })
      assert(p:start())
      child:go()
      local status, text = child:wait()
      local prof = assert(p:stop())
      p:close()
      assert.equal(0, status, text)
      if text ~= "reused" then return pending(REFUSED) end
      for _, name in ipairs { "first", "second" } do
        local whole = profiling.under(prof, name)
        assert.is_true(whole > 0 and profiling.under(prof, "string.rep", name) > 0.5 * whole, profiling.text(prof))
      end
    end)
  end)

  it("are counted as long as they belong to the profiled process", function()
    local event = "syscalls:sys_enter_getppid"
    outside.requires { tracepoint = event }
    util.with_tmpname(function(path)
      local go = path .. ".go"
      finally(function() os.remove(go) end)
      local child = assert(kit.start(function()
        return tostring(run(nil, function()
          kit.syscalls(5)
          while not io.open(go) do kit.sleeps(1, 1e7) end
        end))
      end))
      local p = assert(perf.profiler { pid = child:pid(), event = event })
      assert(p:start())
      child:go()
      while tonumber(p.sampler:snapshot().samples) < 5 do core.watch({}, 0.01) end -- then the process has been searched
      util.write_file(go, "")
      local status, text = child:wait()
      assert.equal(0, status, text)
      -- No child of the profiled process, and a child of that one.
      local other = run(assert(tonumber(text), text), function()
        kit.syscalls(100)
        run(nil, function() kit.syscalls(1000) end)
      end)
      local prof = assert(p:stop())
      p:close()
      if not other then return pending(REFUSED) end
      assert.equal(5, tonumber(prof.total), profiling.text(prof))
    end)
  end)
end)
