-- The story: luaperf record -p PID -e context-switches, on a busy machine, made a program switch a hundred times as often as it
-- did alone. The return of a thread to its CPU woke the reader, which preempted the thread, and this switch was the next sample.
-- Twice: C reads the ring.
local outside = require "spec.support.outside"
local util = require "spec.support.util"

it("a profile of context switches is not of those that the reader of the samples causes", function()
  outside.requires { root = true, cmd = "taskset" }
  local cpu = util.read_file("/proc/self/status"):match "Cpus_allowed_list:%s*(%d+)"
  local per_ms
  util.with_directory(function(dir)
    util.write_file(dir .. "/busy.lua", "print 'runs' io.stdout:flush() while true do end\n")
    util.write_file(dir .. "/profile.lua", [[
      local perf = require "perf"
      local pid = io.read "*n"
      local function ms()
        local f = assert(io.open("/proc/" .. pid .. "/schedstat"))
        local ns = f:read "*n"
        f:close()
        return ns / 1e6
      end
      local p = assert(perf.profiler { pid = pid, event = "context-switches" })
      assert(p:start())
      local least = math.huge
      for _ = 1, 5 do -- other programs on this CPU may preempt it too, for a while
        local began = ms()
        repeat os.execute "sleep 0.05" until ms() - began > 100
        least = math.min(least, assert(p:snapshot()).accounting.samples / (ms() - began))
        if least < 10 then break end
      end
      p:stop()
      print(least)
    ]])
    local run = ("taskset -c %s %s"):format(cpu, util.lua())
    local commands = "d=%s; mkfifo $d/ready; %s $d/busy.lua >$d/ready & p=$!; read line <$d/ready; "
      .. "echo $p | %s $d/profile.lua; kill $p"
    local shell = io.popen(commands:format(dir, run, run))
    per_ms = tonumber(shell:read "*l")
    shell:close()
  end)
  -- On one CPU with the reader, the thread switched 20 times in each millisecond of its own. By itself, a scheduler's slice is
  -- longer than half a millisecond; but on a busy machine other programs preempted it 6 times in a millisecond.
  assert.is_true(per_ms < 10, tostring(per_ms))
end)
