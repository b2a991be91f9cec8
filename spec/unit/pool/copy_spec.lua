-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local counts = require "perf.counts"
local copy = require "perf.pool.copy"

local function there_and_back(...)
  local n = select("#", ...)
  local text, message = copy.pack("argument", n, ...)
  assert(text, message)
  local values = copy.unpack(text)
  assert.equal(n, values.n)
  return (table.unpack or unpack)(values, 1, n)
end

describe("perf.pool.copy", function()
  it("copies values unchanged", function()
    local a, b, c, d, e = there_and_back(nil, true, "a\0b\255;", -0.5, nil)
    assert.same({ nil, true, "a\0b\255;", -0.5, nil }, { a, b, c, d, e })
    for _, v in ipairs { 0, 1, -1, 2 ^ 53, -2 ^ 53, 1e300, 5e-324, 0.1, math.huge, -math.huge, "", ("x"):rep(1e5), false } do
      assert.equal(v, (there_and_back(v)))
    end
    local nan = there_and_back(0 / 0)
    assert.is_true(nan ~= nan)
    assert.equal(0, select("#", there_and_back()))
  end)

  it("keeps the kind of a number", function()
    if math.type then
      for _, v in ipairs { 1, 1.0, math.tointeger(2 ^ 53) * 1024 - 1, -0.0 } do
        assert.equal(math.type(v), math.type((there_and_back(v))))
        assert.equal(v, (there_and_back(v)))
      end
    else
      requires { lua = "luajit" }
      local ffi = require "ffi"
      for _, v in ipairs { ffi.new("int64_t", -5), ffi.new("uint64_t", 2 ^ 63), ffi.new("int64_t", -2 ^ 63) } do
        local got = there_and_back(v)
        assert.equal(ffi.typeof(v), ffi.typeof(got))
        assert.is_true(v == got)
      end
    end
  end)

  it("copies tables, also shared ones and cycles", function()
    local shared = { 1, 2, n = { m = "x" }, [true] = 5, [2.5] = false }
    local t = { a = shared, b = shared }
    t.t = t
    local got, again = there_and_back(t, shared)
    assert.equal(got, got.t)
    assert.equal(got.a, got.b)
    assert.equal(got.a, again)
    assert.same(shared, got.a)
    assert.are_not.equal(shared, got.a)
  end)

  it("copies lists and nested tables of any depth, in memory in proportion to their size", function()
    requires { nostress = true }
    local function check(n, list, nest)
      local length, depth = 0, 0
      while list do
        assert(list.value == n - length)
        length, list = length + 1, list.next
      end
      while nest do depth, nest = depth + 1, nest[1] end
      assert.same({ n, n }, { length, depth })
    end
    for _, n in ipairs { 4000, 100000 } do
      local list, nest
      for i = 1, n do list, nest = { value = i, next = list }, { nest } end
      collectgarbage()
      collectgarbage "stop"
      local before = collectgarbage "count"
      check(n, there_and_back(list, nest))
      local taken = collectgarbage "count" - before
      collectgarbage "restart"
      assert.is_true(taken < n * 2, taken) -- KiB; with the path to each node as text it was 100 MiB for the 4000
    end
    local keys = { [{ [{ [{}] = 1 }] = { 2 } }] = 3 }
    local got = there_and_back(keys)
    local k = next(got)
    assert.equal(3, got[k])
    local kk = next(k)
    assert.same({ { 2 }, 1 }, { k[kk], select(2, next(kk)) })
  end)

  it("copies functions without upvalues", function()
    local f = there_and_back(function(a, b) return tostring(a + b) end)
    assert.equal("5", (f(2, 3):gsub("%.0", "")))
    local t = there_and_back { fn = function() return 7 end }
    assert.equal(7, t.fn())
  end)

  it("copies the results of ev:read() and metrics()", function()
    local entry = counts.entry({ label = "x" }, 42, 100, 100, 7)
    local metrics = counts.plain({ entry }, 1000, "software"):metrics()
    local copied = copy.unpack(assert(copy.pack("argument", 2, entry, metrics)))
    assert.same({ entry, metrics, n = 2 }, copied)
    assert.equal("x: 42", tostring(copied[1]))
    assert.equal(tostring(metrics), tostring(copied[2]))
  end)

  it("copies Counts", function()
    requires { perf_open = true }
    local perf = require "perf"
    local c = perf.measure("dummy,page-faults", function() end)
    local got = there_and_back(c)
    assert.equal(tostring(c), tostring(got))
    assert.equal(c["page-faults"], got["page-faults"])
    assert.equal(c[1].id, got[1].id)
  end)

  it("names the value that cannot be copied, and its path", function()
    local up = 1
    local function refused(pattern, ...)
      local text, message = copy.pack("argument", select("#", ...), ...)
      assert.is_nil(text)
      assert.matches(pattern, message)
    end
    refused("^argument 1: the function has the upvalue 'up'", function() return up end)
    refused("^argument 2: a C function", 1, print)
    refused("^argument 1.a.b%[1%]: a userdata cannot", { a = { b = { io.stdout } } })
    refused("^argument 1%[table: .-%]: a thread cannot be copied$", { [{}] = coroutine.create(function() end) })
    refused("^argument 1: a table with a metatable", setmetatable({}, {}))
    refused("^argument 1 %(a key%): a userdata", { [io.stdout] = 1 })
    refused("^argument 2%.a%.b %(a key%)%[1%]%.c: a userdata", 1, { a = { b = { [{ { c = io.stdout } }] = 1 } } })
    local nest = { io.stdout }
    for _ = 1, 30 do nest = { a = nest } end
    refused("^argument 1" .. ("%.a"):rep(10) .. " ... %(11 more%) ... " .. ("%.a"):rep(9) .. "%[1%]: a userdata", nest)
  end)

  it("refuses a function with other globals", function()
    local function refused(fn)
      local text, message = copy.pack("argument", 1, { fn })
      assert.is_nil(text)
      assert.matches("^argument 1%[1%]: the function has an environment of its own %(_ENV, setfenv%)", message)
    end
    local text = "return function() return x, tostring end"
    local set = rawget(_G, "setfenv")
    local function load_in(env)
      if set then return set(loadstring(text), env)() end
      return load(text, "=text", "t", env)()
    end
    refused(load_in { x = 77 })
    refused(load_in(setmetatable({ x = 77 }, { __index = _G })))
    refused(load_in(setmetatable({}, { __index = { tostring = tostring } })))
    if not set then
      refused(load "local _ENV = { x = 77 }; return function() return x end"())
      refused(load "local _ENV; return function() return x end"())
    end
    local handy = setmetatable({ mine = 77, tostring = tostring }, { __index = _G })
    assert.same({ n = 2, [2] = tostring }, { n = 2, there_and_back(load_in(handy))() })
    assert.same({ n = 2, [2] = tostring }, { n = 2, there_and_back(load_in(_G))() })
    assert.same({ n = 2, [2] = tostring }, { n = 2, there_and_back(load_in(setmetatable({}, { __index = _G })))() })
  end)

  it("copies a stripped function that uses globals", function()
    local load_text = rawget(_G, "loadstring") or load
    local function stripped(text) return load_text(string.dump(assert(load_text(text)), true)) end
    assert.equal("5", there_and_back(stripped "return tostring(5)")())
    assert.equal("5", there_and_back(stripped "return function() return tostring(5) end"())())
    local text, message = copy.pack("argument", 1, stripped "local a = 5; return function() return tostring(a) end"())
    assert.is_nil(text)
    assert.matches("^argument 1: the function has the upvalue ['%d]", message)
  end)
end)
