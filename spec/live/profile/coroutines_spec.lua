-- The stack under which a coroutine is shown: its own, its resumer's, its creator's. Programs must not notice the profiler.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local jit = rawget(_G, "jit")

local TURNS = 20

local function body()
  for _ = 1, TURNS do
    kit.touch_pages(20)
    coroutine.yield()
  end
end

local function make()
  local co = coroutine.create(body)
  return co
end

local function nested()
  local inner = coroutine.wrap(body)
  for _ = 1, TURNS do
    inner()
    coroutine.yield()
  end
end

local function make_nested()
  local fn = coroutine.wrap(nested)
  return fn
end

local function drive(co)
  for _ = 1, TURNS do assert(coroutine.resume(co)) end
end

local function drive_fn(fn)
  for _ = 1, TURNS do fn() end
end

-- The weight by the Lua functions of a stack, the innermost first.
local function by_functions(prof)
  local by = {}
  for _, s in ipairs(prof:samples()) do
    local names = {}
    for _, frame in ipairs(s.stack) do
      if frame.kind == "lua" then names[#names + 1] = frame.func end
    end
    local key = table.concat(names, " ")
    by[key] = (by[key] or 0) + s.weight
  end
  return by
end

local function profile(how, fn)
  local prof = perf.profile({ event = "page-faults", coroutines = how }, fn)
  local text = profiling.text(prof)
  assert.equal(prof.total, profiling.sum(prof), text)
  assert.equal(0, prof.lost, text)
  return prof, by_functions(prof), text
end

-- All of the n faults, and almost none that are not the coroutine's.
local function holds(by, stack, n, text)
  local found = 0
  for key, weight in pairs(by) do
    if key:find("^" .. stack) then found = found + weight end
  end
  assert.is_true(found >= n and found <= n + math.max(20, n / 4), ("%s: %d, not %d:\n%s"):format(stack, found, n, text))
end

local EACH = TURNS * 20

describe("a profile's coroutines", function()
  local early

  local function run()
    local co, fn = make(), make_nested()
    drive(co)
    drive_fn(fn)
    drive(early)
  end

  before_each(function() early = make() end)

  it("are shown alone", function()
    requires { perf_open = "user" }
    local _, by, text = profile(nil, run)
    holds(by, "body$", 3 * EACH, text)
  end)

  it("are shown on top of the stack that resumed them", function()
    requires { perf_open = "user" }
    local _, by, text = profile("resumer", run)
    holds(by, "body drive run", 2 * EACH, text)
    holds(by, "body nested drive_fn run", EACH, text)
  end)

  it("are shown on top of the stack that created them, older ones alone", function()
    requires { perf_open = "user" }
    local _, by, text = profile("creator", run)
    holds(by, "body make run", EACH, text)
    holds(by, "body nested make_nested run", EACH, text)
    holds(by, "body$", EACH, text)
  end)

  it("are shown on top of a creator that is a dead coroutine", function()
    requires { perf_open = "user" }
    local left
    local function parent()
      left = make()
      coroutine.yield()
      kit.touch_pages(50)
    end
    local function orphan() drive_fn(left) end
    local _, by, text = profile("creator", function()
      local function start()
        local co = coroutine.create(parent)
        coroutine.resume(co)
        coroutine.resume(co)
        assert.equal("dead", coroutine.status(co))
      end
      start()
      collectgarbage()
      collectgarbage()
      local co = left
      left = function() assert(coroutine.resume(co)) end
      orphan()
    end)
    holds(by, "body make parent start", EACH, text)
    holds(by, "parent start", 50, text)
  end)

  it("are shown up to their error", function()
    requires { perf_open = "user" }
    local function fails()
      kit.touch_pages(100)
      error "enough"
    end
    local function attempt()
      for _ = 1, 5 do
        assert.is_false((coroutine.resume(coroutine.create(fails))))
        assert.is_false((pcall(coroutine.wrap(fails))))
      end
    end
    for _, how in ipairs { "resumer", "creator" } do
      local _, by, text = profile(how, attempt)
      holds(by, "fails attempt", 1000, text)
    end
  end)

  it("name the library's functions, not their replacements", function()
    requires { perf_open = "user" }
    local prof, _, text = profile("resumer", function() drive(make()) end)
    assert.is_true(profiling.under(prof, "coroutine.resume") >= EACH, text)
    for _, s in ipairs(prof:samples()) do
      for i, frame in ipairs(s.stack) do
        assert.is_false(i > 1 and frame.kind == "builtin" and s.stack[i - 1].kind == "builtin", text)
      end
    end
  end)

  it("are collected when they are dead", function()
    requires { perf_open = "user" }
    -- At most 500 are alive at a time. If the collector ran by itself, the number of dead ones that it has not collected yet
    -- would vary, and so would the size of the table of coroutines.
    local function many(n)
      collectgarbage "stop"
      for i = 1, n do
        coroutine.create(body)
        if i % 500 == 0 then
          collectgarbage()
          collectgarbage "stop" -- Lua 5.1's collections start it again
        end
      end
      collectgarbage "restart"
    end
    local few = profile("creator", function() many(10) end).memory
    collectgarbage()
    collectgarbage()
    local before = collectgarbage "count"
    local grown, list
    -- The Profile itself is garbage then: it has a stack for each place of a page fault, thousands under a sanitizer.
    local memory = profile("creator", function()
      many(4000)
      collectgarbage()
      collectgarbage()
      grown = collectgarbage "count" - before
      list = collectgarbage "count"
      many(4000)
      collectgarbage()
      collectgarbage()
      list = collectgarbage "count" - list
    end).memory
    assert.is_true(memory <= 2 * few)
    -- the table of live coroutines keeps its largest size, which a second round does not exceed
    assert.is_true(list <= 64, list)
    collectgarbage()
    collectgarbage()
    local left = collectgarbage "count" - before
    assert.is_true(left <= 64, ("%s KB, and %s KB during the profile"):format(left, grown))
  end)

  it("that create each other without end take no more memory", function()
    requires { perf_open = "user" }
    local function generation(n)
      if n > 0 then return coroutine.create(generation), n - 1 end
    end
    local prof = profile("creator", function()
      local co, n = coroutine.create(generation), 600
      while co do
        local ok
        ok, co, n = coroutine.resume(co, n)
        assert(ok, co)
      end
    end)
    assert.is_true(prof.memory < 4e6, prof.memory)
  end)
end)

describe("coroutine functions while a profiler runs", function()
  local library = { create = coroutine.create, resume = coroutine.resume, wrap = coroutine.wrap }

  -- Everything that a program can see of them, as text.
  local function behaviour()
    local seen = {}
    local function see(...)
      local list = { ... }
      for i = 1, select("#", ...) do list[i] = tostring(list[i]):gsub("0x%x+", "0x") end
      seen[#seen + 1] = table.concat(list, " | ")
    end
    for _, name in ipairs { "create", "resume", "wrap" } do
      for _, arg in ipairs { 1, "x", {}, print } do
        see(pcall(function()
          local v = coroutine[name](arg)
          return type(v)
        end))
        see(select("#", pcall(coroutine[name], arg)))
      end
      see(pcall(function() return (coroutine[name]()) end))
    end
    local function fails(...)
      coroutine.yield(...)
      error "oops"
    end
    local co = coroutine.create(fails)
    see(coroutine.resume(co, 1, nil, 3, nil))
    see(coroutine.status(co), debug.traceback(co))
    see(coroutine.resume(co, nil))
    see(coroutine.resume(co, nil))
    see(coroutine.status(co))
    local fn = coroutine.wrap(fails)
    see(fn(nil, 2, nil))
    see(pcall(function() return (fn()) end))
    see(pcall(function() return (fn()) end))
    see(pcall(fn))
    for _, value in ipairs { "words", 42, {}, true } do
      see(pcall(function() return (coroutine.wrap(function() error(value, 0) end)()) end))
    end
    see(xpcall(function() return (coroutine.wrap(fails)(coroutine.wrap(fails)())) end, function(m) return m .. "!" end))
    fn = coroutine.wrap(function() return pcall(function() return (fn()) end) end)
    see(fn())
    co = coroutine.create(function() return coroutine.resume(co) end)
    see(coroutine.resume(co))
    see((coroutine.wrap(function(...) return select("#", ...) end)(nil, nil, nil)))
    see(coroutine.wrap(function() return coroutine.wrap(function(v) coroutine.yield(v) end)("from two") end)())
    return seen
  end

  it("work like the library's functions", function()
    requires { perf_open = "user" }
    local plain = behaviour()
    for _, how in ipairs { "alone", "resumer", "creator" } do
      local _, seen = perf.profile({ coroutines = how }, behaviour)
      assert.same(plain, seen, how)
    end
  end)

  it("are restored, and references that a program kept work as before", function()
    requires { perf_open = "user" }
    for _, how in ipairs { "alone", "resumer", "creator" } do
      local kept, fn
      local p = assert(perf.profiler { event = "page-faults", coroutines = how })
      assert(p:start())
      kept = { create = coroutine.create, resume = coroutine.resume, wrap = coroutine.wrap }
      fn = coroutine.wrap(body)
      fn()
      local replaces = p.method == "safe point"
      assert.equal(how == "creator", kept.create ~= library.create)
      assert.equal(replaces and (not jit or how == "resumer"), kept.resume ~= library.resume)
      assert.equal(replaces and (not jit or how ~= "alone"), kept.wrap ~= library.wrap)
      p:stop()
      p:close()
      collectgarbage()
      for name, original in pairs(library) do assert.equal(original, coroutine[name]) end
      fn()
      local co = kept.create(function(...) return coroutine.yield(...) end)
      assert.same({ true, 7 }, { kept.resume(co, 7) })
      assert.same({ true, 8 }, { kept.resume(co, 8) })
      assert.equal(9, kept.wrap(function(v) return v end)(9))
    end
  end)

  it("are restored when the profiler is collected", function()
    requires { perf_open = "user" }
    for _, how in ipairs { "alone", "resumer", "creator" } do
      assert(perf.profiler({ event = "page-faults", coroutines = how }):start())
      local create = coroutine.create
      collectgarbage()
      collectgarbage()
      for name, original in pairs(library) do assert.equal(original, coroutine[name]) end
      assert.is_true(coroutine.resume(create(function() end)))
    end
  end)

  it("are not restored if a program has replaced them meanwhile", function()
    requires { perf_open = "user" }
    local p = assert(perf.profiler { event = "page-faults", coroutines = "creator" })
    assert(p:start())
    local function theirs() end
    coroutine.create = theirs -- luacheck: ignore 122
    p:stop()
    local now = coroutine.create
    coroutine.create = library.create -- luacheck: ignore 122
    assert.equal(theirs, now)
    assert.equal(library.wrap, coroutine.wrap)
  end)

  it("work if other code has replaced coroutine.create", function()
    requires { perf_open = "user" }
    local made = 0
    coroutine.create = function(fn, more) -- luacheck: ignore 122
      made = made + (more or 1)
      return library.create(fn)
    end
    local ok, err = pcall(profile, "creator", function()
      drive(make())
      coroutine.create(body, 10)
    end)
    coroutine.create = library.create -- luacheck: ignore 122
    assert.is_true(ok, err)
    assert.equal(11, made)
  end)
end)
