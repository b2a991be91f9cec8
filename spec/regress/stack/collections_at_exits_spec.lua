-- The story: 9 to 31 % of the time of compiled code that allocates was shown as the collector's work on the first line of its
-- loop, which allocates nothing. Some steps of a collection cannot be divided, and compiled code cannot run these. It is left
-- by an exit, and the handler of the exit calls the collector. By then the address at which the interpreter will continue is
-- that of the exit. With many coroutines such a step is long, and writes to the unused slots of all coroutines. While a child
-- lives, the parent's first write to each page is a page fault. So the step causes hundreds of faults, on any machine.
local kit = require "testkit"
local page_fault = require "spec.support.page_fault"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local COROUTINES, DEPTH, ENOUGH = 2000, 30, 100

-- The first and the last line that allocates, and the text of a chunk. The chunk returns a function that takes a number of
-- rounds.
local PROGRAMS = {
  ["on one line of a loop"] = { 4, 4, [[
    return function(rounds)
      for i = 1, rounds do
        n = n + i
        kept[1] = { i, n }
        n = n % 10000
      end
    end]] },
  ["on two lines of a loop"] = { 4, 6, [[
    return function(rounds)
      for i = 1, rounds do
        n = n + i
        kept[1] = { i, n }
        n = n % 10000
        kept[2] = { n, i }
        n = n - 1
      end
    end]] },
  ["in a `while` loop"] = { 6, 6, [[
    return function(rounds)
      local i = 0
      while i < rounds do
        i = i + 1
        n = n + i
        kept[1] = { i, n }
        n = n % 10000
      end
    end]] },
  ["in a branch, which is a trace of its own"] = { 8, 8, [[
    return function(rounds)
      for i = 1, rounds do
        n = n + i
        if i % 2 == 0 then
          n = n - 1
        else
          n = n + 1
          kept[1] = { i, n }
        end
        n = n % 10000
      end
    end]] },
  ["in a function that a loop calls"] = { 5, 11, [[
    local make
    local function run(rounds)
      for i = 1, rounds do
        n = n + i
        kept[1] = make(i)
        n = n % 10000
      end
    end
    function make(i)
      local k = i + 1
      return { k, i }
    end
    return run]] },
  ["in a function that C code calls"] = { 3, 3, [[
    local function less(a, b)
      n = n + a
      kept[1] = { a, b }
      n = n % 10000
      return a < b
    end
    local list = {}
    for i = 1, 100 do list[i] = i end
    return function(rounds)
      for _ = 1, rounds / 500 do table.sort(list, less) end
    end]] },
  ["in a coroutine"] = { 5, 5, [[
    local resume = coroutine.wrap(function(rounds)
      while true do
        for i = 1, rounds do
          n = n + i
          kept[1] = { i, n }
          n = n % 10000
        end
        coroutine.yield()
      end
    end)
    return function(rounds)
      for _ = 1, rounds / 1000 do resume(1000) end
    end]] },
}

