-- The story: a forked child has copies of other objects than events, too. In 0.1.0 an Output that the child collected removed the
-- file that the parent was writing, a perf.data writer wrote the parent's buffer into the file a second time, the child waited
-- for ever for the lock of a channel or of libpfm4 that another thread had held at the fork, and the child could start a program
-- that the parent had prepared. A second prepared program had a copy of the first one's pipe, so that giving up the first hung.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local core = require "perf.core"
local forks = require "spec.support.forks"
local kit = require "testkit"
local perf = require "perf"
local perfdata = require "spec.support.perfdata"
local util = require "spec.support.util"

local split, refused = forks.split, forks.refused
local m = perfdata.maker(core.bytes("2", 1):byte(1) == 1 and "<" or ">")
local GETPPID = "syscalls:sys_enter_getppid"

describe("a forked child", function()
  before_each(function() requires { perf_open = "user" } end)

  it("is detected by a handler if the kernel clears no page", function()
    requires { seccomp = true }
    assert.equal("fine", util.in_child(function()
      return (util.shell(util.lua() .. [[ -e 'local kit = require "testkit"
        assert(kit.refuse("madvise", 22))
        local perf = require "perf"
        local ev = assert(perf.open "page-faults:u")
        local pid = kit.split()
        if pid == 0 then
          local ok, err = pcall(ev.read, ev)
          kit.exit(not ok and err:find("belongs to the parent process", 1, true) and 7 or 1)
        end
        assert(ev:read())
        io.write(kit.reap(pid) == 7 and "fine" or "not noticed")']]))
    end))
  end)

  it("leaves the parent's files alone, however it ends", function()
    local ends = { "", "os.exit(0)", "os.exit(0, true)", "error(\"over\")", "kit.exit(0)" }
    for _, last in ipairs(ends) do
      util.with_directory(function(dir)
        local path = dir .. "/parent"
        local output, status = util.shell(([[%s -e '
          local core, kit, perf = require "perf.core", require "testkit", require "perf"
          local path = "%s"
          local out = assert(core.output(path .. ".txt"))
          assert(out:write("whole"))
          local ev = assert(perf.open("dummy:u"))
          local w = assert(perf.data.create(path .. ".data", { events = { ev }, build_ids = false }))
          for i = 1, 100 do assert(w:write(core.finished_round)) end
          local t = assert(perf.tracer { events = false, delay = 1000, exporter = function(spans)
            local f = assert(io.open(path .. ".spans", "a"))
            for _, s in ipairs(spans) do f:write(s.name, "\n") end
            f:close()
          end })
          t:start "parent":finish()
          local pid = kit.split()
          if pid == 0 then
            assert(not pcall(out.write, out, "x") and not pcall(out.commit, out))
            assert(not pcall(w.write, w, core.finished_round))
            assert(select(3, w:close()) == "ECHILD")
            %s
            return
          end
          kit.reap(pid)
          assert(out:commit())
          assert(w:close())
          assert(t:flush())
          t:close()
          local n = 0
          local file = assert(perf.data.open(path .. ".data"))
          for _ in file:records() do n = n + 1 end
          io.write(n)']]):format(util.lua(), path, last))
        assert.equal(0, status, last .. ": " .. output)
        assert.matches("100$", output, last)
        assert.equal("whole", util.read_file(path .. ".txt"), last)
        assert.equal("parent\n", util.read_file(path .. ".spans"), last)
      end)
    end
  end)

  it("that shares the memory until it executes a program changes nothing", function()
    requires { root = true, tracepoint = GETPPID }
    local generation = core.fork_generation()
    local ev = assert(perf.open(GETPPID))
    local e = ev:measure(function()
      kit.syscalls(3)
      os.execute "true"
      io.popen("true"):close()
      kit.syscalls(4)
    end)
    assert.equal(7, e.value)
    assert.equal(generation, core.fork_generation())
    ev:close()
  end)

  it("does not take the parent's records out of a pipe", function()
    util.with_tmpname(function(path)
      util.write_file(path, m.pipe(m.record(64, 0, m.attr { sample_type = 1 }, m.u64(1)) .. m.record(9, 2, m.u64(5)):rep(5)))
      local output, status = util.shell(([[cat %s | %s -e '
        local kit, perf = require "testkit", require "perf"
        local file = assert(perf.data.open "-")
        local n = 0
        for _ in file:records() do
          n = n + 1
          if n == 3 then
            local pid = kit.split()
            if pid == 0 then
              local ok, err = pcall(function() for _ in file:records() do end end)
              kit.exit(not ok and err:find("belongs to the parent process", 1, true) and 0 or 1)
            end
            assert(kit.reap(pid) == 0)
          end
        end
        io.write(n)']]):format(path, util.lua()))
      assert.equal(0, status, output)
      assert.equal("6", output)
    end)
  end)

  it("never waits for a lock that a thread of the parent held", function()
    local jobs = core.channel()
    assert(jobs:push(1, "one"))
    assert.equal(0, split(function()
      for method, argument in pairs { push = 1, pop = 1, remove = 1, close = true, length = 1, export = 1 } do
        refused("Channel", jobs[method], jobs, argument, "x")
      end
      jobs = nil
      collectgarbage()
      collectgarbage()
    end))
    assert.equal(1, jobs:pop(0))
  end)

  -- Calls fn in 20 children, while another thread of their parent calls `work` without a pause; returns the results as text. Not
  -- under AddressSanitizer: its allocator has locks too, which a child may inherit.
  local function beside(work, fn)
    local list = {}
    kit.settle_after_forks(false) -- which would take most of the time
    finally(function() kit.settle_after_forks(true) end)
    local pool = assert(perf.pool { size = 1, events = false })
    util.with_tmpname(function(path)
      pool:submit(function(file, once)
        repeat
          for _ = 1, 100 do once() end
          local f = io.open(file)
        until not f or not f:close()
      end, path, work)
      for i = 1, 20 do list[i] = util.in_child(fn) end
    end)
    pool:close()
    return table.concat(list)
  end

  it("never waits for the lock of the events that count reads, and counts its own reads", function()
    requires { root = true, tracepoint = "syscalls:sys_enter_read", nosan = true }
    local function work() require "perf".measure("syscalls:sys_enter_read", tostring, 1) end
    local function own() return perf.measure("syscalls:sys_enter_read", kit.reads, 3)["syscalls:sys_enter_read"] end
    assert.equal(("3"):rep(20), beside(work, own))
  end)

  it("never waits for the lock of libpfm4", function()
    requires { ext = "pfm", nosan = true }
    local function encode() return require "perf.names.pfm".encode "page-faults".config end
    assert.equal(("2"):rep(20), beside(encode, encode))
  end)

  it("can neither start nor end a program of the parent", function()
    local p = assert(core.spawn { "true" })
    assert.equal(0, split(function()
      for _, method in ipairs { "start", "kill", "wait" } do
        local ok, _, code = p[method](p)
        assert(ok == nil and code == "ECHILD", method)
      end
      p:close()
    end))
    assert.is_true(p:start())
    assert.same({ exit = 0 }, p:wait(true))
    p:close()
  end)

  it("may be alive while the parent gives up another program that was not started", function()
    local first, second = assert(core.spawn { "true" }), assert(core.spawn { "true" })
    first:close() -- the second has a copy of its gate
    second:close()
  end)
end)
