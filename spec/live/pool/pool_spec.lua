-- The specs run in children, since threads stay with the process that starts them.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local function in_child(fn, ...)
  return util.in_child(function(...)
    local result = fn(...)
    return result or "fine"
  end, ...)
end

describe("perf.pool", function()
  before_each(function() requires { perf_open = true } end)

  it("runs functions, and returns their results, errors, tracebacks and counts", function()
    assert.equal("fine", in_child(function()
      local pool = assert(perf.pool { size = 2, events = "page-faults,task-clock" })
      local job = pool:submit(function(n, t)
        require "testkit".touch_pages(n)
        return n, nil, t.a, nil
      end, 64, { a = "b" })
      local results = { n = select("#", job:get()), job:get() }
      assert(results.n == 4 and results[1] == 64 and results[2] == nil and results[3] == "b")
      assert(job:counts()["page-faults"] >= 64 and job:counts()["page-faults"] < 2000, job:counts()["page-faults"])
      assert(job.wall_ns > 0)
      local fails = pool:submit(function() error { code = 5 } end)
      local ok, err = pcall(fails.get, fails)
      assert(not ok and err.code == 5)
      fails = pool:submit(function() error("text", 0) end)
      ok, err = pcall(fails.get, fails)
      assert(not ok and err == "text" and fails.traceback:find "pool_spec.lua:%d+")
      assert(fails:counts()["task-clock"] > 0)
      fails = pool:submit(function() return print end)
      ok, err = pcall(fails.get, fails)
      assert(not ok and err:find "^result 1: a C function cannot be copied")
      pool:close()
      assert(job:get() == 64)
    end))
  end)

  -- No message handler is called if memory runs out; on LuaJIT it fails if the stack overflows. An error was nil then.
  it("returns errors that leave no room for a message handler", function()
    requires { nosan = true, nostress = true }
    local script = [[
      local pool = require "perf".pool {size = 1, events = false}
      local function try(fn)
        local job = pool:submit(fn)
        local _, err = pcall(job.get, job, 60)
        print(err, (job.traceback or ""):match "\n(stack traceback:)\n%s+%S")
      end
      try(function() local t, large = {}, ("x"):rep(1e6) for i = 1, 1e9 do t[i] = large .. i end end)
      try(function()
        local mt = {__index = function(t, k) return t[k + 1] end}
        return setmetatable({}, mt)[1]
      end)
      -- Its frames are large: a traceback of 200,000 small ones takes PUC Lua a second.
      local overflow = (loadstring or load)("local function f() local a" .. (", a"):rep(40) .. " return 1 + f() end f()")
      for _ = 1, 3 do try(overflow) end]]
    -- By default the C library reserves 64 MB of addresses for each thread, and the limit includes them.
    local out, status = util.shell(("ulimit -v 100000; MALLOC_ARENA_MAX=1 %s -e '%s'"):format(util.lua(), script))
    assert.equal(0, status)
    local lines = {}
    for line in out:gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.equal("not enough memory\tstack traceback:", lines[1])
    for i = 2, 5 do assert.matches("stack overflow.*\tstack traceback:$", lines[i]) end
  end)

  it("returns errors that have no text, and the error of a job that yields", function()
    assert.equal("fine", in_child(function()
      local pool = assert(perf.pool { size = 1, events = false })
      local function fails(fn)
        local job = pool:submit(fn)
        local ok, err = pcall(job.get, job)
        assert(not ok and job.traceback:find "^.-\nstack traceback:\n.*pool_spec.lua:%d+", job.traceback)
        return err
      end
      local opaque = "(error object is a table value)"
      assert(fails(function() error(setmetatable({}, { __tostring = function() error "no" end })) end) == opaque)
      assert(fails(function() error(setmetatable({}, { __tostring = function() return {} end })) end) == opaque)
      assert(fails(function() error(setmetatable({}, { __tostring = function() return "text" end })) end) == "text")
      assert(fails(function() error() end) == nil)
      assert(fails(function() coroutine.yield() end) == "attempt to yield from outside a coroutine")
      if coroutine.close then -- to-be-closed variables are closed, which may fail as well
        local text = "local x <close> = setmetatable({}, {__close = function(_, e) error({e, closed = true}) end}) error('x', 0)"
        local job = pool:submit(load(text))
        local ok, err = pcall(job.get, job)
        assert(not ok and err.closed and err[1] == "x" and job.traceback:find "^x\nstack traceback:")
      end
      pool:close()
    end))
  end)

  it("returns an error if a result cannot be read", function()
    assert.equal("fine", in_child(function()
      package.loaded["perf.pool"] = nil -- it may have been loaded with another copy of the library
      local copy = require "perf.pool.copy"
      local pool = assert(require "perf.pool".pool { size = 1, events = false })
      local job, unpack = pool:submit(function() return 1 end), copy.unpack
      copy.unpack = function() error("not enough memory", 0) end
      local ok, err = pcall(job.get, job)
      copy.unpack = unpack
      assert(not ok and err == "not enough memory")
      ok, err = pcall(job.get, job, 1)
      assert(not ok and err == "not enough memory" and pool:stats().pending == 0)
      pool:close()
    end))
  end)

  it("binds each thread to a CPU", function()
    requires { ncpu = 2 }
    util.with_directory(function(dir)
      local cpus = { kit.cpus()[1], kit.cpus()[2] }
      assert.equal(("%d %d %d %d"):format(cpus[1], cpus[2], cpus[1], cpus[2]), in_child(function()
        local pool = assert(perf.pool { size = 4, cpus = cpus, events = false })
        local seen, jobs = {}, {}
        for i = 1, 4 do -- each job occupies a thread until all four are running
          jobs[i] = pool:submit(function(place, mine)
            io.open(place .. mine, "w"):close()
            for k = 1, 4 do
              local there
              repeat there = io.open(place .. k) until there
              there:close()
            end
            return table.concat(require "perf.core".allowed_cpus(), ",")
          end, dir .. "/", i)
        end
        for i = 1, 4 do seen[i] = tonumber(jobs[i]:get()) end
        table.sort(seen)
        pool:close()
        return seen[1] .. " " .. seen[3] .. " " .. seen[2] .. " " .. seen[4]
      end))
    end)
  end)

  it("bounds its queue, and cancels jobs that have not begun", function()
    util.with_directory(function(dir)
      assert.equal("fine", in_child(function()
        local pool = assert(perf.pool { size = 1, queue = 2, events = false })
        local function wait(gate)
          local there
          repeat there = io.open(gate) until there
          there:close()
          return "waited"
        end
        local gate = dir .. "/first"
        local first = pool:submit(wait, gate)
        while pool:stats().queued > 0 do end -- it runs
        local a, b = assert(pool:submit(wait, gate)), assert(pool:submit(wait, gate))
        local none, message, code = pool:submit(wait, gate)
        assert(none == nil and code == "EAGAIN" and message:find "queue is full")
        assert(not first:cancel())
        assert(a:cancel() and not a:cancel())
        assert(select(3, a:get()) == "ECANCELED")
        assert(select(3, first:get(0)) == "ETIMEDOUT" and not first:wait(0.01))
        util.write_file(gate, "")
        assert(b:get() == "waited" and first:get() == "waited")
        assert(pool:stats().pending == 0)
        gate = dir .. "/last"
        local last = pool:submit(wait, gate)
        while pool:stats().queued > 0 do end
        local left = pool:submit(wait, gate)
        local thread = pool.threads[1]
        pool.threads[1] = { join = function(_, seconds) -- close has canceled the jobs that had not begun
          util.write_file(gate, "")
          return thread:join(seconds)
        end }
        pool:close()
        pool:close()
        assert(last:get() == "waited" and select(3, left:get()) == "ECANCELED")
        assert(not pcall(pool.submit, pool, wait))
      end))
    end)
  end)

  it("runs thousands of jobs", function()
    requires { nostress = true }
    assert.equal("fine", in_child(function()
      local pool = assert(perf.pool { size = 3, queue = 100, events = "dummy" })
      local sum, jobs = 0, {}
      for i = 1, 3000 do
        local job, _, code = pool:submit(function(x) return x end, i)
        while not job do
          assert(code == "EAGAIN")
          sum = sum + table.remove(jobs, 1):get()
          job, _, code = pool:submit(function(x) return x end, i)
        end
        jobs[#jobs + 1] = job
      end
      for _, job in ipairs(jobs) do sum = sum + job:get() end
      assert(sum == 3000 * 3001 / 2, sum)
      pool:close()
    end))
  end)

  it("leaves no descriptors or threads", function()
    assert.equal("fine", in_child(function()
      local function descriptors()
        local n = 0
        for _ in pairs(kit.fds()) do n = n + 1 end
        return n
      end
      local function once()
        local pool = assert(perf.pool { size = 2 })
        pool:submit(function() end):get()
        pool:close()
      end
      once() -- opens the events that stay open for this thread
      local before = descriptors()
      once()
      assert(descriptors() == before)
      assert(kit.living_threads() == 1)
    end))
  end)

  it("makes a span of each job", function()
    assert.equal("fine", in_child(function()
      local list
      local tracer = perf.tracer { events = "page-faults", exporter = function(batch) list = batch end }
      local pool = assert(perf.pool { size = 1, events = "page-faults", tracer = tracer })
      tracer:span("outer", function()
        pool:submit(function() require "testkit".touch_pages(64) end):get()
        local job = pool:submit(function() error "boo" end)
        pcall(job.get, job)
      end)
      tracer:flush()
      assert(#list == 3 and list[3].name == "outer")
      assert(list[1].name:find "^pool .*pool_spec.lua:%d+$", list[1].name)
      assert(list[1].parent_id == list[3].span_id and list[1].trace_id == list[3].trace_id)
      assert(list[1].counts["page-faults"] >= 64 and list[2].status == "error")
      assert(list[3].self_counts["page-faults"] == list[3].counts["page-faults"]) -- other threads are not this one
      assert(list[1].start_ns >= list[3].start_ns and list[1].duration_ns <= list[3].duration_ns)
      pool:close()
    end))
  end)

  it("ends when the program ends", function()
    local code = [[local p = require "perf".pool {size = 2} for _ = 1, 10 do p:submit(function() return 1 end) end]]
    assert.same({ "", 0 }, { util.shell(("%s -e '%s'"):format(util.lua(), code)) })
    code = code .. [[ local j = p:submit(function() end) j:get() print "done"]]
    assert.same({ "done\n", 0 }, { util.shell(("%s -e '%s'"):format(util.lua(), code)) })
  end)

  it("reports mistakes", function()
    assert.equal("fine", in_child(function()
      local function raises(pattern, fn, ...)
        local ok, message = pcall(fn, ...)
        assert(not ok and message:find(pattern), message)
      end
      raises("unknown option 'sise'", perf.pool, { sise = 1 })
      raises("'size': a whole number from 1", perf.pool, { size = 0 })
      raises("'cpus': '%-1' is no CPU", perf.pool, { cpus = { -1 } })
      raises("unknown event; did you mean", perf.pool, { events = "page-fautls" })
      raises("'events': names expected", perf.pool, { events = { {} } })
      raises("pool_spec.lua:%d+: bad argument #1 to 'pool' %(option 'tracer': a perf.tracer expected%)", function()
        perf.pool { tracer = {} }
      end)
      local pool, message, code = perf.pool { size = 1, cpus = { 1000 } }
      assert(pool == nil and message:find "CPU 1000: sched_setaffinity" and code == "EINVAL", message)
      pool = assert(perf.pool { size = 1, events = false })
      local up = 1
      raises("pool_spec.lua.*the function has the upvalue 'up'", function() pool:submit(function() return up end) end)
      raises("argument 2: a userdata cannot be copied", function() pool:submit(function() end, 1, io.stdout) end)
      raises("function expected, got string", function() pool:submit "x" end)
      assert(pool:submit(function() return 1 end):counts() == nil)
      pool:close()
    end))
  end)

  it("cannot be used in the child of a fork", function()
    assert.equal("fine", in_child(function()
      local pool = assert(perf.pool { size = 1, events = false })
      util.in_child(function()
        local ok, message = pcall(pool.submit, pool, function() end)
        assert(not ok and message:find "Pool belongs to the parent process")
        pool:close()
      end)
      pool:close()
    end))
  end)
end)