-- Prints, for each of three functions, the weights of the collector's samples on the lines before line 7 and from there on.
local HOOKED = [[
local kit, perf = require "testkit", require "perf"
local function deep(n)
  if n == 0 then return coroutine.yield() end
  return 1 + deep(n - 1)
end
local coroutines = {}
for i = 1, 2000 do
  coroutines[i] = coroutine.create(deep)
  coroutine.resume(coroutines[i], 30)
end
jit.opt.start("hotloop=10", "hotexit=50")
local work, ready
local function hook(_, line)
  if ready and line == 3 then collectgarbage "restart" end
end
local function run()
  work(1, 300)
  debug.sethook(hook, "l")
  work(1, 1)
  debug.sethook()
end
jit.off(hook)
jit.off(run)
collectgarbage("setstepmul", 1e6)
perf.profile({ event = "page-faults", period = 1 }, function() end)
for _, n in ipairs { 0, 2, 6 } do
  local names, sums = {}, {}
  for i = 1, n do names[i], sums[i] = ", s" .. i, ("s%d = s%d + i"):format(i, i) end
  names = table.concat(names)
  work = assert(loadstring(([=[
    local kept = {}
    return function(i, rounds)
      local x, y%s = i, 0%s
      local z = 5
      while i < rounds do
        i = i + 1
        kept[1] = { i, x }
        %s
        if i < rounds then y = y + 1 end
      end
      return y + z%s
    end]=]):format(names, (", 1"):rep(n), table.concat(sums, " "), names), "=program"))()
  ready = false
  for _ = 1, 3 do run() end
  collectgarbage()
  collectgarbage "stop"
  local child = kit.start(function() end)
  local prof = perf.profile({ event = "page-faults", period = 1 }, function()
    run() -- makes the first writes to its pages: later, the signals of these page faults would overwrite the data
    ready = true
    run()
  end)
  child:go()
  local before, allocating = 0, 0
  for _, s in ipairs(prof:samples()) do
    local f = s.stack[2]
    if s.stack[1].name == "(garbage collector)" and f.name:find "^program:" then
      if f.line < 7 then before = before + s.weight else allocating = allocating + s.weight end
    end
  end
  print(before .. " " .. allocating)
end]]

local LATE = [[
local kit, perf = require "testkit", require "perf"
local coroutines = {}
local function deep(n)
  if n == 0 then return coroutine.yield() end
  return 1 + deep(n - 1)
end
for i = 1, 500 do
  coroutines[i] = coroutine.create(deep)
  coroutine.resume(coroutines[i], 30)
end
perf.profile({ event = "page-faults", period = 1 }, function() end)
local collects = assert(package.loadlib((...), "kit_collects"))
require "jit.opt".start("hotloop=10", "hotexit=50")
collectgarbage("setstepmul", 1e6)
local work = assert(loadstring([=[
  local kept, y, pcall = {}, 0, pcall
  local function inner(i, rounds)
    kept[1] = { i, y }
    if i < rounds then y = y + 1 end
  end
  return function(collects, size)
    for i = 1, 300 do
      pcall(inner, i, 300)
    end
    pcall(collects, size)
  end]=], "=program"))()
collectgarbage "stop"
for _ = 1, 3 do work(collects, 16) end
local prof = perf.profile({ event = "page-faults", period = 1 }, function()
  for size = 16, 1024, 16 do
    collectgarbage()
    collectgarbage "stop"
    local child = kit.start(function() end)
    work(collects, size)
    child:go()
  end
end)
local right, wrong = 0, 0
for _, s in ipairs(prof:samples()) do
  for _, f in ipairs(s.stack[1].name == "(garbage collector)" and s.stack or {}) do
    if f.name:find "^program:" then
      if f.line == 10 then right = right + s.weight else wrong = wrong + s.weight end
      break
    end
  end
end
print(right .. " " .. wrong)]]

local function deep(n)
  if n == 0 then return coroutine.yield() end
  return 1 + deep(n - 1)
end

