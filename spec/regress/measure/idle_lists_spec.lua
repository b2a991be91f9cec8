-- The story: perf.measure keeps its lists open, and in 0.1.0 they were never closed. The fifth `perf.measure("mem:ADDR/8:w", fn)`
-- failed for lack of a debug register ("close a breakpoint", though the program held none), and a program near its limit of
-- descriptors could open nothing more. Now idle lists are closed, the least recently used first, and the open is tried again. A
-- list that measures stays open.
local kit = require "testkit"
local perf = require "perf"
local measure = require "perf.measure"
local util = require "spec.support.util"

before_each(function() requires { perf_open = true } end)

-- Names of breakpoints on separate cells, and a function that writes each n times.
local function cells(n)
  local list = {}
  for i = 1, n do
    local cell = kit.cell()
    list[i] = { name = ("mem:%s/8:w"):format(perf.hex(cell:addr())), cell = cell,
      write = function(times) for k = 1, times do cell:poke(k) end end }
  end
  return list
end

describe("an idle list is closed when its resources are needed", function()
  local registers = 0
  before_each(function()
    measure._release()
    collectgarbage()
  end)
  after_each(measure._release)

  -- The number of breakpoints that this thread can have.
  local function count_registers()
    if registers > 0 then return registers end
    local open = {}
    for i, c in ipairs(cells(20)) do
      open[i] = perf.open(c.name)
      if not open[i] then break end
      registers = i
    end
    for i = 1, registers do open[i]:close() end
    return registers
  end

  describe("for its debug registers", function()
    before_each(function()
      requires { breakpoint = true }
      if count_registers() == 20 then pending "this machine has more than 19 debug registers" end
    end)

    it("by the next list", function()
      for i, c in ipairs(cells(3 * registers)) do
        assert.equal(i, (perf.measure(c.name, c.write, i)[c.name]))
      end
    end)

    it("by Events and Groups, until all registers are in use, as the refusal says", function()
      local all, open = cells(2 * registers + 1), {}
      for i = 1, registers do perf.measure(all[i].name, all[i].write, 1) end
      open[1] = assert(perf.group { all[registers + 1].name })
      for i = 2, registers do open[i] = assert(perf.open(all[registers + i].name)) end
      local ev, message, code = perf.open(all[2 * registers + 1].name)
      assert.is_nil(ev)
      assert.equal("ENOSPC", code)
      assert.matches("this program's own events hold", message, 1, true)
      for i = 1, registers do assert.matches(all[registers + i].name, message, 1, true) end
      for _, o in ipairs(open) do o:close() end
      assert.equal(2, (perf.measure(all[1].name, all[1].write, 2)[1].value))
    end)

    it("the least recently used first", function()
      local all, ids = cells(registers + 1), {}
      for i = 1, registers do ids[i] = perf.measure(all[i].name, all[i].write, 1)[1].id end
      perf.measure(all[1].name, all[1].write, 1) -- so that the second is the oldest
      perf.measure(all[registers + 1].name, all[registers + 1].write, 1)
      assert.equal(ids[1], perf.measure(all[1].name, all[1].write, 1)[1].id)
      if registers > 1 then assert.not_equal(ids[2], perf.measure(all[2].name, all[2].write, 1)[1].id) end
    end)

    it("but not while it measures, here or in another coroutine", function()
      local all, counted = cells(registers + 1), {}
      local function nest(depth)
        if depth > registers - 1 then
          local ok, why = pcall(perf.measure, all[registers + 1].name, all[registers + 1].write, 1)
          assert.is_false(ok)
          assert.matches("own events hold", why, 1, true)
          assert.matches("[ENOSPC]", why, 1, true)
          return
        end
        counted[depth] = perf.measure(all[depth].name, function()
          nest(depth + 1)
          all[depth].write(10 + depth)
        end)
      end
      local co = coroutine.wrap(function()
        return (perf.measure(all[registers].name, function()
          coroutine.yield()
          all[registers].write(7)
        end))
      end)
      co()
      nest(1)
      assert.equal(7, co()[1].value)
      for depth = 1, registers - 1 do assert.equal(10 + depth, counted[depth][1].value) end
      local c = all[registers + 1]
      assert.equal(3, perf.measure(c.name, c.write, 3)[1].value)
    end)

    it("also after errors and coroutines that ended its measurements", function()
      local all = cells(2 * registers)
      for i = 1, registers do
        if i % 2 == 0 then
          assert.is_false(pcall(perf.measure, all[i].name, error, "on purpose"))
        else
          coroutine.wrap(function() perf.measure({ all[i].name }, coroutine.yield) end)()
        end
      end
      local running = coroutine.wrap(function() return (perf.measure(all[registers].name, function()
        coroutine.yield()
        all[registers].write(5)
      end)) end)
      running()
      for i = registers + 1, 2 * registers do assert.equal(i, perf.measure(all[i].name, all[i].write, i)[1].value) end
      assert.equal(5, running()[1].value)
      assert.equal(6, perf.measure({ all[registers].name }, all[registers].write, 6)[1].value)
    end)

    it("but not that of a span, running or paused; a tracer opens its list again", function()
      local all = cells(registers + 2)
      local tracer = perf.tracer { service = "x", events = all[1].name, exporter = false }
      local running, paused = tracer:start "running", tracer:start "paused"
      all[1].write(2)
      paused:pause()
      for i = 2, registers + 2 do assert.equal(i, perf.measure(all[i].name, all[i].write, i)[1].value) end
      paused:resume()
      all[1].write(3)
      paused:finish()
      running:finish()
      assert.equal(5, running:totable().counts[all[1].name])
      assert.equal(5, paused:totable().counts[all[1].name])
      for i = 2, registers + 2 do perf.measure(all[i].name, all[i].write, i) end
      local again = tracer:start "again"
      all[1].write(4)
      again:finish()
      assert.equal(4, again:totable().counts[all[1].name])
      tracer:close()
    end)
  end)

  it("for its descriptors, by everything that this library opens", function()
    local text = util.in_child(function()
      kit.settle()
      local lists = { "page-faults,minor-faults,dummy", "page-faults,dummy", { "dummy", "task-clock" } }
      for _, list in ipairs(lists) do perf.measure(list, kit.touch_pages, 1) end
      perf.group({ "dummy" }):close()
      perf.set("dummy", { pid = 0, cpus = { kit.cpus()[1] } }):close() -- each user who may count the kernel may open it
      local limit, files = 0, {}
      for fd in pairs(kit.fds()) do limit = math.max(limit, fd + 1) end
      assert(kit.rlimit("nofile", limit))
      while true do -- the descriptors that are free below it
        local file = io.open "/dev/null"
        if not file then break end
        files[#files + 1] = file
      end
      local c = perf.measure("page-faults,minor-faults", function() -- this closes the third list
        kit.touch_pages(3)
        local g = assert(perf.group { "dummy", "page-faults", "minor-faults" })
        assert(#g == 3)
        local ev, message, code
        for _ = 1, 20 do
          ev, message, code = perf.open "dummy"
          if not ev then break end
          lists[#lists + 1] = ev
        end
        assert(code == "EMFILE", message)
      end)
      for _, file in ipairs(files) do file:close() end
      assert(c["page-faults"] >= 3 and c["minor-faults"] >= 3)
      return "done"
    end)
    assert.equal("done", text)
  end)

  it("for its descriptors, by a module of this library that is loaded later, and by a pool's threads", function()
    assert.equal("done", (util.in_child(function()
      kit.settle()
      for _, module in ipairs { "", ".pool", ".data" } do package.loaded["perf" .. module] = nil end
      perf = require "perf" -- another table, which has loaded neither
      local function fill() -- make idle lists until no descriptor is left for a file
        for i = 1, 60 do perf.measure({ { event = "dummy", label = "dummy " .. i } }, kit.touch_pages, 1) end
        assert(not io.open "/dev/null")
      end
      assert(kit.rlimit("nofile", #require "perf.core".listdir "/proc/self/fd" + 20))
      fill()
      assert.equal("ENOENT", select(3, perf.data.open "/no/such/file"))
      fill()
      assert(not pcall(perf.pool, "no options")) -- this loads its module
      fill()
      local pool = assert(perf.pool { size = 1, events = false })
      assert(pool:submit(function() return 5 end):get() == 5)
      pool:close()
      return "done"
    end)))
  end)
end)
