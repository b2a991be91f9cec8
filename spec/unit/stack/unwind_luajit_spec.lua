-- The unwinder for LuaJIT, without the profiler: the stack where a C function is called, which debug.getinfo tells too, and that
-- of a signal's handler, for programs whose lines have known costs.
local kit = require "testkit"
local needs = require "spec.support.needs"

local FILE = debug.getinfo(1, "S").source

describe("the unwinder for LuaJIT", function()
  local NEEDS = { lua = "luajit", registers = true }

  setup(function()
    if #needs.unmet(NEEDS) == 0 then assert(kit.unwind.learn()) end
  end)

  before_each(function() requires(NEEDS) end)

  -- The stack by debug.getinfo, from the function at this level on, and below it those of the threads in `resumers`.
  local function expected(level, resumers)
    local list, threads = {}, { coroutine.running() or false }
    for _, thread in ipairs(resumers or {}) do threads[#threads + 1] = thread end
    for i, thread in ipairs(threads) do
      local at = i == 1 and level + 1 or 0
      while true do
        local f = thread and i > 1 and debug.getinfo(thread, at, "Sl") or i == 1 and debug.getinfo(at, "Sl") or nil
        if not f then break end
        list[#list + 1] = f.what == "C" and "C" or f.source .. ":" .. f.linedefined .. ":" .. f.currentline
        at = at + 1
      end
    end
    return list
  end

  local function found()
    local list, sample = {}, kit.unwind.here()
    for i, f in ipairs(sample.places) do
      list[i] = f.kind ~= "Lua" and "C" or f.source .. ":" .. f.linedefined .. ":" .. f.line
      assert.equal(f.line, f.last)
    end
    assert.is_nil(sample.failed)
    return list
  end

  -- Both stacks from the caller on; the first line of each differs.
  local function same(resumers)
    local ours, theirs = found(), expected(1, resumers)
    table.remove(ours, 1) -- here
    table.remove(ours, 1) -- found
    table.remove(ours, 1)
    table.remove(theirs, 1)
    if resumers then
      for i = #theirs + 1, #ours do ours[i] = nil end
    end
    assert.same(theirs, ours)
    assert.is_true(#ours >= 3)
    return #ours
  end

  it("finds the functions that debug.getinfo tells", function()
    local function inner() same() return 1 end
    local function tail() return inner() end
    local function variable(...) local a = tail(...) return a end
    local function caught() assert(pcall(variable, 1, 2, 3)) end
    local t = setmetatable({}, {
      __index = function() caught() return 1 end,
      __add = function(a) return a.x end,
      __lt = function(a) return a + 1 end,
      __concat = function(a) return a < a end,
      __call = function(a) return tostring(a .. "x") end,
    })
    local a = t()
    assert(a)
    string.gsub("x", "x", function() variable() end)
    table.sort({ 2, 1 }, function(x, y) inner() return x < y end)
    for _ in function(_, i) if not i then inner() return 1 end end do inner() end
    assert(xpcall(function() t.x = t.x end, function(e) return e end))
    xpcall(function() error("x") end, function() inner() end)
  end)

  it("finds the thread that resumed a coroutine", function()
    local outer = coroutine.create(function()
      local this = coroutine.running()
      coroutine.wrap(function() same { this } end)()
      local inner = coroutine.create(function(fn) fn() coroutine.yield() fn() end)
      assert(coroutine.resume(inner, function() same { this } end))
      assert(pcall(coroutine.resume, inner))
    end)
    assert(coroutine.resume(outer))
  end)

  it("finds 900 functions of a recursion", function()
    local function deep(n)
      if n == 0 then return same() end
      return 1 + deep(n - 1)
    end
    assert.is_true(deep(900) > 900)
  end)

  it("says so when there are more than 1,000", function()
    local sample
    local function deep(n)
      if n == 0 then sample = kit.unwind.here() return 0 end
      return 1 + deep(n - 1)
    end
    deep(1500)
    assert.equal("deep", sample.failed)
    assert.equal(1000, #sample.places)
  end)

  it("leaves no hook, no trace and no allocator when it learns the layout", function()
    local util = require "jit.util"
    local function traces()
      collectgarbage()
      collectgarbage()
      local n = 0
      for i = 1, 10000 do n = n + (util.traceinfo(i) and 1 or 0) end
      return n
    end
    local function hook() end
    local before = traces()
    debug.sethook(hook, "c", 1000000)
    for _ = 1, 50 do assert(kit.unwind.learn()) end
    local fn, mask, count = debug.gethook()
    debug.sethook()
    assert.equal(hook, fn)
    assert.equal("c", mask)
    assert.equal(1000000, count)
    assert.is_true(traces() < before + 50) -- each time two were made; some of this file may have been compiled, too
    local _, total = kit.fail_alloc(0, function() return {} end)
    assert.is_true(total)
  end)

  it("names the source of each function", function()
    local sample = kit.unwind.here()
    assert.equal("C", sample.places[1].kind)
    assert.equal(FILE, sample.places[2].source)
  end)
end)
