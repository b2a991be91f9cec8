-- The story: a program whose profiler was closed or stopped by a finalizer died by SIGSEGV, if the finalizer ran while the
-- profiler started or its samples were read: the samples were freed meanwhile. A profile of another process hung instead: a
-- finalizer closed it, or ended the program, while its collector's thread waited for a snapshot to be read.
-- Later: it starts hundreds of profiles while the collector works all the time.
local kit = require "testkit"
local util = require "spec.support.util"

local prologue = [[
  local perf = require "perf"
  local loads = loadstring or load
  local function owner(collect)
    if not newproxy then return setmetatable({}, { __gc = collect }) end
    local o = newproxy(true)
    getmetatable(o).__gc = collect
    return o
  end
  if jit then jit.off() end
  -- Call a method while finalizers call another one.
  local function disturbed(p, method, fn)
    local calls, pause, speed = 0, nil, nil
    local function again()
      calls = calls + 1
      if calls < 50 then
        owner(again)
      else
        collectgarbage("setpause", pause)
        collectgarbage("setstepmul", speed)
      end
      fn()
    end
    collectgarbage()
    pause, speed = collectgarbage("setpause", 1), collectgarbage("setstepmul", 100000)
    owner(again)
    return p[method](p)
  end
]]

local function run(script, argument)
  local output, status
  util.with_tmpname(function(path)
    util.write_file(path, prologue .. script)
    output, status = util.shell(("timeout -s KILL 600 %s %s %s"):format(util.lua(), path, argument or ""))
  end)
  return output, status
end

describe("a profiler that a finalizer calls", function()
  before_each(function() requires { registers = true } end)

  it("keeps its samples until they are read", function()
    for _, method in ipairs { "close", "stop" } do
      assert.same({ "done", 0 }, { run([[
        local method = ...
        local p = assert(perf.profiler { event = "alloc", period = 64 })
        assert(p:start())
        for i = 1, 300 do
          loads(("local t = {} for k = 1, 30 do t[k] = { k }\n t[k][2] = tostring(%d) end"):format(i))()
        end
        local prof = disturbed(p, "stop", function() p[method](p) end)
        assert(prof.sample_count > 300)
        assert(not p:is_running())
        io.write "done"]], method) })
    end
  end)

  it("is closed after it has started", function()
    assert.same({ "done", 0 }, { run [[
      collectgarbage("setpause", 1)
      collectgarbage("setstepmul", 1000)
      for i = 1, 200 do -- on 5.3 the finalizer runs in nearly each start, and each learns again
        local p = assert(perf.profiler { event = "heap", survived = 1, period = 1 })
        owner(function() p:close() end)
        local junk = {}
        for k = 1, i % 100 do junk[k] = {} end
        local ok, started, message = pcall(p.start, p)
        assert(started or message:find("closed the profiler", 1, true), message)
        if not ok then assert(started:find("Profiler is closed", 1, true), started) end
        p:close()
        assert(not p:is_running())
      end
      io.write "done"]] })
  end)

  it("does not wait for itself, if it is of another process", function()
    requires { ext = { "bpf", "outside" }, bpf = true, perf_open = true }
    util.with_directory(function(dir)
      local child = assert(kit.start(function()
        local loads, sleep = rawget(_G, "loadstring") or load, require "perf.core".watch
        while true do
          while not os.rename(dir .. "/go", dir .. "/going") do sleep({}, 0.01) end
          for i = 1, 3000 do -- each has a stack of its own; together they take more memory than the program has
            loads(("local touch = ...\n touch(1) return %d"):format(i), "=chunk" .. i)(kit.touch_pages)
          end
          os.rename(dir .. "/going", dir .. "/done")
        end
      end))
      child:go()
      for _, fn in ipairs { "p:close()", "p:snapshot()", "os.exit(9, true)" } do
        local output, status = run(([[
          local pid, dir = ...
          local p = assert(perf.profiler { pid = tonumber(pid), event = "page-faults", period = 1 })
          assert(p:start())
          io.open(dir .. "/go", "w"):close()
          while not os.remove(dir .. "/done") do require "perf.core".watch({}, 0.01) end
          assert(disturbed(p, "snapshot", function() %s end))
          io.write "done"]]):format(fn), child:pid() .. " " .. dir)
        if fn:find "exit" then assert.equal(9, status, output) else assert.same({ "done", 0 }, { output, status }) end
      end
      child:close()
    end)
  end)
end)
