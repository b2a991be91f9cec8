-- Profiles of another process. The process is a child of the spec, which waits until the profiler has started.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local outside = require "spec.support.outside"
local kit = require "testkit"
local perf = require "perf"
local nobody = require "spec.support.nobody"
local profiling = require "spec.support.profiling"

local on_line, profile, under = profiling.on_line, outside.profile, profiling.under
local jit = rawget(_G, "jit")

local function faults(opts)
  opts = opts or {}
  opts.event, opts.period = "page-faults", 1
  return opts
end

-- Each sample is counted once; a child's pages are copied at its first writes to them, so it has more faults than its own.
-- may_lose: the samples are more than the ring holds, so that some are lost if the profiler is slower than the program.
local function check_sums(prof, may_lose)
  local a = prof.accounting
  local text = profiling.text(prof)
  assert.equal(a.samples, a.resolved + a.labelled + a.dropped, text)
  assert.is_true(may_lose or a.dropped == 0, text)
  assert.equal(a.samples - a.dropped, prof.sample_count, text)
  assert.equal(tonumber(prof.total), tonumber(profiling.sum(prof)), text)
end

describe("a profile of another process", function()
  before_each(function()
    outside.requires()
  end)

  it("has each page fault on its line, with the whole stack", function()
    local first, second
    local function inner(n)
      kit.touch_pages(n)
    end
    local function outer()
      inner(300) -- the line below that of `first`
      inner(900)
      return 1
    end
    first = debug.getinfo(outer, "S").linedefined + 1
    second = first + 1
    local prof = profile(faults(), outer)
    check_sums(prof)
    local text = profiling.text(prof)
    local line = debug.getinfo(inner, "S").linedefined + 1
    assert.is_true(on_line(prof, line, "inner") >= 1200, text)
    assert.is_true(on_line(prof, line, "inner") <= 1800, text)
    local sums = {}
    for _, s in ipairs(prof:samples()) do
      for i, f in ipairs(s.stack) do
        if f.func == "inner" then sums[s.stack[i + 1].line] = (sums[s.stack[i + 1].line] or 0) + s.weight end
      end
    end
    assert.is_true(sums[first] >= 300 and sums[first] <= 500, text) -- twice as many, if each were counted twice
    assert.is_true(sums[second] >= 900 and sums[second] <= 1300, text)
    assert.equal("registers", prof.method)
  end)

  it("names C functions as in the process itself", function()
    local prof = profile(faults(), function()
      local t = {}
      for i = 1, 100 do t[i] = ("x"):rep(4096 + i) end
      return #table.concat(t)
    end)
    check_sums(prof, true)
    assert.is_true(under(prof, jit and "table.concat" or "string.rep") > 50, profiling.text(prof))
    assert.is_true(under(prof, "table.concat") > 50, profiling.text(prof))
  end)

  -- A sanitizer's memory, or another language's heap, may lie before that of Lua. It is mostly empty, and larger than what is
  -- searched.
  it("finds the Lua state of a process that has reserved much memory", function()
    requires { lua = "luajit", ffi = true }
    local ffi = require "ffi"
    pcall(ffi.cdef, "void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t);")
    local READ_WRITE, PRIVATE, ANONYMOUS, NORESERVE, size = 3, 2, 0x20, 0x4000, 2 ^ 34
    local at = ffi.C.mmap(nil, size, READ_WRITE, PRIVATE + ANONYMOUS + NORESERVE, -1, 0)
    assert(at ~= ffi.cast("void *", -1))
    finally(function() ffi.C.munmap(at, size) end)
    local prof = profile(faults(), function() kit.touch_pages(100) end)
    assert.is_true(under(prof, "testkit.touch_pages") >= 100, profiling.text(prof))
  end)

  for _, how in ipairs { "alone", "resumer" } do
    it("shows a coroutine " .. (how == "alone" and "by itself" or "under the functions that resumed it"), function()
      local function leaf() kit.touch_pages(300) end
      local function generator()
        while true do
          leaf()
          coroutine.yield(1)
        end
      end
      local function middle()
        local co = coroutine.wrap(generator)
        while true do
          co()
          coroutine.yield(1)
        end
      end
      local function main()
        local co = coroutine.wrap(middle)
        for _ = 1, 3 do co() end
      end
      local prof = profile(faults { coroutines = how }, main)
      check_sums(prof)
      local text = profiling.text(prof)
      assert.is_true(under(prof, "leaf", "generator") >= 900, text)
      local resumed = under(prof, "leaf", "middle")
      assert.is_true(how == "alone" and resumed == 0 or how == "resumer" and resumed >= 900, text)
      assert.equal(resumed, under(prof, "leaf", "main"), text)
    end)
  end

  it("has the children that the process forks, and those that run no Lua", function()
    local function in_child() kit.touch_pages(300) end
    local prof = profile(faults(), function()
      for _ = 1, 2 do assert(kit.fork(in_child) == 0) end
      os.execute "exec true"
    end)
    check_sums(prof)
    local text = profiling.text(prof)
    assert.is_true(under(prof, "in_child") >= 600, text)
    assert.is_true(under(prof, "(outside Lua)") > 0, text)
  end)

  -- The weight of the stacks with a native frame of this name, just above one of that name.
  local function on_top(prof, name, of)
    local sum = 0
    for _, s in ipairs(prof:samples()) do
      for i, f in ipairs(s.stack) do
        local below = s.stack[i + 1]
        if f.kind == "native" and f.name:find(name) and below and (below.name == of or below.kind == "native") then
          sum = sum + s.weight
          break
        end
      end
    end
    return sum
  end

  -- C code has no frame pointers; its unwind tables have its frames.
  it("shows native frames, on top of the Lua stack that called them", function()
    requires { ext = "symbols" }
    local prof = profile(faults { native = true }, function() kit.touch_pages(500) end)
    check_sums(prof)
    local text = profiling.text(prof)
    assert.is_true(on_top(prof, "testkit%.so", "testkit.touch_pages") >= 490, text)
    for _, s in ipairs(prof:samples()) do
      for i, f in ipairs(s.stack) do -- the program that has called Lua is left out
        assert.is_true(f.kind ~= "native" or i < #s.stack, text)
        assert.is_nil(f.name:find "^main %(", text)
      end
    end
  end)

  -- Not at a tracepoint of "syscalls": there Linux 6.1 gives a BPF program no frames of its own.
  it("shows the kernel's frames", function()
    requires { tracepoint = "raw_syscalls:sys_enter" }
    local prof = profile({ event = "raw_syscalls:sys_enter", native = true }, function() kit.syscalls(100) end)
    check_sums(prof)
    assert.equal(100, under(prof, "testkit.syscalls"), profiling.text(prof))
    for _, s in ipairs(prof:samples()) do assert.equal("kernel", s.stack[1].kind, profiling.text(prof)) end
  end)

  it("counts the CPU time that the process uses", function()
    local prof = profile({ freq = 1000 }, function()
      local s, t0 = 0, os.clock()
      while os.clock() - t0 < 0.15 do
        for i = 1, 1e4 do s = s + i % 7 end
      end
      return s
    end)
    check_sums(prof, true)
    assert.equal("ns", prof.unit)
    -- os.clock counts the switches to other programs too, of which there are many on a loaded machine.
    assert.is_true(prof.total >= 0.1e9, profiling.text(prof))
    assert.is_true(prof.accounting.resolved > 0.9 * prof.sample_count, profiling.text(prof))
  end)

  it("has each system call on its line, those of children too", function()
    requires { tracepoint = "syscalls:sys_enter_getppid" }
    local line
    local prof = profile({ event = "syscalls:sys_enter_getppid" }, function()
      line = debug.getinfo(1, "l").currentline + 1
      kit.syscalls(100)
      for _ = 1, 3 do kit.fork(function() kit.syscalls(20) end) end -- an ended child had the program removed from the tracepoint
      kit.syscalls(7)
      return line
    end)
    check_sums(prof)
    local text = profiling.text(prof)
    assert.equal(167, tonumber(prof.total), text)
    assert.equal(167, under(prof, "testkit.syscalls"), text)
    assert.equal(60, under(prof, "testkit.fork"), text)
  end)

  it("has each call of a function in a library, and the process can fork", function()
    requires { uprobe = true, ext = "symbols" }
    local _, path, symbol = kit.probe_place()
    local prof, forked = profile({ event = perf.uprobe { path = path, symbol = symbol } }, function()
      for _ = 1, 20 do kit.probe(5) end
      return os.execute "exec true"
    end)
    check_sums(prof)
    local text = profiling.text(prof)
    assert.is_true(forked == "0" or forked == "true", forked)
    assert.equal(100, tonumber(prof.total), text)
    assert.equal(100, under(prof, "testkit.probe"), text)
  end)

  it("has the time off the CPU where the process waits", function()
    requires { tracepoint = "sched:sched_switch" }
    local function naps() os.execute "exec sleep 0.1" end
    local prof = profile({ event = "context-switches" }, function()
      for _ = 1, 6 do naps() end
    end)
    check_sums(prof)
    local text = profiling.text(prof)
    assert.equal("ns", prof.unit)
    -- A sleep's timer starts before the thread leaves its CPU. If a busy host runs another machine then, the timer may expire
    -- before the thread has left the CPU: of such a sleep little or nothing is a time off the CPU.
    assert.is_true(under(prof, "os.execute", "naps") >= 0.3e9, text)
    assert.is_true(under(prof, "(outside Lua)") >= 0.3e9, text) -- the children
  end)

  it("counts the switches themselves if the event has a period", function()
    for _, opts in ipairs { { event = "context-switches", period = 1 },
      { event = { type = "software", config = 3, sample_period = 1 } } } do
      local prof = profile(opts, function()
        for _ = 1, 2 do os.execute "exec sleep 0.01" end
      end)
      check_sums(prof)
      assert.equal("", prof.unit)
      assert.is_true(prof.total >= 2 and prof.total < 1000, profiling.text(prof))
    end
  end)

  -- The bytecode of LuaJIT's own functions lies in its global state, so that their copies overlap with that of the state.
  it("finds the stacks of a program that calls many library functions", function()
    local prof = profile({ freq = 2000 }, function()
      local n, t0 = 0, os.clock()
      while os.clock() - t0 < 0.25 do
        local t = {}
        for i = 1, 100 do t[#t + 1] = ("%d:%s"):format(i, ("x"):rep(i % 10)) end
        for k, v in table.concat(t, ","):gmatch "(%d+):(x*)" do n = n + #k + #v:gsub("xx", "y") end
        table.sort(t, function(a, b) return a > b end)
      end
      return n
    end)
    check_sums(prof, true)
    local missing = 0
    for reason, n in pairs(prof.failures or {}) do missing = missing + (reason == "function gone" and 0 or n) end
    assert.is_true(missing <= 0.01 * prof.sample_count, profiling.text(prof))
  end)

  -- A prototype's memory is used again for that of another chunk. Each chunk's function is defined at a line of its own. The
  -- story: the lines of a call that had just begun were not in the snapshot, and were read when their memory was freed.
  it("never gives a line to another chunk", function()
    local prof = profile({ freq = 4000 }, function()
      local load = rawget(_G, "loadstring") or load
      local t0 = os.clock()
      while os.clock() - t0 < 1 do
        for k = 1, 20 do
          local text = "return function() local s = 0 for i = 1, 2000 do\n s = s + i % 7 end return s end"
          local fn = assert(load(("\n"):rep(k * 10) .. text, "@chunk" .. k))
          fn()()
        end
        collectgarbage()
      end
    end)
    check_sums(prof, true)
    local seen = 0
    for _, s in ipairs(prof:samples()) do
      for _, f in ipairs(s.stack) do
        local k = tonumber((f.file or ""):match "^chunk(%d+)$")
        if k then
          seen = seen + s.count
          assert.is_true(f.linedefined == 0 or f.linedefined == k * 10 + 1, f.name)
          assert.is_true(f.line >= (f.linedefined == 0 and 0 or k * 10 + 1) and f.line <= k * 10 + 2, f.name)
        end
      end
    end
    assert.is_true(seen > 0, profiling.text(prof))
  end)

  it("keeps what it has when the process is killed", function()
    local child = assert(kit.start(function()
      kit.touch_pages(500)
      os.execute("kill -9 " .. kit.getpid())
    end))
    local p = assert(perf.profiler(faults { pid = child:pid() }))
    assert(p:start())
    child:go()
    child:wait()
    local prof = assert(p:stop())
    p:close()
    check_sums(prof)
    assert.is_true(prof.accounting.resolved >= 500, profiling.text(prof))
  end)

  it("can be started again", function()
    local child = assert(kit.start(function() kit.touch_pages(500) end))
    local p = assert(perf.profiler(faults { pid = child:pid() }))
    assert(p:start())
    assert.same({ nil, "the profiler is running already", "EBUSY" }, { p:start() })
    assert(p:stop())
    assert.same({ nil, "the profiler is not running", "EINVAL" }, { p:stop() })
    assert(p:start())
    child:go()
    child:wait()
    local prof = assert(p:stop())
    p:close()
    check_sums(prof)
    assert.is_true(prof.total >= 500)
  end)

  it("refuses what it cannot do", function()
    assert.same({ nil, "no process 999999999", "ESRCH" }, { perf.profiler { pid = 999999999 } })
    local child = assert(kit.start(function() end))
    local pid = child:pid()
    for _, row in ipairs {
      { { event = { type = "breakpoint", bp_type = 3, bp_addr = 4096, bp_len = 4 } },
        "mem:0x1000/4:rw: a breakpoint is in the memory of the own process" },
      { { timeline = true }, "task-clock: the option 'timeline' is for the own process" },
      { { coroutines = "creator" }, "task-clock: only Lua in the process itself tells what made a coroutine" },
    } do
      row[1].pid = pid
      assert.same({ nil, row[2], "ENOTSUP" }, { perf.profiler(row[1]) })
    end
    assert.same({ nil, "task-clock: the own process is profiled without the option 'pid'", "ENOTSUP" },
      { perf.profiler { pid = kit.getpid() } })
    child:close()
    assert.has_error(function() perf.profiler { pid = 0 } end)
  end)

  it("says which capabilities an ordinary user lacks", function()
    requires { root = true }
    local child = assert(kit.start(function() end))
    assert(perf.profiler { pid = child:pid() }):close() -- loads the modules
    local text = nobody(2, function() return (select(2, perf.profiler { pid = child:pid() })) end)
    child:close()
    assert.matches("^other processes: bpf: cannot be loaded: .- needs root, or CAP_BPF with CAP_PERFMON[^\n]+\n"
      .. "process %d+: its memory cannot be read: that needs CAP_SYS_PTRACE, since it has the uid 0, [^\n]+$", text)
  end)

  it("says what the process is if it runs no Lua", function()
    -- A process that is about to run another program has no program for a moment, so this one runs none.
    local shell = io.popen("echo $$; kill -STOP $$", "r")
    local stopped = tonumber(shell:read "*l")
    local p, message, code = perf.profiler { pid = stopped }
    os.execute("kill -KILL " .. stopped)
    shell:close()
    assert.is_nil(p)
    assert.equal("ENOTSUP", code)
    assert.matches("^process %d+ %(/.*%) runs no Lua: no Lua state was found in its memory$", message)
  end)
end)
