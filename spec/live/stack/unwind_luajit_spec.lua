-- The unwinder for LuaJIT in the handler of a clock's signals: programs whose costs are known by line, interpreted and compiled,
-- and stacks of each kind. The shares are those of the samples.
local kit = require "testkit"
local sampled = require "spec.support.sampled"

local share, unknown = sampled.share, sampled.unknown
local jit = rawget(_G, "jit")
local FILE = debug.getinfo(1, "S").source

local POINTS = 6

-- The line of the caller.
local function here()
  return debug.getinfo(2, "l").currentline
end

-- The innermost function in this file.
local function innermost(places)
  for i, place in ipairs(places) do
    if place.kind == "Lua" and place.source == FILE then return place, i end
  end
end

local function at_line(line, last)
  return function(places)
    local place = innermost(places)
    return place and place.line >= line and place.last <= (last or line)
  end
end

-- The first has a quarter of the samples of both. Most other samples are of the compiler's work at the beginning, which takes
-- long on an emulated machine.
local function expect_quarter(first, rest)
  local all = first + rest
  assert(all >= 75, ("%.1f%% in both"):format(all))
  assert(math.abs(25 - 100 * first / all) <= POINTS, ("%.1f%% of %.1f%% are the first one's"):format(100 * first / all, all))
end

