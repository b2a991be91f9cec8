-- Stacks that are unwound from the registers of the interrupted code: the line that ran, and several profilers at once.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local compiled = require "spec.support.compiled"
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local next_line, place = profiling.next_line, profiling.place
local jit = rawget(_G, "jit")
local faults = { event = "page-faults", period = 1 }

-- The share of the stacks whose innermost Lua frame is one of these lines, or a range with one of them.
local function share(prof, first, last)
  local sum = 0
  for _, s in ipairs(prof:samples()) do
    local f = place(s.stack)
    if f and f.line <= (last or first) and (f.lastline or f.line) >= first then sum = sum + s.weight end
  end
  return sum / tonumber(prof.total)
end

describe("a profile of registers", function()
  before_each(function()
    requires { perf_open = true, registers = true }
  end)

  it("says so, and a profile of safe points says why", function()
    local prof = perf.profile(faults, kit.touch_pages, 10)
    assert.equal("registers", prof.method)
    assert.is_nil(prof.method_reason)
    assert.is_nil(prof.failures)
    assert.is_nil(tostring(prof):find("safe point", 1, true))
    profiling.at_safe_points(function() prof = perf.profile(faults, kit.touch_pages, 10) end)
    assert.equal("safe point", prof.method)
    assert.is_truthy(tostring(prof):find("safe points: " .. prof.method_reason, 1, true))
    prof = perf.profile({ event = "page-faults", coroutines = "creator" }, kit.touch_pages, 10)
    assert.equal("safe point", prof.method)
  end)

  it("shows a loop's allocation on its line", function()
    requires { nostress = true }
    local line
    local prof = perf.profile({ freq = 4000 }, function()
      local t, s = {}, 0
      line = next_line() + 2
      for i = 1, jit and 2e6 or 1e6 do
        s = s + i
        t[1] = { i, i + 1, i + 2, i + 3 }
        s = s - 1
      end
      return s, t
    end)
    local exact = 0
    for _, s in ipairs(prof:samples()) do
      local f = place(s.stack)
      exact = exact + (f and f.kind == "lua" and f.line == line and s.weight or 0)
    end
    assert.is_true(exact >= (jit and 0.85 or 0.5) * tonumber(prof.total), profiling.text(prof))
  end)

  -- Loops that allocate on one line or two; these lines end in two dashes.
  local function loop(n, body, before)
    return ("local t, s = {}, 0\n%s\nfor i = 1, %d do\n%s\nend\nreturn s, t"):format(before or "", n, body)
  end
  local TABLE = "t[1] = { i, i + 1, i + 2, i + 3 } --\n"
  local allocating = {
    { "a table", loop(5e5, "s = s + i % 7\n" .. TABLE .. "s = s - i % 5") },
    { "a string", loop(15e4, 's = s + i % 7\nt[1] = "a" .. i --\ns = s - i % 5') },
    { "a call's string", loop(3e5, "s = s + i % 7\nt[1] = tostring(i) --\ns = s - i % 5") },
    { "a table, and one that the compiler avoids", loop(5e5, "local p = { i }\ns = s + p[1] % 7\n" .. TABLE) },
    { "a table from a function that is compiled into the loop", loop(5e5, "s = s + i % 7\nt[1] = make(i)\ns = s - i % 5",
      "local function make(i)\nlocal a = i + 1\nreturn { i, a, i, a } --\nend") },
    { "two tables", loop(5e5, "s = s + i % 7\n" .. TABLE .. "s = s - i % 5\nt[2] = { i } --\ns = s - i % 3") },
  }

  local function allocating_lines(text)
    local n, first, last = 0, nil, nil
    for line in text:gmatch "([^\n]*)\n" do
      n = n + 1
      if line:find "%-%-$" then first, last = first or n, n end
    end
    return first, last
  end

  for _, marked in ipairs { true, false } do
    for _, a in ipairs(allocating) do
      local how = marked and "" or ", in code from before the profiler's start"
      it("shows the collector where a compiled loop allocates " .. a[1] .. how, function()
        requires { lua = "luajit", registers = true, nostress = true }
        local first, last = allocating_lines(a[2])
        local run = assert(loadstring(a[2], "=program"))
        -- With other options, compiled code may leave a trace in each iteration. That trace may call the collector in place of
        -- the trace that allocates, whose lines it does not have.
        local prof = compiled.by_default(function()
          if not marked then run() end
          return util.collecting(perf.profile, { freq = 4000 }, run)
        end)
        local collected, there = 0, 0
        for _, s in ipairs(prof:samples()) do
          local f = place(s.stack)
          if s.stack[1].name == "(garbage collector)" then
            collected = collected + s.weight
            there = there + (f and f.line == first and (f.lastline or f.line) == last and s.weight or 0)
          end
        end
        assert.is_true(collected > 0 and there >= 0.9 * collected, profiling.text(prof))
      end)
    end
  end

  it("shows C calls of compiled code on their lines, in code from before the profiler's start", function()
    requires { lua = "luajit", registers = true, nostress = true }
    local line
    local function run(n, short, long)
      local find, s = string.find, 0
      line = next_line() + 2
      for i = 1, n do
        s = s + (i + 3) % 7 * 3
        if find(short[i % 2 + 1], "z", 1, true) then s = s + 1 end
        s = s - i
        if find(long[i % 2 + 1], "z", 1, true) then s = s + 1 end
      end
      return s
    end
    local short, long = { ("a"):rep(2000), ("b"):rep(2000) }, { ("a"):rep(20000), ("b"):rep(20000) }
    run(1000, short, long)
    local ns = kit.clock_ns "thread"
    run(1000, short, long)
    ns = kit.clock_ns "thread" - ns
    local prof = perf.profile({ freq = 4000 }, run, 1000 * math.ceil(4e8 / ns), short, long) -- 0.4 seconds
    local at_short, at_long = profiling.on_line(prof, line), profiling.on_line(prof, line + 2)
    assert.is_true(at_long > 2 * at_short, profiling.text(prof))
    assert.is_true(at_short + at_long > 0.75 * tonumber(prof.total), profiling.text(prof))
  end)

  it("shows arithmetic on the lines that compute", function()
    requires { nostress = true }
    local line
    local prof = perf.profile({ freq = 4000 }, function()
      local a, b, c = 1, 2, 3
      line = next_line() + 1
      for i = 1, jit and 1e7 or 3e6 do
        a = (c * 3 + i) % 1000003 -- each line waits for the one before, so they cost the same
        b = (a * 5 + b) % 1000003
        c = (b * 7 + a) % 1000003
      end
      return a + b + c
    end)
    for i = line, line + 2 do assert.is_true(share(prof, i) > 0.15, profiling.text(prof)) end
    assert.is_true(share(prof, line, line + 2) > 0.75, profiling.text(prof)) -- the rest is the loop's own
    local ranges = 0
    for _, s in ipairs(prof:samples()) do
      local f = place(s.stack)
      ranges = ranges + (f and f.kind == "range" and s.weight or 0)
    end
    assert.is_true(ranges < 0.2 * tonumber(prof.total), profiling.text(prof))
  end)

  it("is one of several in a thread, nested and not", function()
    local line
    local outer, inner = perf.profile(faults, function()
      local prof = perf.profile({ event = "context-switches", period = 1 }, function()
        line = next_line()
        kit.touch_pages(200)
        kit.sleeps(20, 1000)
      end)
      kit.touch_pages(300)
      return prof
    end)
    assert.is_true(profiling.on_line(outer, line) >= 200, profiling.text(outer))
    assert.is_true(profiling.on_line(inner, line + 1) >= 20, profiling.text(inner))
    for _, prof in ipairs { outer, inner } do assert.equal(prof.total, profiling.sum(prof)) end
    local a, b = assert(perf.profiler(faults)), assert(perf.profiler(faults))
    assert(a:start())
    kit.touch_pages(100)
    assert(b:start())
    line = next_line()
    kit.touch_pages(1000)
    local one = assert(a:stop())
    kit.touch_pages(50)
    local two = assert(b:stop())
    for _, prof in ipairs { one, two } do
      local n = profiling.on_line(prof, line)
      assert.is_true(n >= 1000 and n < 1500, profiling.text(prof))
      assert.equal(prof.total, profiling.sum(prof))
    end
    a:close()
    b:close()
  end)

  it("runs beside profilers of other Lua states and threads", function()
    local p = assert(perf.profiler(faults))
    assert(p:start())
    for _, threaded in ipairs { false, true } do
      local ok, text = kit.state([[
        local perf, kit, profiling = require "perf", require "testkit", require "spec.support.profiling"
        local line
        local function work()
          line = profiling.next_line()
          kit.touch_pages(500)
        end
        local prof = assert(perf.profile({ event = "page-faults" }, work))
        return ("%d %s %s"):format(profiling.on_line(prof, line), tostring(prof.total == profiling.sum(prof)), prof.method)
      ]], threaded)
      assert.is_true(ok, text)
      local n, rest = text:match "^(%d+) (.*)$"
      assert.is_true(tonumber(n) >= 500 and tonumber(n) < 750, text) -- a growing heap uses some pages too
      assert.equal("true registers", rest)
    end
    local line = next_line()
    kit.touch_pages(700)
    local prof = assert(p:stop())
    assert.is_true(profiling.on_line(prof, line) >= 700, profiling.text(prof))
    assert.equal(prof.total, profiling.sum(prof))
    p:close()
  end)

  it("shows coroutines alone, or under the stack that resumed them, with the library's own functions", function()
    local library = { resume = coroutine.resume, wrap = coroutine.wrap }
    local line, outer
    local function body()
      line = next_line()
      kit.touch_pages(100)
      coroutine.yield()
    end
    for _, how in ipairs { "alone", "resumer" } do
      local prof = perf.profile({ event = "page-faults", coroutines = how }, function()
        assert.equal(library.resume, coroutine.resume)
        assert.equal(library.wrap, coroutine.wrap)
        local co = coroutine.create(body)
        outer = next_line()
        assert(coroutine.resume(co))
        coroutine.wrap(function() coroutine.wrap(body)() end)()
      end)
      assert.is_true(profiling.on_line(prof, line) >= 200, profiling.text(prof))
      local under = 0
      for _, s in ipairs(prof:samples()) do
        if place(s.stack).line == line then
          for _, f in ipairs(s.stack) do under = under + (f.line == outer and s.weight or 0) end
        end
      end
      local least = how == "resumer" and 100 or 0
      assert.is_true(under >= least and under <= 1.5 * least, profiling.text(prof)) -- a growing heap uses some pages too
    end
  end)

  it("is 1,000 frames deep at most, and tells how often that was too few", function()
    local function down(n)
      if n == 0 then kit.touch_pages(10) else down(n - 1) end
      return n
    end
    local prof = perf.profile(faults, down, 400)
    local deepest = 0
    for _, s in ipairs(prof:samples()) do deepest = math.max(deepest, #s.stack) end
    assert.is_true(deepest > 400 and deepest < 450, deepest)
    prof = perf.profile(faults, down, 3000)
    for _, s in ipairs(prof:samples()) do
      local on_top = s.stack[1].kind == "state" and 1 or 0 -- the collector's, for example: no function
      deepest = math.max(deepest, #s.stack - on_top)
    end
    assert.equal(1000, deepest)
    assert.is_true(prof.failures["too deep"] >= 10)
    assert.is_truthy(tostring(prof):find("too deep: ", 1, true))
    assert.equal(prof.total, profiling.sum(prof))
  end)

  it("leaves LuaJIT's own profiler to the program", function()
    requires { lua = "luajit" }
    local profile = require "jit.profile"
    local n = 0
    local function theirs() n = n + 1 end
    local function spin()
      local deadline = kit.clock_ns() + 20e9
      local before = n
      while n == before and kit.clock_ns() < deadline do kit.spin(50000) end
    end
    require "jit".off(spin)
    profile.start("li1", theirs) -- started before ours
    local prof = perf.profile(faults, function()
      kit.touch_pages(100)
      spin()
    end)
    assert.is_true(n > 0 and prof.total >= 100)
    n = 0
    spin()
    assert.is_true(n > 0)
    profile.stop()
    n = 0
    prof = perf.profile(faults, function() -- started while ours runs
      profile.start("li1", theirs)
      spin()
      kit.touch_pages(100)
      profile.stop()
    end)
    assert.is_true(n > 0 and profiling.under(prof, "testkit.touch_pages") >= 100, profiling.text(prof))
  end)

  it("keeps a handler of faults that the program installs meanwhile", function()
    local line
    local prof = perf.profile(faults, function()
      kit.handle_faults "plain"
      line = next_line()
      kit.touch_pages(100)
      assert.equal(11, kit.fault(kit.region "guarded").signal)
      kit.handle_faults(false)
    end)
    assert.is_true(profiling.on_line(prof, line) >= 100, profiling.text(prof))
  end)
end)
