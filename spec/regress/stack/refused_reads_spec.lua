-- The story: a stack of LuaJIT ended early, and was not counted as cut, if an instruction that had called a function, or the
-- base of the running one, could not be read: the address was 0 then, which was taken for the bottom of the stack. Later, a
-- stack lacked its two innermost frames: the running function could not be read, and a word that an earlier call had left on
-- the C stack was taken for the address from which the Lua stack had moved. Now a refused read counts as a failure, wherever
-- the unwinder makes it. But there may be no memory at an address that the unwinder takes from the C stack as a guess. A stack
-- may be whole although such a read is refused.
-- In PUC Lua, if the place of one function on the Lua stack could not be read, the stack lacked that function, and was taken for
-- complete.
-- Later: it takes a stack at hundreds of thousands of instructions.
local kit = require "testkit"

local function check(found)
  assert.same({}, found.silent)
  assert.is_true(found.cut <= found.stacks / 50, found.cut)
end

-- Each program begins with this, in a Lua state of its own: with a trap at each instruction, a collection of a large heap and the
-- search among many traces take minutes.
local HEAD = [[
  local kit = require "testkit"
  assert(kit.unwind.learn())
  for k = 1, 20 do -- other traces
    assert(loadstring(("local s = 0 for i = 1, 200 do s = s + i * %d end return s"):format(k)))()
  end
  local run = assert(loadstring([=[
    local function add(a, b) return a + b end
    local function make(i) return { i, add(i, 1) } end
    local function tail(i) return make(i) end
    return function(n)
      local s, t = 0, {}
      for i = 1, n do
        t[i % 8] = tail(i)
        s = add(s, #t[i % 8])
        if i % 5 == 0 then s = s - select("#", i, s) end
      end
      return s
    end]=], "=refused"))()
  -- Takes a stack at every n-th machine instruction, and returns how many there were by state.
  local function refuse(n, fn, ...)
    local found, why = kit.unwind.refusals(n, fn, ...)
    if not found then error(why, 0) end
    assert(#found.silent == 0, table.concat(found.silent, "\n"))
    assert(found.cut <= found.stacks / 50, found.cut)
    return found.states
  end
]]

local function alone(text)
  local ok, why = kit.state(HEAD .. text)
  if not ok and why == "this machine cannot trap each instruction" then return pending(why) end
  assert(ok, why)
end

it("a stack of PUC Lua, after a refused read of memory, lacks at most the innermost function, or has a failure", function()
  requires { puc = true, registers = true }
  -- The innermost call may be beginning or ending. Three reads find its function: of the Lua stack, of the closure, and of the
  -- code of a C function without one. Each is refused twice.
  local ok, why = kit.state [[
    local kit = require "testkit"
    assert(kit.unwind.learn())
    local function deep(n)
      if n == 0 then return (kit.unwind.refusals_here()) end
      return (deep(n - 1))
    end
    local found = deep(20)
    assert(found.stacks == 1 and found.cut == 0)
    assert(found.missing <= 2 * 3, found.missing)
  ]]
  assert(ok, why)
end)

describe("a stack, after a refused read of memory,", function()
  before_each(function() requires { registers = true, lua = "luajit" } end)

  describe("is the same or has a failure, while a C function runs:", function()
    local function inner() local found = kit.unwind.refusals_here() return found end
    local function outer() local _, found = pcall(inner) return found end
    local function middle(...) local found = outer() return found, ... end

    before_each(function()
      require("jit").flush()
      assert(kit.unwind.learn())
    end)

    it("in the main thread", function() check(middle(1, 2)) end)

    it("in a coroutine", function() check(coroutine.wrap(middle)(1, 2)) end)

    it("called by compiled code", function()
      local found
      for i = 1, 200 do
        found = middle(i)
        if #found.silent > 0 then break end
      end
      check(found)
    end)
  end)

  describe("is the same or has a failure, at machine instructions of", function()
    before_each(function() requires { nostress = true } end)

    it("compiled code", function()
      alone [[
        run(5000)
        collectgarbage "stop"
        assert(refuse(61, run, 200).Lua > 100)
      ]]
    end)

    it("compiled code in a coroutine", function()
      alone [[
        run(5000)
        collectgarbage "stop"
        refuse(61, coroutine.wrap(run), 100)
      ]]
    end)

    it("the collector, which compiled code calls", function()
      alone [[
        run(5000)
        collectgarbage("setpause", 0) -- the next collection begins at once
        collectgarbage()
        assert(refuse(101, run, 12).GC > 100)
      ]]
    end)

    it("the interpreter and the compiler, while a trace begins and is recorded", function()
      alone [[
        require("jit.opt").start "hotloop=10" -- this resets the counters, so a trace begins in the tenth round, and no earlier
        local states = refuse(101, run, 25)
        assert(states.Lua > 10 and states.JIT > 10)
      ]]
    end)

    it("the interpreter", function()
      alone [[
        jit.off(run, true)
        refuse(61, run, 20)
      ]]
    end)
  end)
end)
