-- The story: a job that never ended hung the program at its end, and pool:close() had no deadline. A thread cannot be stopped, so
-- it is left behind, and must not touch anything that the program's end has freed. Twice: C makes the threads, and leaves them
-- behind.
local util = require "spec.support.util"

local function run(code)
  return { util.shell(("timeout -s KILL 600 %s -e '%s'"):format(util.lua(), code)) }
end

describe("a job that never ends", function()
  local pool = [[
    local perf = require "perf"
    local pool = perf.pool {size = 2, events = false}
    local endless = pool:submit(function() -- it sleeps between its rounds, and leaves the CPUs to the other specs
      local watch = require "perf.core".watch
      while true do watch({}, 0.001) end
    end)
    while pool:stats().queued > 0 do require "perf.core".watch({}, 0.001) end
  ]]

  it("does not hold up the end of the program", function()
    local commands = {}
    for _, last in ipairs { "", "os.exit(0)", "os.exit(0, true)", "pool, endless = nil collectgarbage() collectgarbage()" } do
      local command = ("timeout -s KILL 600 %s -e '%s'"):format(util.lua(), pool .. last)
      commands[#commands + 1] = ("(%s; echo %d $?) &"):format(command, #commands + 1)
    end
    local seen = {}
    for line in util.shell(table.concat(commands, "\n") .. "\nwait"):gmatch "[^\n]+" do seen[#seen + 1] = line end
    table.sort(seen)
    assert.same({ "1 0", "2 0", "3 0", "4 0" }, seen)
  end)

  it("does not hold up a close with a deadline, which says how many threads were left behind", function()
    local gate = os.tmpname()
    os.remove(gate)
    assert.same({ "nil\t1 of 2 threads still ran their jobs and were left behind\tETIMEDOUT\n"
      .. "nil\tthe pool was closed while the job ran\tECANCELED\n"
      .. "done\tnil\tthe job was canceled before it ran\tECANCELED\ntrue\n", 0 }, run(pool .. ([[
      local quick = pool:submit(function() return "done" end)
      quick:wait()
      local gate = "%s"
      local slow = pool:submit(function(path)
        local there
        repeat there = io.open(path) until there
        return "done"
      end, gate)
      while pool:stats().queued > 0 do require "perf.core".watch({}, 0.001) end
      local late = pool:submit(function() end)
      -- slow ends after close has canceled what had not begun, and before its deadline
      local one, other = pool.threads[1], pool.threads[2]
      for i, thread in ipairs {one, other} do
        pool.threads[i] = {join = function(_, seconds)
          io.open(gate, "w"):close()
          repeat until one:join(0) or other:join(0)
          return thread:join(seconds)
        end}
      end
      print(pool:close(0.1))
      print(endless:get())
      print(slow:get(), late:get())
      print(pool:close(0))]]):format(gate)))
    os.remove(gate)
  end)

  -- The pool's finalizer waits for the jobs. If it was made before the threads, their finalizers ran first and detached them, and
  -- the jobs were lost.
  it("is left behind, while a job that ends soon is waited for", function()
    for _, last in ipairs { "", "os.exit(0, true)", "pool = nil collectgarbage() collectgarbage()" } do
      local path = os.tmpname()
      assert.same({ "", 0 }, run(([[
        local perf = require "perf"
        pool = perf.pool {size = 2, events = false}
        for i = 1, 2 do
          pool:submit(function(path)
            require "perf.core".watch({}, 0.3)
            local f = io.open(path, "a")
            f:write("x")
            f:close()
          end, "%s")
        end
        while pool:stats().queued > 0 do require "perf.core".watch({}, 0.001) end
        %s]]):format(path, last)))
      local f = assert(io.open(path))
      assert.equal("xx", f:read "*a")
      f:close()
      os.remove(path)
    end
  end)

  it("may end after its pool is closed, and after the end of the state that created it", function()
    requires { perf_open = true }
    -- Each job ends at another moment around the close, or while the state is closed. Memory that a thread left behind must not
    -- use is then being freed.
    assert.same({ "", 0 }, run [[
      local perf = require "perf"
      for i = 1, 25 do
        local pool = perf.pool {size = 2, events = i % 2 == 0 and "page-faults" or false}
        for j = 1, 2 do
          pool:submit(function(ns)
            local clock = require "perf.core".clock_wall
            local till = clock() + ns
            while clock() < till do end
            return ("x"):rep(1e5)
          end, 1.6e5 * (i + j))
        end
        while pool:stats().queued > 0 do require "perf.core".watch({}, 0.001) end
        local ok, message, code = pool:close(0.002)
        assert(ok or code == "ETIMEDOUT", message)
        pool = nil
        collectgarbage()
      end]])
  end)

  it("leaves nothing behind if the jobs end in time", function()
    assert.same({ "true\t1\n", 0 }, run [[
      local perf = require "perf"
      local pool = perf.pool {size = 2, events = false}
      for i = 1, 10 do pool:submit(function(x) return x end, i) end
      print(pool:close(30), require "testkit".living_threads())]])
  end)

  it("has a close that refuses an invalid deadline", function()
    local script = [[
      local pool = require "perf".pool {size = 1, events = false}
      print(pcall(pool.close, pool, "x"))
      pool:close()]]
    assert.matches("number of seconds expected, got string", run(script)[1], 1, true)
  end)
end)
