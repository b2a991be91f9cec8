-- The story: on LuaJIT 47 % of a program that splits texts was "(C function)": string.gmatch's iterator, which is in no table and
-- whose frame is gone when the interpreter reaches its safe point. On PUC Lua it was "for iterator".
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local function share(prof, name) return profiling.under(prof, name) / prof.total end

-- Runs f for longer and longer, until there are enough samples: an emulated machine takes them rarely.
local function busy(f)
  local clock, seconds = os.clock, 0.1
  local prof
  repeat
    prof = perf.profile({ event = "task-clock:u", freq = 1999 }, function()
      local stop = clock() + seconds
      while clock() < stop do
        for _ = 1, 5 do f() end
      end
    end)
    seconds = 3 * seconds
  until prof.sample_count >= 150 or seconds > 30
  return prof
end

describe("a C function in a profile", function()
  before_each(function() requires { gc64 = true } end)

  local text = ("word after word "):rep(3000)

  it("that string.gmatch has returned is called its iterator", function()
    requires { perf_open = "user" }
    local prof = busy(function()
      for _ in string.gmatch(text, "[%w_]+%s") do end
    end)
    assert.is_true(share(prof, "string.gmatch iterator") > 0.3, profiling.text(prof))
    assert.equal(0, profiling.under(prof, "(C function)"), profiling.text(prof))
    assert.equal(0, profiling.under(prof, "for iterator"), profiling.text(prof))
    for _, s in ipairs(prof:samples()) do
      if s.stack[1].name == "string.gmatch iterator" then
        assert.equal("builtin", s.stack[1].kind)
        assert.equal("lua", s.stack[2].kind)
      end
    end
  end)

  it("of Lua's libraries has its library's name, under the line that calls it", function()
    requires { perf_open = "user", nostress = true } -- under stress it takes too long
    local parts, line = {}, nil
    for i = 1, 3000 do parts[i] = tostring(i) end
    local calls = { -- each alone: how long one takes in comparison with the other depends on the allocator
      ["table.concat"] = function()
        line = debug.getinfo(1, "l").currentline + 1
        return #table.concat(parts, ",")
      end,
      ["string.gsub"] = function()
        line = debug.getinfo(1, "l").currentline + 1
        return #text:gsub("w(%w+)", "%1")
      end,
    }
    for name, call in pairs(calls) do
      local prof = busy(call)
      assert.is_true(share(prof, name) > 0.5, profiling.text(prof))
      assert.equal(0, profiling.under(prof, "(C function)"), profiling.text(prof))
      for _, s in ipairs(prof:samples()) do
        for i, frame in ipairs(s.stack) do
          if frame.name == name then assert.equal(line, s.stack[i + 1].line, profiling.text(prof)) end
        end
      end
    end
  end)

  it("is not shown wrongly if the debug library calls a hook on top of a Lua function's frame", function()
    requires { perf_open = "user" }
    local function hook() for _ = 1, 3 do end end
    local function work() for _ = 1, 100 do end end
    if jit then jit.off(work) end
    local prof = busy(function()
      debug.sethook(hook, "", 1)
      work()
      debug.sethook()
    end)
    for _, s in ipairs(prof:samples()) do
      assert.is_nil(s.stack[1].name:find "^function 0x", profiling.text(prof))
    end
  end)

  it("of a module has its name in the module, whatever the caller calls it", function()
    requires { perf_open = "user" }
    local work = kit.hot_spots
    local prof = busy(function() work(1) end)
    assert.is_true(share(prof, "testkit.hot_spots") > 0.8, profiling.text(prof))
  end)

  -- The third story: if the event was a tracepoint or a probe, the handler did not look for the C function, since its own system
  -- call could have been an event in turn. All results of "which line makes the system call" were (C function).
  describe("in which an event is counted", function()
    local function named(event, name, count)
      local work = kit[name:match "[^.]+$"]
      local prof = assert(perf.profile({ event = event }, function()
        for _ = 1, count do work(1) end
      end))
      assert.equal(prof.total, profiling.sum(prof))
      assert.is_true(prof.total >= count and prof.total <= count + 100, profiling.text(prof))
      assert.is_true(profiling.under(prof, name) >= count, profiling.text(prof))
    end

    it("is named if the event is a tracepoint", function()
      requires { perf_open = "user", tracepoint = "syscalls:sys_enter_getppid" }
      named("syscalls:sys_enter_getppid", "testkit.syscalls", 100)
    end)

    it("is named if the event is every system call", function()
      requires { perf_open = "user", tracepoint = "raw_syscalls:sys_enter" }
      named("raw_syscalls:sys_enter", "testkit.syscalls", 100)
      named("raw_syscalls:sys_exit", "testkit.syscalls", 100)
    end)

    it("is named if the event is a uprobe", function()
      requires { uprobe = true, ext = "symbols", nosan = true }
      local _, path, symbol = kit.probe_place()
      named(assert(perf.uprobe { path = path, symbol = symbol }), "testkit.probe", 100)
    end)

    it("is unknown on LuaJIT if looking it up would cause the event without end", function()
      requires { perf_open = "user", tracepoint = "syscalls:sys_enter_process_vm_readv", lua = "luajit" }
      local core = require "perf.core"
      local prof
      profiling.at_safe_points(function()
        prof = assert(perf.profile({ event = "syscalls:sys_enter_process_vm_readv" }, function()
          for _ = 1, 10 do core.handler_call() end
        end))
      end)
      assert.equal(10, prof.total)
      assert.equal(10, profiling.under(prof, "(C function)"), profiling.text(prof))
    end)
  end)

  it("that is in no table has its symbol's name", function()
    requires { perf_open = "user", ext = "symbols" }
    local work = kit.nowhere()
    local prof = busy(function() work(1) end)
    local found
    for _, s in ipairs(prof:samples()) do found = found or s.stack[1].name:find("kit_hang", 1, true) end
    assert.is_truthy(found, profiling.text(prof))
  end)

  it("has its name if it calls a Lua function", function()
    requires { perf_open = "user", nostress = true }
    local t, sort = {}, table.sort
    local function less(a, b) return a < b end
    local prof = busy(function()
      for i = 1, 500 do t[i] = (i * 7919) % 1009 end
      sort(t, less)
    end)
    assert.is_true(share(prof, "table.sort") > 0.3, profiling.text(prof))
    assert.equal(0, profiling.under(prof, "(C function)"), profiling.text(prof))
    for _, s in ipairs(prof:samples()) do
      local n = 0
      for _, f in ipairs(s.stack) do n = n + (f.name == "table.sort" and 1 or 0) end
      assert.is_true(n <= 1, profiling.text(prof)) -- not once for the signal and once for the stack
    end
  end)

  -- The second story: when a compiled comparator returned to table.sort, LuaJIT reported a running C function while the thread's
  -- frame was still the comparator's. A word of that was taken for the C function's code: "function 0x3b" had 7 % of the time.
  it("that compiled code returns to is named", function()
    requires { perf_open = "user" }
    local t, sort = {}, table.sort
    local function less(a, b) return a < b end
    local prof = busy(function()
      for i = 1, 3000 do t[i] = (i * 7919) % 3001 end
      sort(t, less)
    end)
    assert.is_true(share(prof, "table.sort") > 0.3, profiling.text(prof))
    for _, s in ipairs(prof:samples()) do
      for _, frame in ipairs(s.stack) do assert.is_nil(frame.name:find("function 0x", 1, true), profiling.text(prof)) end
    end
  end)

  -- The fourth story: the functions by which LuaJIT's FFI calls and finds C functions are in no module. A program that slept in
  -- ffi.C.usleep waited in "function 0x5556db8e77e0".
  it("that LuaJIT's FFI calls is named", function()
    requires { perf_open = "user", lua = "luajit", tracepoint = "syscalls:sys_enter_getppid" }
    local ffi = require "ffi"
    pcall(ffi.cdef, "int getppid(void);")
    local function work()
      for _ = 1, 100 do ffi.C.getppid() end
    end
    require "jit".off(work)
    local prof = assert(perf.profile({ event = "syscalls:sys_enter_getppid" }, work))
    assert.equal(100, prof.total)
    assert.equal(100, profiling.under(prof, "cdata.__call"), profiling.text(prof))
  end)
end)