describe("the collector after a trace's exit", function()
  local coroutines
  before_each(function()
    requires { lua = "luajit", jit = true, perf_open = true, registers = true, nostress = true }
    coroutines = {}
    for i = 1, COROUTINES do
      coroutines[i] = coroutine.create(deep)
      coroutine.resume(coroutines[i], DEPTH)
    end
  end)
  after_each(function()
    coroutines = nil
    page_fault.restore()
  end)

  for title, program in pairs(PROGRAMS) do
    it("is shown at the lines that allocate " .. title, function()
      local first, last, text = unpack(program)
      local jit = rawget(_G, "jit")
      jit.flush()
      jit.opt.start("hotloop=10", "hotexit=2") -- this also resets the counters
      local run = assert(loadstring("local n, kept = 0, {} " .. text, "=program"))()
      run(1000)
      local pause, speed = collectgarbage("setpause", 0), collectgarbage("setstepmul", 10000)
      finally(function()
        collectgarbage("setpause", pause)
        collectgarbage("setstepmul", speed)
      end)
      local child
      local prof = perf.profile({ event = util.FAULTS, period = 1 }, function()
        collectgarbage() -- the next collection begins at once
        collectgarbage("setpause", 1000) -- but not the one after it
        child = kit.start(function() end)
        run(1e5)
      end)
      assert(child:go())
      local collects = 0
      for _, s in ipairs(prof:samples()) do
        local f = profiling.place(s.stack)
        if s.stack[1].name == "(garbage collector)" and page_fault.in_program(f) then
          collects = collects + s.weight
          assert.is_true(f.line >= first and (f.lastline or f.line) <= last, profiling.text(prof))
        end
      end
      assert.is_true(collects >= ENOUGH, profiling.text(prof))
    end)
  end

  -- The story: a C function did not set a large local variable, which still contained the data of the exit's handler. The
  -- interpreter's saved address was still that of the exit, too. So the collector's work was shown on line 4.
  it("is shown in a C function that the interpreter has called since then", function()
    local jit = rawget(_G, "jit")
    jit.flush()
    jit.opt.start("hotloop=10", "hotexit=2")
    local run = assert(loadstring([[
      local n, kept, match, collectgarbage = 0, {}, string.match, collectgarbage
      local function work(i, at)
        n = n + i
        kept[1] = { i, n }
        n = n % 10000
        if i == at then
          collectgarbage("restart")
          kept[2] = match("hello world", "(%w+) %w+")
        end
      end
      return function(rounds, at)
        for i = 1, rounds do work(i, at) end
      end]], "=program"))()
    run(2000, 3000)
    finally(function() collectgarbage "restart" end)
    local child
    local prof = perf.profile({ event = util.FAULTS, period = 1 }, function()
      collectgarbage()
      collectgarbage("stop")
      child = kit.start(function() end)
      local speed = collectgarbage("setstepmul", 1e6)
      run(3000, 2500)
      collectgarbage("setstepmul", speed)
    end)
    assert(child:go())
    local collects = 0
    for _, s in ipairs(prof:samples()) do
      if s.stack[1].name == "(garbage collector)" and s.stack[2].name == "string.match" then
        collects = collects + s.weight
        assert.equal(8, s.stack[3].line, profiling.text(prof))
      end
    end
    assert.is_true(collects >= ENOUGH, profiling.text(prof))
  end)

  -- The story: debug.sethook's C function makes a string for each line. When the collector began there, its work was shown on
  -- line 7, which work(1, 1) does not run: the data of the last exit's handler was still on the C stack, and the saved address
  -- was that of the exit. How deep the data lay depended on the number of values that the trace kept on the C stack. The
  -- program runs alone: within busted, other code overwrites the data.
  it("is shown in a hook that runs after the exit", function()
    local output, n = nil, 0
    util.with_tmpname(function(path)
      util.write_file(path, HOOKED)
      output = util.shell(util.lua() .. " " .. path)
    end)
    for before, allocating in output:gmatch "(%d+) (%d+)" do
      n = n + 1
      assert.is_true(tonumber(before) >= ENOUGH and allocating == "0", output)
    end
    assert.equal(3, n, output)
  end)

  -- The story: the C functions of a library that was loaded after the profiler's first start cannot be unwound. For about one
  -- size in fifty of such a function's variables, the collector's work in it was shown on line 3. A copy of a library's file is
  -- another library.
  it("is shown in a function of a library that was loaded late", function()
    local output
    util.with_directory(function(dir)
      util.write_file(dir .. "/late.lua", LATE)
      util.execute(("cp %s %s/late.so"):format(package.searchpath("testkit", package.cpath), dir))
      output = util.shell(("%s %s/late.lua %s/late.so"):format(util.lua(), dir, dir))
    end)
    local right, wrong = output:match "^(%d+) (%d+)"
    assert(right, output)
    assert.is_true(tonumber(right) >= ENOUGH and wrong == "0", output)
  end)
end)