describe("the unwinder for LuaJIT in a signal's handler", function()
  before_each(function()
    requires { perf_open = "user", lua = "luajit", registers = true, nostress = true }
    assert(kit.unwind.learn())
  end)

  -- Each of them is run as it is, and with a function that the compiler must not touch.
  for _, compiled in ipairs { true, false } do
    describe(compiled and "with the compiler" or "without the compiler", function()
      before_each(function()
        if not compiled then
          jit.off()
          jit.flush() -- or code that was compiled earlier would run
        end
      end)

      after_each(function()
        jit.on()
      end)

      it("knows the line of a call by its cost", function()
        local short, long = ("a"):rep(3000) .. "b", ("a"):rep(9000) .. "b"
        local first
        local stacks = sampled.run(function()
          first = here()
          for _ = 1, 20 do
            short:find("[b]")
            long:find("[b]")
          end
        end)
        expect_quarter(share(stacks, at_line(first + 2)), share(stacks, at_line(first + 3)))
        assert.is_true(share(stacks, unknown) < 0.5)
      end)

      it("knows the function that computes", function()
        local function work(n)
          local sum = 0
          for i = 1, n do sum = (sum * 7 + i) % 1000003 end
          return sum
        end
        local function quarter() return (work(2000)) end
        local function rest() return (work(6000)) end
        local stacks = sampled.run(function()
          for _ = 1, 20 do
            quarter()
            rest()
          end
        end)
        local function below(defined)
          return share(stacks, function(places)
            for _, place in ipairs(places) do
              if place.source == FILE and place.linedefined == defined then return true end
            end
          end)
        end
        expect_quarter(below(debug.getinfo(quarter, "S").linedefined), below(debug.getinfo(rest, "S").linedefined))
        assert.is_true(share(stacks, unknown) < 0.5)
      end)

      it("knows the line of a loop on which memory is allocated", function()
        local first
        local stacks = sampled.run(function()
          first = here()
          local t, x = {}, 0
          for i = 1, 30000 do
            t[i] = {k = i, l = i}
            x = x + 1
          end
          return t, x
        end)
        assert.is_true(share(stacks, at_line(first + 3)) >= 80)
        assert.is_true(share(stacks, at_line(first + 2, first + 5)) >= 95)
      end)

      -- A program, and the functions that must follow each other, the innermost first, wherever the first one is seen.
      local function shows(title, chain, program)
        it("shows " .. title, function()
          local fns = {}
          local run = program(fns)
          local stacks = sampled.run(run)
          local function is(place, name)
            return place.kind == "Lua" and place.source == FILE and place.linedefined == debug.getinfo(fns[name], "S").linedefined
          end
          local function seen(places)
            local place = innermost(places)
            return place and is(place, chain[1])
          end
          local first = share(stacks, seen)
          local whole = share(stacks, function(places)
            local k = 1
            for _, place in ipairs(seen(places) and places or {}) do
              if chain[k] and is(place, chain[k]) then k = k + 1 end
            end
            return k > #chain
          end)
          assert(first > 5, ("only %.1f%% of the samples show %s"):format(first, chain[1]))
          assert(whole >= 0.99 * first, ("%.1f%% of the samples show %s, and %.1f%% all"):format(first, chain[1], whole))
          assert.is_true(share(stacks, unknown) < 1)
        end)
      end

      local function spin(n)
        local sum = 0
        for i = 1, n do sum = (sum * 7 + i) % 1000003 end
        return sum
      end

      shows("a function that is compiled into its caller", { "inner", "outer" }, function(fns)
        local values = {}
        for i = 1, 100 do values[i] = i end
        fns.inner = function(t, k)
          local v = t[k]
          if v > 1000 then return 0 end
          return v * 7 % 1009
        end
        fns.outer = function()
          local sum = 0
          for i = 1, 5000 do sum = sum + fns.inner(values, i % 100 + 1) end
          return sum
        end
        return function() fns.outer() end
      end)

      shows("a metamethod and its caller", { "spin", "index", "caller" }, function(fns)
        fns.spin = spin
        fns.index = function(_, k) return spin(500) + k end
        local t = setmetatable({}, { __index = fns.index })
        fns.caller = function()
          local a = t[1]
          return a
        end
        return function() for _ = 1, 100 do fns.caller() end end
      end)

      shows("variable arguments", { "spin", "variable", "caller" }, function(fns)
        fns.spin = spin
        fns.variable = function(...) return spin((select("#", ...))) + spin(500) end
        fns.caller = function() return (fns.variable(1, 2, 3)) end
        return function() for _ = 1, 100 do fns.caller() end end
      end)

      shows("what pcall calls", { "spin", "called", "caller" }, function(fns)
        fns.spin = spin
        fns.called = function() return spin(500) + 1 end
        fns.caller = function()
          pcall(fns.called)
          xpcall(fns.called, error)
        end
        return function() for _ = 1, 100 do fns.caller() end end
      end)

      shows("a comparison of table.sort", { "less", "caller" }, function(fns)
        fns.less = function(a, b)
          local x, y = a * 7 % 1009, b * 7 % 1009
          for _ = 1, 20 do x, y = x * 3 % 1009, y * 3 % 1009 end
          return x < y
        end
        fns.caller = function()
          local t = {}
          for i = 1, 300 do t[i] = i end
          table.sort(t, fns.less)
        end
        return function() fns.caller() end
      end)

      shows("what string.gsub calls", { "spin", "each", "caller" }, function(fns)
        fns.spin = spin
        fns.each = function() return tostring(spin(500)) end
        fns.caller = function() return (("a b c d"):gsub("%w", fns.each)) end
        return function() fns.caller() end
      end)

      shows("a coroutine and what resumes it", { "spin", "inside", "outside" }, function(fns)
        fns.spin = spin
        fns.inside = function() while true do coroutine.yield(spin(500)) end end
        local co = coroutine.wrap(function() fns.inside() end)
        fns.outside = function() return (co()) end
        return function() for _ = 1, 100 do fns.outside() end end
      end)

      shows("a finalizer", { "spin", "finalizer" }, function(fns)
        fns.spin = spin
        fns.finalizer = function() return spin(20000) + 1 end -- a collection of a large heap costs much too
        return function()
          for _ = 1, 100 do getmetatable(rawget(_G, "newproxy")(true)).__gc = fns.finalizer end
          collectgarbage()
        end
      end)

      shows("a callback of C", { "spin", "compare", "sort" }, function(fns)
        local ffi = require "ffi"
        pcall(ffi.cdef, "void qsort(void *, size_t, size_t, int (*)(const void *, const void *));")
        fns.spin = spin
        fns.compare = function(a, b)
          spin(500)
          return ffi.cast("const int *", a)[0] - ffi.cast("const int *", b)[0]
        end
        local compare = ffi.cast("int (*)(const void *, const void *)", fns.compare)
        local list = ffi.new("int[40]")
        fns.sort = function()
          for i = 0, 39 do list[i] = (i * 7919) % 40 end
          ffi.C.qsort(list, 40, 4, compare)
        end
        jit.off(fns.sort) -- compiled code must not call what calls back
        return function() fns.sort() end
      end)

      it("shows a recursion 400 deep, and its end", function()
        local function deep(n)
          if n == 0 then return spin(200000) end
          return 1 + deep(n - 1)
        end
        local stacks = sampled.run(function() deep(400) end)
        assert.is_true(share(stacks, function(_, stack) return stack.n > 400 end) > 85)
        assert.is_true(share(stacks, unknown) < 1)
      end)

      it("shows errors, and the stack's overflow", function()
        local function fails(n)
          if n == 0 then error("x") end
          return 1 + fails(n - 1)
        end
        local function endless(n) return 1 + endless(n + 1) end
        local stacks = sampled.run(function()
          for _ = 1, 20 do pcall(fails, 10) end
          pcall(endless, 1)
        end)
        -- While C's stack is unwound, the interpreter's frame with the address of the instruction is gone: the function is known.
        local known = { deep = true, ["no pc"] = true }
        assert.is_true(share(stacks, function(_, stack) return stack.failed and not known[stack.failed] end) < 1)
      end)
    end)
  end
end)
