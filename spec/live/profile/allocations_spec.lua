-- Allocations by Lua line: of lines whose bytes are known from the interpreter's own count, `collectgarbage "count"`.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local compiled = require "spec.support.compiled"
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local next_line = profiling.next_line
local line = {}
local jit = rawget(_G, "jit")

-- The frames of what the interpreter allocates for itself, at whichever line runs.
local interpreters = { ["(JIT compiler)"] = true, ["(garbage collector)"] = true, ["(string table)"] = true }

-- The weight on the line of a function, by its name, since other files have such lines too; and of the interpreter itself.
-- all: what the interpreter allocates for itself at this line is the line's.
local function own(prof, name, all)
  local sum, interpreter = 0, 0
  for _, s in ipairs(prof:samples()) do
    local frame = profiling.place(s.stack)
    if not all and interpreters[s.stack[1].name] then
      interpreter = interpreter + s.weight
    elseif name and frame and frame.line == line[name] and frame.func:find(name, 1, true) then
      sum = sum + s.weight
    end
  end
  return sum, interpreter
end

-- The weight of all else: neither on the line of this function nor of the interpreter itself.
local function others(prof, name)
  local sum, interpreter = own(prof, name)
  return prof.total - sum - interpreter
end

local create = coroutine.create
-- Each line makes objects that stay reachable, so that compiled code cannot do without them.
local sink = {}
line.tables = next_line()
local function tables() for i = 1, 200 do sink[i] = { i, i + 1, i + 2 } end end
line.closures = next_line()
local function closures()
  for i = 1, 200 do
    sink[i] = function() return sink, i end
  end
end
line.closures = line.closures + 2
line.texts = next_line()
local function texts(at) for i = 1, 200 do sink[i] = at .. "some text " .. i end end
line.rep = next_line()
local function rep(at) for i = 1, 20 do sink[i] = (at .. "x"):rep(1000 + i) end end
line.arrays = next_line()
local function arrays() for i = 1, 100 do local t = {} for k = 1, 30 do t[k] = k end sink[i] = t end end
line.gsub = next_line()
local function gsub(at) for i = 1, 20 do sink[i] = ("abc"):gsub(".", (at .. i):rep(300)) end end
line.coroutines = next_line()
local function coroutines() for i = 1, 50 do sink[i] = create(tables) end end

