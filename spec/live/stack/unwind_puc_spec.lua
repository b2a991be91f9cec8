-- PUC Lua: the stack that the unwinder finds, compared with what the debug library says, and with programs whose lines have known
-- costs.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local sampled = require "spec.support.sampled"
local unwind = kit.unwind

local compile = rawget(_G, "loadstring") or load
local unpack = rawget(_G, "unpack") or table.unpack

describe("the unwinder of PUC Lua", function()
  before_each(function()
    requires { perf_open = "user", puc = true, nosan = true } -- under a sanitizer the pc's place is not found
    assert.is_true(unwind.learn())
  end)

  describe("from a C function", function()
    local resumed = {} -- the coroutines that the spec has resumed, the innermost last
    local looks

    -- Add what the debug library says of a thread's functions from a level on.
    local function add_levels(list, thread, level)
      while true do
        local i
        if thread then i = debug.getinfo(thread, level, "Sl") else i = debug.getinfo(level, "Sl") end
        if not i then return end
        if i.what == "C" then
          list[#list + 1] = "C"
        elseif i.what ~= "tail" then
          list[#list + 1] = ("%s:%d:%d"):format(i.source:sub(1, 79), math.max(i.linedefined, 0), i.currentline)
        end
        level = level + 1
      end
    end

    -- Compare the callers of this function, in all threads that the spec has resumed.
    local function look(...)
      local h, expected, found = unwind.here(), {}, {}

      add_levels(expected, nil, 3)
      for i = #resumed - 1, 1, -1 do add_levels(expected, resumed[i], 0) end
      for i = 3, #h.places do -- without `here` and this function
        local p = h.places[i]
        if p.resumer >= math.max(#resumed, 1) then break end -- the rest are the threads in which the specs run
        found[#found + 1] = p.kind == "C" and "C" or ("%s:%d:%d"):format(p.source, p.linedefined, p.line)
      end
      assert.is_nil(h.failed)
      assert.equal("C", h.state)
      if #h.places < h.n then -- `here` has the innermost ones
        for i = #expected, #found + 1, -1 do expected[i] = nil end
      end
      assert.same(expected, found)
      looks = looks + 1
      return ...
    end

    local function within(fn, ...)
      local co = coroutine.create(fn)
      resumed[#resumed + 1] = co
      local results = { coroutine.resume(co, ...) }
      resumed[#resumed] = nil
      if not results[1] then error(results[2], 0) end
      return unpack(results, 2)
    end

    before_each(function() resumed, looks = {}, 0 end)

    it("finds what called it: functions of Lua and C, protected ones, tail calls, more arguments than parameters", function()
      local function tail(...) return look(...) end
      local function vary(...)
        local a = look(...)
        return tail(a)
      end
      look()
      pcall(look)
      assert(pcall(vary, 1, 2, 3))
      assert(pcall(function(...) return vary(...) end, 1))
      assert.equal(6, looks)
    end)

    it("finds callbacks of table.sort, string.gsub and metamethods", function()
      table.sort({ 3, 1, 2 }, function(a, b)
        look()
        return a < b
      end)
      assert.is_true(looks >= 2, looks .. " looks")
      looks = 0
      local _ = ("abc"):gsub(".", function(c)
        return look(c)
      end)
      local t = setmetatable({}, {
        __index = function(_, k)
          look()
          return k
        end,
        __call = function(_, ...) return look(...) end,
        __add = function(a, b) return a[b] end,
        __lt = function() return look(true) end,
        __concat = function() return look "" end,
      })
      _ = { t.x, t(1), t + 1, t < t, t .. "x" }
      for _ in function(_, i) if look(i or 0) == 0 then return 1 end end do end
      assert.equal(10, looks)
    end)

    it("finds coroutines in coroutines, under what resumed them", function()
      within(function()
        look()
        within(function(...)
          look(...)
          pcall(within, function()
            look()
            for i in coroutine.wrap(function() coroutine.yield(1) end) do look(i) end
            local ended = coroutine.create(function() error() end)
            coroutine.resume(ended)
            look()
          end)
          look()
        end, 1, 2)
        look()
      end)
      assert.equal(7, looks)
    end)

    it("finds finalizers, handlers of errors, and hooks", function()
      local failed, why
      local function finalizer() failed, why = pcall(look) end
      if rawget(_G, "newproxy") then
        getmetatable(newproxy(true)).__gc = finalizer -- luacheck: ignore
      else
        setmetatable({}, { __gc = finalizer })
      end
      collectgarbage()
      collectgarbage()
      assert(failed, why)
      assert.equal(1, looks)
      xpcall(function() local x = nil + 1 return x end, function() look() end) -- luacheck: ignore
      assert.equal(2, looks)
      local was = { debug.gethook() }
      local inside = false
      debug.sethook(function()
        if not inside then
          inside = true
          failed, why = pcall(look)
        end
      end, "", 1)
      for _ = 1, 10 do end
      debug.sethook(unpack(was, 1, 3))
      assert(failed, why)
    end)

    it("finds 400 functions, and the last 1,000 of more", function()
      local function deep(n)
        if n == 0 then return unwind.here() end
        local h = deep(n - 1)
        return h
      end
      local base = deep(0).n
      assert.equal(base + 400, deep(400).n)
      local h = deep(3000)
      assert.equal(1000, h.n)
      assert.equal("deep", h.failed)
      assert.equal(deep(5).places[6].line, h.places[6].line)
    end)

    it("finds the main thread's functions below a C function that has much on the C stack", function()
      local small, big = unwind.here(), unwind.here(200000)
      assert.equal(small.n, big.n)
      assert.equal(small.places[2].line, big.places[2].line)
    end)

    it("finds lines far apart, and those of functions with many instructions", function()
      local text = { "local look = ...\nlocal t = {}\nfor i = 0, 89 do t[i] = 0 end\nreturn function()\n" }
      for i = 1, 400 do
        text[#text + 1] = ("t[%d] = {%d}\n"):format(i % 90, i)
        if i % 50 == 0 then text[#text + 1] = ("\n"):rep(1000) .. "look()\n" end
      end
      text[#text + 1] = "end\n"
      assert(compile(table.concat(text), "=far"))(look)()
      assert.equal(8, looks)
    end)

    it("takes chunks without a name's file, with long names, and stripped ones", function()
      for _, name in ipairs { "=a", "@" .. ("long/"):rep(15), "return look()", "=" .. ("x"):rep(39), "=" .. ("x"):rep(40) } do
        assert(compile("local look = ... \n look()", name))(look)
      end
      assert.equal(5, looks)
      requires { lua = "5.3" } -- string.dump strips since then
      local code = string.dump(assert(compile "local here = ... \n local h = here() \n return h"), true)
      local stripped = compile(code)(unwind.here)
      assert.equal(0, stripped.places[2].line)
      assert.is_nil(stripped.failed)
    end)
  end)

  -- Run a program, and unwind its stack every 50 us of CPU time. Returns the share of each line in percent, by the line of the
  -- innermost Lua function; and all stacks.
  local function shares_of(text, n, least)
    local fn = assert(compile(text, "=program"))
    local stacks = sampled.run(fn, n)
    local shares, total, complete = {}, 0, 0
    for _, s in ipairs(stacks) do
      total = total + s.count
      if (not s.failed or s.failed == "deep") and s.state ~= "outside" then complete = complete + s.count end
      for _, p in ipairs(s.places) do
        if p.kind == "Lua" then
          shares[p.line] = (shares[p.line] or 0) + s.count
          break
        end
      end
    end
    for line, count in pairs(shares) do shares[line] = 100 * count / total end
    assert.is_true(complete / total >= (least or 0.995), ("%.2f %% of the stacks are complete"):format(100 * complete / total))
    return setmetatable(shares, { __index = function() return 0 end }), stacks
  end

  local function near(expected, actual, points)
    if math.abs(expected - actual) > points then
      error(("%.1f %% expected, within %d; it is %.1f %%"):format(expected, points, actual), 2)
    end
  end

  it("divides a loop's time by its lines' work", function()
    local shares = shares_of([[
      local n = ...
      local short, middle, long = ("x"):rep(1000), ("x"):rep(2000), ("x"):rep(4000)
      for i = 1, n do
        short:find("a.")
        middle:find("a.")
        long:find("a.")
      end]], 2000)
    near(100 / 7, shares[4], 7)
    near(200 / 7, shares[5], 7)
    near(400 / 7, shares[6], 7)
  end)

  it("divides arithmetic, which calls nothing, by lines", function()
    local shares = shares_of([[
      local n, a, b, c, d = ..., 1, 2, 3, 4
      for i = 1, n do
        a = i * 2 + b; a = a * 3 + 1
        b = i * 2 + a; b = b * 3 + 1
        c = i * 2 + d; c = c * 3 + 1
        d = i * 2 + c; d = d * 3 + 1
        a, b, c, d = 1, 2, 3, 4
      end]], 100000)
    for line = 3, 6 do near(20, shares[line], 13) end
    assert.is_true(shares[2] < 15, tostring(shares[2]))
  end)

  it("finds the line that allocates", function()
    local shares = shares_of([[
      local n, t = ...
      for i = 1, n do
        local a = i * 2
        t = {a}
        local b = a + i
      end]], 30000)
    assert.is_true(shares[4] > 70, tostring(shares[4]))
    shares = shares_of([[
      local n, t = ...
      for i = 1, n do
        local a = i * 2
        t = function() return a end
        local b = 2 * i
      end]], 30000)
    assert.is_true(shares[4] > 60, tostring(shares[4]))
  end)

  it("finds what called a function, in a coroutine and outside", function()
    -- Each call is shorter than the time between two samples, since a shared CPU is not equally fast all the time.
    local _, stacks = shares_of([[
      local n = ...
      local text = ("x"):rep(4000)
      local function work() text:find("a.") end
      local co = coroutine.wrap(function()
        while true do
          work()
          coroutine.yield()
        end
      end)
      for _ = 1, n do
        work()
        work()
        co()
        co()
      end]], 3000)
    local by, total = {}, 0
    for _, s in ipairs(stacks) do
      local at, lines = 0, {}
      while s.places[at + 1] do
        local p = s.places[at + 1]
        if p.kind == "Lua" and p.source == "=program" then lines[#lines + 1] = p.line end
        at = at + 1
      end
      local key = table.concat(lines, " ")
      by[key] = (by[key] or 0) + s.count
      total = total + s.count
    end
    for _, key in ipairs { "3 11", "3 12", "3 6 13", "3 6 14" } do near(25, 100 * (by[key] or 0) / total, 7) end
  end)

  it("keeps the state of a program that does everything at once", function()
    local _, stacks = shares_of([[
      local n = ...
      local function nest(depth)
        if depth == 0 then return 1 end
        local co = coroutine.wrap(function(...)
          local r = nest(depth - 1)
          coroutine.yield(r)
        end)
        return co(1, 2, 3)
      end
      local function overflow() return 1 + overflow() end
      local class = {__index = function(t, k) return k * 2 end, __gc = function() return nest(1) end}
      for i = 1, n do
        nest(i % 8)
        pcall(error, {})
        if i == 150 then pcall(overflow) end
        local t = setmetatable({}, class)
        local x = t[i]
        table.sort({3, 2, 1, 5, 4}, function(a, b) return t[a] < t[b] end)
        local s = ("x"):rep(i % 100):gsub("x", function(c) return c .. i end)
        local f = assert((loadstring or load)("return ..."))
        f(i)
      end]], 1000, 0.98) -- a stack that Lua moves to other memory cannot be read meanwhile
    assert.is_true(#stacks > 10, #stacks .. " stacks")
  end)
end)
