-- The test kit: needs are named, leaks are found, triggers are exact. Twice: it checks the test kit, which all other specs use.
local kit = require "testkit"
local util = require "spec.support.util"

-- Runs a spec with this text in a separate busted; returns its result lines and its output.
local function run_spec(text, env)
  local lines, output = {}, nil
  util.with_tmpname(function(spec)
    util.with_tmpname(function(result)
      util.write_file(spec .. "_spec.lua", text)
      output = util.shell(("%s PERF_RESULT=%s %s spec/support/run.lua --helper=spec/support/init.lua " ..
        "--output=spec/support/report.lua %s_spec.lua"):format(env or "", result, util.lua(), spec))
      os.remove(spec .. "_spec.lua")
      for line in io.lines(result) do
        if not line:find "^start " and not line:find "^why " and not line:find "^slow " then lines[#lines + 1] = line end
      end
    end)
  end)
  return table.concat(lines, "\n"), output
end

describe("requires", function()
  it("lets a spec run if its needs are met", function()
    assert.equal("pass\ndone", (run_spec[[it("a", function() requires{file = "/proc/self/maps", ncpu = 1} end)]]))
  end)

  it("makes it pending and names every unmet need, in order", function()
    local text = [[it("a", function()
      requires{file = "/no/such/file", cmd = "no-such-command", module = "no.such.module", ncpu = 100000, lua = "5.1"}
    end)]]
    assert.equal("skip 100000 CPUs; the command no-such-command; the file /no/such/file; " ..
      "the module no.such.module\ndone", (run_spec(text)))
  end)

  it("in a before_each skips each spec of the block and no other", function()
    local text = [[
      describe("block", function()
        before_each(function() requires{ncpu = 100000} end)
        it("a", function() error("ran") end)
        it("b", function() error("ran") end)
      end)
      it("c", function() end)]]
    assert.equal("skip 100000 CPUs\nskip 100000 CPUs\npass\ndone", (run_spec(text)))
  end)

  it("fails the run if it cannot be counted", function()
    local result, output = run_spec[[
      describe("block", function()
        setup(function() requires{ncpu = 100000} end)
        it("a", function() end)
      end)]]
    assert.equal("fail\ndone", result)
    assert.matches("`it` or `before_each` only", output)
  end)

  it("raises an error for an unknown need", function()
    local result, output = run_spec[[it("a", function() requires{pmuu = true} end)]]
    assert.equal("fail\ndone", result)
    assert.matches("unknown need 'pmuu'", output)
  end)

  it("fails a spec for a need that PERF_MUST promises", function()
    local result, output = run_spec([[it("a", function() requires{ncpu = 100000} end)]], "PERF_MUST=root,ncpu")
    assert.equal("fail\ndone", result)
    assert.matches("PERF_MUST promises what is not here: 100000 CPUs", output)
  end)
end)

describe("the leak check", function()
  it("fails a spec that leaves a descriptor open, by name", function()
    local result, output = run_spec[[
      describe("outer", function()
        it("is clean", function() end)
        it("leaks", function() _G.kept = assert(io.open("/dev/null")) end)
        it("is clean again", function() end)
      end)]]
    assert.equal("pass\nfail\npass\ndone", result)
    assert.matches("leak in 'outer leaks': descriptor %d+ %(/dev/null%)", output)
  end)

  it("collects objects that were only forgotten", function()
    assert.equal("pass\ndone", (run_spec[[it("a", function() io.open("/dev/null") end)]]))
  end)

  it("collects objects to which only compiled code refers", function()
    assert.equal("pass\ndone", (run_spec[[
      it("a", function()
        if rawget(_G, "jit") then jit.opt.start("hotloop=1", "hotexit=1") end
        local file = io.open("/dev/null")
        local function get() return file end
        for _ = 1, 100 do get() end
      end)]]))
  end)

  it("fails a spec that closes what was open before it", function()
    local result, output = run_spec[[
      local f = io.open("/dev/null")
      it("a", function() f:close() end)]]
    assert.equal("fail\ndone", result)
    assert.matches("descriptor %d+ %(/dev/null%), which it did not open, is gone", output)
  end)

  it("runs after the spec's own after_each", function()
    assert.equal("pass\ndone", (run_spec[[
      local f
      after_each(function() f:close() end)
      it("a", function() f = io.open("/dev/null") end)]]))
  end)

  it("asks modules for the descriptors that they keep open", function()
    assert.equal("pass\ndone", (run_spec[[
      it("a", function()
        local f = io.open("/dev/null")
        package.loaded["perf.kept"] = {_release = function() f:close() end}
        _G.kept = f
      end)]]))
  end)

  it("counts a spec that failed and leaked once", function()
    assert.equal("fail\ndone", (run_spec[[it("a", function() _G.kept = io.open("/dev/null"); error("x") end)]]))
  end)
end)

describe("the report", function()
  it("counts errors outside specs", function()
    assert.equal("fail\ndone", (run_spec[[error("while the file is loaded")]]))
    assert.equal("pass\nfail\ndone", (run_spec[[
      describe("b", function()
        teardown(function() error("in teardown") end)
        it("a", function() end)
      end)]]))
  end)

  it("keeps the results of specs that passed if the run dies", function()
    assert.equal("pass", (run_spec[[
      it("a", function() end)
      it("b", function() require("testkit").kill(require("testkit").getpid(), 9) end)]]))
  end)
end)

describe("triggers", function()
  local function spent(field, fn, ...)
    local rusage = kit.rusage
    local before = rusage(field)
    fn(...)
    return rusage(field) - before
  end

  it("touch_pages costs exactly its faults", function()
    for _, n in ipairs{0, 1, 64, 1000} do
      util.exactly(n, function() return spent("minflt", kit.touch_pages, n) end)
    end
  end)

  it("sleeps are voluntary switches", function()
    assert.equal(7, spent("nvcsw", kit.sleeps, 7))
  end)

  it("spin uses at least its CPU time", function()
    local before = kit.clock_ns("thread")
    kit.spin(2e6)
    assert.is_true(kit.clock_ns("thread") - before >= 2e6)
  end)

  it("pins and moves this thread", function()
    requires{ncpu = 2}
    finally(kit.unpin)
    for _, cpu in ipairs(kit.cpus()) do
      assert.is_true(kit.pin(cpu))
      assert.equal(cpu, kit.cpu())
    end
    assert.is_true(kit.migrate(3))
  end)

  it("threads and workers do their work, then end", function()
    local workers = kit.workers(3)
    local tids = workers:tids()
    assert.equal(3, #tids)
    assert.are_not.equal(tids[1], tids[2])
    workers:work{pages = 3, syscalls = 2}
    workers:work{spin_ns = 1000}
    workers:close()
    workers:close()
    assert.has_error(function() workers:tids() end)
    kit.threads(2, {pages = 2})
  end)

  it("a cell is memory at an address", function()
    local cell = kit.cell()
    assert.equal(0, cell:peek())
    cell:poke(42, 3)
    assert.equal(42, cell:peek())
    cell:poke8(7, 1, 8)
    assert.equal(7, cell:peek(1, 8))
    assert.equal(0, cell:addr() % 64)
  end)

  it("fail_alloc refuses the n-th allocation and all that follow", function()
    local function work()
      local t = {}
      for i = 1, 10 do t[i] = {i} end
      return #t
    end
    local count, ok, result = kit.fail_alloc(0, work)
    assert.is_true(ok)
    assert.equal(10, result)
    assert.is_true(count >= 10)
    local _, failed, message = kit.fail_alloc(5, work)
    assert.is_false(failed)
    assert.matches("not enough memory", message)
    assert.equal(10, work())
  end)
end)

describe("children", function()
  it("return a value, an error, a status, a signal", function()
    local function run(...)
      local status, text = kit.fork(...)
      return {status, text}
    end
    assert.same({0, "5 6"}, run(function(a, b) return a .. " " .. b end, 5, 6))
    assert.same({0, ""}, run(function() end))
    assert.same({255, "oops"}, run(function() error("oops", 0) end))
    assert.same({7, ""}, run(function() kit.exit(7) end))
    assert.same({-9, ""}, run(function() kit.kill(kit.getpid(), 9) end))
    assert.same({3, ""}, run(function() kit.exec("sh", "-c", "exit 3") end))
    assert.equal("x", util.in_child(function() return "x" end))
    assert.has_error(function() util.in_child(error, "y") end)
  end)

  it("wait until they are released", function()
    local child = kit.start(function() return kit.getpid() end)
    local pid = child:pid()
    child:go()
    local status, text = child:wait()
    assert.same({0, tostring(pid)}, {status, text})
    assert.has_error(function() child:wait() end)
    kit.start(function() end):close()
  end)

  it("end when they take too long", function()
    local child = kit.start(function() kit.sleeps(1, 20e9) end)
    assert.equal(-9, (child:wait(0.05)))
  end)

  it("drop their privileges", function()
    requires{root = true}
    assert.equal("65534", util.in_child(function()
      assert(kit.drop())
      assert(io.open("/proc/self/maps")):close() -- still its own
      return kit.geteuid()
    end))
  end)

  it("have system calls refused", function()
    requires{seccomp = true, perf_open = true}
    assert.equal("38", util.in_child(function()
      assert(kit.refuse("perf_event_open", 38))
      return (select(3, kit.can_open{type = 1, config = 1}))
    end))
  end)

  it("have their limits lowered", function()
    local text = util.in_child(function()
      assert(kit.rlimit("nofile", 3))
      return select(2, io.open("/dev/null"))
    end)
    assert.matches("Too many open files", text)
  end)
end)
