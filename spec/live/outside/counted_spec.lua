-- Samples of a stack that was seen before are counted in the kernel. Each is still in its own place.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"

local event = "syscalls:sys_enter_getppid"
local load = rawget(_G, "loadstring") or load

-- Profile the system calls of a child that runs fn.
local function profile(fn, opts)
  opts = opts or {}
  opts.event = event
  local prof = outside.profile(opts, fn)
  local a = prof.accounting
  assert.equal(a.samples, a.resolved + a.labelled + a.dropped, profiling.text(prof))
  assert.equal(tonumber(prof.total), profiling.sum(prof), profiling.text(prof))
  return prof, a
end

-- The samples with these functions, outermost first, at the innermost places.
local function at(prof, ...)
  local sum, names = 0, { ... }
  for _, s in ipairs(prof:samples()) do
    local i = 0
    for k = #s.stack, 1, -1 do
      if s.stack[k].name:find(names[i + 1] or "\0", 1, true) then i = i + 1 end
    end
    if i == #names then sum = sum + s.weight end
  end
  return sum
end

-- Each of these numbers of samples was expected. A profiler that is slower than the program loses some of them, and all that it
-- lost are among these; but none is in another place.
local function check_all(found, expected, dropped, text)
  local sum, all = dropped, 0
  for i, n in ipairs(expected) do
    assert.is_true(found[i] <= n, text)
    sum, all = sum + found[i], all + n
  end
  assert.equal(all, tonumber(sum), text)
end

describe("samples that are counted in the kernel", function()
  before_each(function()
    outside.requires { tracepoint = event }
  end)

  it("are as exact as the others: by line, caller and coroutine", function()
    local first
    local function leaf(n)
      for _ = 1, n do kit.syscalls(1) end
      for _ = 1, 2 * n do kit.syscalls(1) end
    end
    first = debug.getinfo(leaf, "S").linedefined + 1
    local function one() leaf(200) return 1 end
    local function other() leaf(300) return 1 end
    local prof, a = profile(function()
      one()
      other()
      for _ = 1, 3 do coroutine.wrap(function() one() end)() end
    end)
    local text = profiling.text(prof)
    assert.equal(3300, a.samples, text)
    check_all({ profiling.on_line(prof, first), profiling.on_line(prof, first + 1) }, { 1100, 2200 }, a.dropped, text)
    check_all({ profiling.under(prof, "one"), profiling.under(prof, "other") }, { 2400, 900 }, a.dropped, text)
  end)

  -- Each function lies where the one before it was, has the same size, and differs in its name alone.
  it("are those of their own function when its memory is used again", function()
    local function of_name(i)
      local text = "local syscalls = ... return function(n) for i = 1, n do syscalls(1) end return n end"
      local fn = assert(load(text, "=name" .. i))(kit.syscalls)
      fn(100 * i)
    end
    local prof, a = profile(function()
      for _ = 1, 3 do
        for i = 1, 9 do
          of_name(i)
          collectgarbage()
          collectgarbage()
        end
      end
    end)
    local found, expected = {}, {}
    for i = 1, 9 do found[i], expected[i] = at(prof, "name" .. i), 300 * i end
    check_all(found, expected, a.dropped, profiling.text(prof))
  end)

  -- A trace may be gone before its lines are read, and its samples may be lost; but no function has those of another.
  it("are those of their own function in compiled code too", function()
    requires { lua = "luajit", ffi = true }
    local function of_name(i)
      local text = "local C = ... return function(n)\n local x = 0 for i = 1, n do x = x + C.getppid() end\n return x end"
      local fn = assert(load(text, "=name" .. i))(require "ffi".C)
      fn(100 * i)
    end
    local prof = profile(function()
      pcall(require "ffi".cdef, "int getppid(void);")
      for _ = 1, 3 do
        for i = 1, 9 do
          of_name(i)
          require "jit".flush()
          collectgarbage()
          collectgarbage()
        end
      end
    end)
    local text = profiling.text(prof)
    for i = 1, 9 do assert.is_true(at(prof, "name" .. i) <= 300 * i, text) end
  end)
end)