-- Those that allocate what they keep, and nothing more. An array that grows frees what it had, and so does a library's buffer.
local parts = { tables = tables, closures = closures, texts = texts, coroutines = coroutines }
local names = {}
for name in pairs(parts) do names[#names + 1] = name end
table.sort(names)

-- Runs all parts; adds the bytes of each to `known`, if it is given.
local function run(at, known)
  for _, name in ipairs(names) do
    local before = collectgarbage "count"
    parts[name](at)
    if known then known[name] = (known[name] or 0) + (collectgarbage "count" - before) * 1024 end
  end
end

local function without_collector(fn, ...)
  collectgarbage()
  collectgarbage "stop"
  local ok, err = pcall(fn, ...)
  collectgarbage "restart"
  if not ok then error(err, 0) end
end

describe("a profile of allocations", function()
  before_each(function()
    requires { registers = true }
    for i = 1, 200 do sink[i] = false end
  end)

  it("has the bytes of each line", function()
    local known, prof, whole = {}, nil, 0
    for _, name in ipairs(names) do known[name] = 0 end
    run "warm" -- the compiler works before, and the string table grows
    local function first()
      local p = assert(perf.profiler { event = "alloc", period = 1 })
      assert(p:start())
      run("first", known)
      arrays()
      rep "first"
      prof = assert(p:stop())
    end
    if jit then without_collector(compiled.no_more, first) else without_collector(first) end
    for _, name in ipairs(names) do
      whole = whole + known[name]
      local found = own(prof, name, true)
      assert(math.abs(found - known[name]) <= 0.01 * known[name],
        ("%s: %d of %d bytes\n%s"):format(name, found, known[name], profiling.text(prof)))
    end
    assert.equal(prof.total, profiling.sum(prof))
    -- A compiler that knows the arguments of string.rep makes the result itself.
    local in_arrays, in_rep = own(prof, "arrays", true), own(prof, "rep", true)
    assert(in_arrays >= 100 * 30 * 8, profiling.text(prof))
    assert(in_rep >= 20 * 5000, profiling.text(prof))
    local left = prof.total - whole - in_arrays - in_rep
    assert(left >= 0 and left < 0.01 * whole + 5000, profiling.text(prof))
    assert.equal("bytes", prof.unit)
    assert.equal(1, prof.period)
    assert.equal(prof.blocks.allocated_blocks, prof.sample_count)
  end)

  it("counts to the byte what the interpreter's own count moves by", function()
    local compiles = jit and jit.status()
    if compiles then -- it would allocate between the readings; jit.off alone does not keep it from extending compiled code
      finally(jit.on)
      jit.off()
      jit.flush()
    end
    for _, period in ipairs { 1, 1000, 524288 } do
      local p = assert(perf.profiler { event = "alloc", period = period })
      local moved
      assert(p:start())
      local before = collectgarbage "count"
      for i = 1, 5 do
        run("round" .. i)
        collectgarbage()
      end
      moved = (collectgarbage "count" - before) * 1024
      p.sampler:stop()
      local blocks = assert(p:stop()).blocks
      assert.equal(moved, blocks.allocated_bytes - blocks.freed_bytes)
    end
  end)

  it("shows callers, coroutines under their resumers, zones and functions of C", function()
    local co = coroutine.wrap(function() return gsub "co" end)
    local prof = assert(perf.profile({ event = "alloc", period = 1, coroutines = "resumer" }, function()
      perf.zone("work", co)
    end))
    local least = 20 * 3 * 300
    assert(profiling.under(prof, "gsub", "string.gsub") >= least, profiling.text(prof))
    local zone = prof:top().zones[1]
    assert.equal("work", zone.name)
    assert(zone.self >= least)
    local deep = prof:samples()[1].stack
    assert(deep[#deep].name:find "main chunk" or #deep > 3, profiling.text(prof))
  end)

  -- The story: the table of all strings became larger at whichever line made one string too many, and that line had its bytes.
  it("shows the interpreter's table of strings apart from the line that makes a string", function()
    -- In a new state: if earlier specs made as many strings, the table of this state already has room for all of them.
    local ok, problem = kit.state [[
      local perf, profiling = require "perf", require "spec.support.profiling"
      local N = 40000 -- more than a new state's table has room for
      local kept = {}
      for i = 1, N do kept[i] = false end
      local function fill()
        for i = 1, N do kept[i] = "string number " .. i end
        return kept
      end
      collectgarbage "stop"
      local prof = assert(perf.profile({ event = "alloc", period = 1 }, fill))
      local strings, own_bytes = 0, 0
      for _, s in ipairs(prof:samples()) do
        if s.stack[1].name == "(string table)" then
          strings = strings + s.weight
          assert(s.stack[2].func == "fill", profiling.text(prof))
        elseif s.stack[1].func == "fill" then
          own_bytes = own_bytes + s.weight
        end
      end
      -- In pointers: at least one for each string, and the smaller tables before it.
      assert(strings % 1024 == 0 and strings >= 4 * N and strings <= 8 * 4 * N * 2, profiling.text(prof))
      assert(own_bytes < prof.blocks.allocated_blocks * 80, profiling.text(prof)) -- the strings, and the texts of numbers
    ]]
    assert.is_true(ok, problem)
  end)

  -- The weight of n bytes is right on average: of 60 profiles the mean is within four and a half standard errors.
  it("estimates without bias, beside large blocks and arrays that grow", function()
    local PERIOD, TIMES = 20000, 60
    local sum, squares, whole, blocks, counted = 0, 0, 0, 0, 0
    local large = ("y"):rep(60000)
    for n = 1, TIMES do
      local prof = assert(perf.profile({ event = "alloc", period = PERIOD }, function()
        run("sample" .. n)
        for i = 1, 10 do sink[i] = large .. n .. i end
      end))
      local weight = 0
      for _, s in ipairs(prof:samples()) do weight, counted = weight + s.weight, counted + s.count end
      local ratio = weight / prof.total
      sum, squares, whole = sum + ratio, squares + ratio * ratio, whole + prof.total
      blocks = blocks + prof.blocks.allocated_blocks
    end
    local mean = sum / TIMES
    local deviation = math.sqrt(squares / TIMES - mean * mean)
    local expected = math.sqrt(PERIOD / (whole / TIMES))
    assert(math.abs(mean - 1) < 4.5 * expected / math.sqrt(TIMES), ("mean %.4f"):format(mean))
    assert(deviation < 1.5 * expected, ("deviation %.4f of %.4f"):format(deviation, expected))
    -- Small blocks are seldom sampled, and each sample stands for many: the standard error of the number of blocks is 8 %.
    assert(math.abs(counted / blocks - 1) < 0.5, ("%d of %d blocks"):format(counted, blocks))
  end)

  it("has parts that snapshots give, without the work of making them", function()
    run "warm"
    local p, profs = assert(perf.profiler { event = "alloc", period = 1 }), {}
    assert(p:start())
    for i, part in ipairs { tables, texts, tables } do
      part("part" .. i)
      profs[i] = assert(p:snapshot())
    end
    texts "the last part"
    profs[4] = assert(p:stop())
    for i, prof in ipairs(profs) do
      local name, other = "tables", "texts"
      if i % 2 == 0 then name, other = other, name end
      assert(own(prof, name) >= 200 * 3 * 8, profiling.text(prof))
      assert.equal(0, own(prof, other), profiling.text(prof))
      assert.equal(prof.total, profiling.sum(prof))
      assert.equal(prof.total, prof.blocks.allocated_bytes)
      assert.equal(prof.sample_count, prof.blocks.allocated_blocks)
      assert(others(prof, name) < 20000, profiling.text(prof)) -- making a Profile takes more
    end
    assert.equal(own(profs[1], "tables"), own(profs[3], "tables"))
  end)

  it("is the sum of what two profilers at once see, and ends in any order", function()
    local a = assert(perf.profiler { event = "alloc", period = 1 })
    local b = assert(perf.profiler { event = "alloc", period = 1 })
    assert(a:start())
    tables()
    assert(b:start())
    texts "two"
    local first = assert(a:stop())
    rep "two"
    local second = assert(b:stop())
    assert(own(first, "tables") > 0)
    assert(own(first, "texts") > 0)
    assert.equal(0, own(first, "rep"))
    assert.equal(0, own(second, "tables"))
    assert.equal(own(first, "texts"), own(second, "texts"))
    assert.is_true(own(second, "rep") >= 20 * 3000, profiling.text(second))
  end)

  it("gives the allocator back, also when it begins within another one that is removed first", function()
    local prof = assert(perf.profile({ event = "alloc", period = 1 }, tables))
    local again = assert(perf.profile({ event = "alloc", period = 1 }, tables))
    assert.equal(own(prof, "tables"), own(again, "tables"))
    local outer = assert(perf.profiler { event = "alloc", period = 1 })
    assert(kit.unwind.learn()) -- puts an allocator of its own before ours, and takes it away
    assert(outer:start())
    assert(kit.unwind.learn())
    tables()
    assert.equal(own(prof, "tables"), own(assert(outer:stop()), "tables"))
  end)

  it("raises the function's error, with the profiler stopped", function()
    assert.equal("mine", util.message_of(function() perf.profile("alloc", function() error("mine", 0) end) end))
    assert(perf.profile("alloc", tables))
  end)

  it("does not profile the child of a fork, which can begin anew", function()
    for _, event in ipairs { "alloc", "heap" } do
      local p = assert(perf.profiler { event = event, period = 1 })
      assert(p:start())
      tables()
      local found = util.in_child(function()
        for i = 1, 200 do sink[i] = false end
        collectgarbage() -- frees what the parent's profiler has
        tables()
        local _, _, code = p:stop()
        local prof = assert(perf.profile({ event = event, period = 1 }, texts, "child"))
        return ("%s %s %s"):format(code, tostring(own(prof, "texts") > 0), tostring(own(prof, "tables")))
      end)
      assert.equal("ECHILD true 0", found)
      assert(own(assert(p:stop()), "tables") >= 200 * 3 * 8)
    end
  end)

  it("refuses options of the kernel's events", function()
    for _, case in ipairs { { pid = 1 }, { freq = 99 }, { native = true }, { timeline = true }, { filter = "a > 1" },
      { coroutines = "creator" } } do
      case.event = "alloc"
      local p, message, code = perf.profiler(case)
      assert.equal(nil, p)
      assert(message:find("^alloc: "), message)
      assert.equal("EINVAL", code)
    end
    util.check_mistakes {
      ["'survived' is for the event heap"] = function() perf.profiler { event = "alloc", survived = 1 } end,
      ["'survived'"] = function() perf.profiler { event = "heap", survived = -1 } end,
      ["'period'"] = function() perf.profiler { event = "alloc", period = 0 } end,
    }
  end)
end)

describe("a profile of the heap", function()
  local kept
  line.leak = next_line()
  local function leak(i) kept[i] = { i, i, i, i } return kept end
  line.garbage = next_line()
  local function garbage(i) sink[1] = { i, i, i, i } end

  local function work(from, to)
    for i = from, to do
      leak(i)
      garbage(i)
    end
  end

  before_each(function()
    requires { registers = true }
    kept = {}
  end)

  it("has the blocks that were not freed, by the line that allocated them", function()
    work(1, 300) -- compiled before
    kept = {}
    for i = 1, 1000 do kept[i] = false end
    local each = math.huge
    without_collector(function()
      for _ = 1, 5 do -- the compiler may begin at any of them, and needs memory too
        local before = collectgarbage "count"
        leak(1)
        each = math.min(each, (collectgarbage "count" - before) * 1024)
      end
    end)
    local prof = assert(perf.profile({ event = "heap", period = 1 }, function()
      work(1, 1000)
      collectgarbage()
      collectgarbage()
    end))
    -- A trace may be left after it has made a table, which the interpreter then makes again.
    local found = own(prof, "leak") / each
    assert(found >= 1000 and found <= 1002, profiling.text(prof))
    assert(own(prof, "garbage") <= each, profiling.text(prof)) -- the last one
    assert.equal(prof.total, profiling.sum(prof))
  end)

  it("has also what each stack allocated, freed or not", function()
    work(1, 300)
    kept = {}
    local prof = assert(perf.profile({ event = "heap", period = 1 }, function()
      work(1, 1000)
      sink[1] = nil
      collectgarbage()
      collectgarbage()
    end))
    local allocated, blocks = 0, 0
    for _, list in ipairs { prof:samples(), prof.freed } do
      for _, s in ipairs(list) do
        assert(s.allocated >= s.weight and s.allocated_count >= s.count)
        allocated, blocks = allocated + s.allocated, blocks + s.allocated_count
      end
    end
    assert.equal(prof.blocks.allocated_bytes, allocated)
    assert.equal(prof.blocks.allocated_blocks, blocks)
    assert(allocated - prof.total >= 1000 * 4 * 8, profiling.text(prof))
    for _, s in ipairs(prof.freed) do assert(s.weight == 0 and s.count == 0 and s.allocated > 0) end
  end)

  it("can leave out what has not survived collections", function()
    local prof = assert(perf.profile({ event = "heap", period = 1, survived = 2 }, function()
      collectgarbage "stop"
      work(1, 500)
      sink[1] = nil
      for _ = 1, 3 do collectgarbage() end
      collectgarbage "stop"
      for i = 501, 1000 do garbage(i) end
    end))
    collectgarbage "restart"
    assert(own(prof, "leak") > 500 * 4 * 8, profiling.text(prof))
    assert.equal(0, own(prof, "garbage"))
  end)

  it("shows what is alive while it runs", function()
    local p = assert(perf.profiler { event = "heap", period = 1 })
    work(1, 1000) -- compiled before
    local function collect()
      sink[1] = nil
      collectgarbage()
      collectgarbage()
    end
    local function forget(from, to) for i = from, to do kept[i] = false end end
    forget(1, 1000)
    assert(p:start())
    local sums, shown = {}, {}
    local function look(prof)
      assert.equal(prof.total, profiling.sum(prof))
      assert.equal(0, own(prof, "garbage"))
      sums[#sums + 1] = own(prof, "leak")
      shown[#sums] = profiling.text(prof)
    end
    work(1, 500)
    collect()
    look(assert(p:live()))
    work(501, 1000)
    collect()
    look(assert(p:live()))
    forget(1, 500)
    collect()
    look(assert(p:live()))
    forget(501, 999)
    collect()
    look(assert(p:stop()))
    assert(sums[4] > 0 and sums[4] % 8 == 0)
    for i, n in ipairs { 500, 1000, 500 } do assert.equal(n * sums[4], sums[i], shown[i]) end
  end)

  it("shows what has survived collections so far", function()
    local p = assert(perf.profiler { event = "heap", period = 1, survived = 2 })
    assert(p:start())
    collectgarbage "stop"
    work(1, 500)
    sink[1] = nil
    assert.equal(0, own(assert(p:live()), "leak"))
    for _ = 1, 3 do collectgarbage() end
    collectgarbage "stop"
    work(501, 600)
    local now = own(assert(p:live()), "leak")
    local last = assert(p:stop())
    collectgarbage "restart"
    assert(now > 500 * 4 * 8)
    assert.equal(now, own(last, "leak"))
    assert.equal(last.total, profiling.sum(last))
  end)

  it("loses nothing that is freed while it is read", function()
    local p = assert(perf.profiler { event = "heap", period = 1, survived = 1 })
    assert(p:start())
    for round = 1, 50 do
      kept = {}
      work(1, 200)
      local prof = assert(p:live()) -- its own memory makes the collector go on
      assert.equal(prof.total, profiling.sum(prof), round)
    end
    kept, sink[1] = {}, nil
    for _ = 1, 3 do collectgarbage() end
    local prof = assert(p:stop())
    assert.equal(0, own(prof, "leak"))
    assert.equal(0, own(prof, "garbage"))
    assert.equal(prof.total, profiling.sum(prof))
  end)

  it("has nothing that is allocated while it is made", function()
    local p = assert(perf.profiler { event = "heap", period = 1 })
    assert(p:start())
    local profs = {}
    for i = 1, 5 do profs[i] = assert(p:live()) end
    local prof = assert(p:stop())
    assert(others(prof) < 20000, profiling.text(prof)) -- the table, and the calls; a Profile takes more
    assert.equal(5, #profs)
  end)

  -- The story: memory was refused for the object that counts collections, and a live Profile had nothing, without a reason.
  it("is refused if collections could not be counted", function()
    local refused = 0
    for n = 1, 50 do
      local p = assert(perf.profiler { event = "heap", period = 1, survived = 1 })
      assert(p:start())
      local calls = kit.fail_alloc(n, collectgarbage)
      work(1, 100)
      for _ = 1, 3 do collectgarbage() end
      local _, _, code = p:live()
      local _, _, at_stop = p:stop()
      assert.equal(code, at_stop)
      if code then
        assert.equal("ENOMEM", code)
        refused = refused + 1
      end
      if calls < n then break end
    end
    assert(refused >= 1)
  end)

  it("is not live where it is not running, and for other events", function()
    local p = assert(perf.profiler { event = "heap" })
    assert.equal("EINVAL", select(3, p:live()))
    assert(p:start())
    assert.equal("ECHILD", util.in_child(function() return select(3, p:live()) end))
    assert(p:stop())
    assert.equal("EINVAL", select(3, p:live()))
    p = assert(perf.profiler { event = "alloc" })
    assert(p:start())
    assert.equal("ENOTSUP", select(3, p:live()))
    p:close()
    p = assert(perf.profiler { event = "heap" })
    assert(p:start())
    assert.equal("ENOTSUP", select(3, p:snapshot()))
    p:close()
    util.check_mistakes { ["live"] = function() p.live() end }
  end)

  it("estimates the live bytes from samples", function()
    local sum, TIMES = 0, 40
    for _ = 1, TIMES do
      kept = {}
      local prof = assert(perf.profile({ event = "heap", period = 5000 }, function()
        work(1, 2000)
        collectgarbage()
      end))
      sum = sum + own(prof, "leak")
    end
    local exact = assert(perf.profile({ event = "heap", period = 1 }, function()
      kept = {}
      work(1, 2000)
      collectgarbage()
    end))
    local known = own(exact, "leak")
    assert(math.abs(sum / TIMES / known - 1) < 4.5 * math.sqrt(5000 / known / TIMES) + 0.02,
      ("%.0f of %.0f"):format(sum / TIMES, known))
  end)

  it("follows blocks through many collections with a table that grows and shrinks", function()
    -- So that the table of strings has its final size. A collection that begins within `leak` would resize it there.
    for _ = 1, 10 do collectgarbage() end
    local prof = assert(perf.profile({ event = "heap", period = 1 }, function()
      for _, size in ipairs { 1, 20, 2, 10, 4, 1 } do
        kept = {}
        work(1, 400 * size)
        collectgarbage()
      end
      kept = {}
      sink[1] = nil
      collectgarbage()
      collectgarbage()
    end))
    assert.equal(0, own(prof, "leak"))
    local left = prof.total - profiling.under(prof, "collectgarbage") -- which may resize the table of strings
    assert(left < 20000, profiling.text(prof))
  end)
end)

-- A program that ends while its allocations are profiled: the interpreter frees its memory by the allocator that it began with.
describe("the end of a program whose allocations are profiled", function()
  before_each(function() requires { registers = true } end)

  local endings = {
    ["without a stop"] = "",
    ["with an error"] = "error 'an error'",
    ["by os.exit"] = "os.exit(3)",
    ["by os.exit, with the state closed"] = "os.exit(3, true)",
    ["with a stop in a finalizer"] = [[
      local object = newproxy and newproxy(true) or setmetatable({}, {})
      getmetatable(object).__gc = function() p:stop() end
      if not newproxy then setmetatable(object, { __gc = function() p:stop() end }) end
      keep = object]],
    ["with a start in a finalizer"] = [[
      local function again() local q = perf.profiler "alloc"; keep = q and q:start() end
      local object = newproxy and newproxy(true) or setmetatable({}, { __gc = again })
      if newproxy then getmetatable(object).__gc = again end
      keep = object]],
    ["twice"] = "q = perf.profiler { event = 'heap', period = 100 }; q:start(); p:stop()",
  }
  for name, ending in pairs(endings) do
    it(name, function()
      util.with_tmpname(function(path)
        util.write_file(path, ([[
          perf = require "perf"
          p = assert(perf.profiler { event = "%s", period = 1 })
          assert(p:start())
          kept = {}
          for i = 1, 1000 do kept[i] = { i } end
          io.write "done "
          %s
        ]]):format(name == "twice" and "alloc" or "heap", ending))
        local output, status = util.shell(util.lua() .. " " .. path)
        assert(output:find("done ", 1, true), output)
        local expected = ending:find "os.exit" and 3 or name:find "error" and 1 or 0
        assert.equal(expected, status, output)
      end)
    end)
  end
end)
