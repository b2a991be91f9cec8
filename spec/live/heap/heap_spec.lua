--- perf.heap: snapshots of all objects, in heaps whose contents are known.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local perf = require "perf"
local util = require "spec.support.util"

local jit = rawget(_G, "jit")
local newproxy = rawget(_G, "newproxy") -- 5.1 and LuaJIT

-- The collector's count in bytes.
local function count() return collectgarbage "count" * 1024 end

local taken = {}

local function take(options)
  local h = assert(perf.heap(options))
  taken[#taken + 1] = h
  return h
end

local function close_all()
  for i, h in ipairs(taken) do
    h:close()
    taken[i] = nil
  end
end

local function row_of(rows, key, value)
  for _, row in ipairs(rows) do
    if row[key] == value then return row end
  end
end

local function sum(h)
  local bytes = 0
  for _, row in ipairs(h:types()) do bytes = bytes + row.bytes end
  return bytes
end

-- Snapshots before and after fn, without what dies meanwhile.
local function around(fn)
  collectgarbage() -- the second collection frees the objects of finalizers that the first one called
  local before = take { collect = true }
  fn()
  return take { collect = true }, before
end

local function grown(fn)
  local after, before = around(fn)
  return after:diff(before), after
end

describe("a snapshot of the heap", function()
  local missing -- after a spec that refuses memory, LuaJIT's own count is wrong in the whole process
  after_each(close_all)
  before_each(function()
    requires { heap = true }
    local h = perf.heap()
    missing = h.sums.parts.unknown
    h:close()
  end)

  local function is_exact(h) return h.sums.parts.unknown == missing end

  it("learns the structures once in a process and the children of its forks", function()
    local core, kit = require "perf.core", require "testkit"
    take()
    for _ = 1, 2 do assert.same({ true, true }, { core.heap_learn() }) end
    local _, known = kit.fork(function() return tostring(select(2, core.heap_learn())) end)
    assert.equal("true", known)
  end)

  -- The story: a byte of an address could look like a field that is searched, so one program in 300 could take no snapshot.
  it("is exact in programs that have just begun, wherever their memory is", function()
    local program = [[local h = require "perf".heap() print(h.exact, h.sums.parts.unknown)]]
    local command = "for i in 1 22 333 4444 55555 666666 7777777 88888888; do A=$i$i$i$i %s -e '%s'; done"
    local out = util.shell(command:format(util.lua(), program))
    assert.same(("true\tnil\n"):rep(8), out)
  end)

  it("has the collector's count to the byte, and says what it consists of", function()
    requires { nostress = true }
    local compiled = jit and jit.status()
    if jit then -- a trace that is compiled meanwhile would be counted; exits of traces are compiled even after jit.off
      jit.off()
      jit.flush()
    end
    collectgarbage "stop"
    finally(function()
      collectgarbage "restart"
      if compiled then jit.on() end
    end)
    take() -- the stack may have to grow for it
    local before = count()
    local h = take()
    assert.equal(before, h.total)
    assert.equal(h.total, sum(h))
    assert.is_true(is_exact(h))
    local row = row_of(h:types(), "type", "(unknown)")
    assert.equal(missing, row and row.bytes)
  end)

  -- A state of its own has a small heap: a snapshot takes a tenth of the time, and collections begin and end more often.
  local function in_small_heap(fn)
    local pool = assert(perf.pool { size = 1 })
    finally(function() pool:close() end)
    return assert(pool:submit(fn)):get()
  end

  it("has it in the middle of a collection, with the dead objects in a row of their own", function()
    requires { nostress = true }
    local rounds, wrong, most, left, last = in_small_heap(function()
      local heap, is_jit = require "perf".heap, rawget(_G, "jit")
      if is_jit then collectgarbage("setpause", 100) end -- a collection begins when the last one has ended
      collectgarbage()
      local n, bad, garbage, last = 0, 0, 0, nil
      for _ = 1, 100 do
        for i = 1, 800 do last = { i, tostring(i), function() return i end } end
        if is_jit then collectgarbage("step", 0) end -- of others it may be a whole collection; they make steps as they allocate
        local h = assert(heap())
        local bytes = 0
        for _, row in ipairs(h:types()) do bytes = bytes + row.bytes end
        if bytes ~= h.total or not h.exact then bad = bad + 1 end
        n, garbage = n + 1, math.max(garbage, h.garbage)
        h:close()
      end
      collectgarbage()
      local h = assert(heap())
      local after = h.garbage
      h:close()
      return n, bad, garbage, after, last[1]
    end)
    assert.equal(100, rounds)
    assert.equal(0, wrong)
    assert.is_true(most > 10000)
    assert.is_true(left < most)
    assert.equal(800, last)
  end)

  it("counts each kind of object that is made", function()
    local kept = {}
    local body = function() end
    local difference = grown(function()
      for i = 1, 100 do
        kept[#kept + 1] = {}
        kept[#kept + 1] = function() return i end
        kept[#kept + 1] = coroutine.create(body)
        kept[#kept + 1] = "a text " .. i .. " of the spec of heaps"
        kept[#kept + 1] = string.gmatch("a", "b") -- a C function with upvalues
        kept[#kept + 1] = newproxy and newproxy(true) or {}
        kept[#kept + 1] = jit and require "ffi".new("char[?]", i) or false
      end
    end)
    local wanted = { table = 200, ["function"] = 100, upvalue = 100, thread = 100 }
    if newproxy then wanted.userdata = 100 else wanted["C function"] = 100 end
    if jit then wanted.cdata = 100 end
    for kind, n in pairs(wanted) do
      local row = row_of(difference.types, "type", kind)
      -- Objects of the first snapshot may have died since, such as an upvalue that was still open on the stack.
      assert.is_true(row and row.count >= n - 5 and row.count <= n + 40, kind .. ": " .. tostring(difference))
    end
    assert.equal(700, #kept)
  end)

  it("is exact with compiled code, buffers, coroutines, open upvalues, cdata, callbacks and finalizers", function()
    requires { lua = "luajit" }
    local ffi = require "ffi"
    local kept = {}
    for i = 1, 50 do
      kept[i] = coroutine.wrap(function()
        local a = {}
        for j = 1, i do coroutine.yield(function() return a, j end) end
      end)
      kept[-i] = kept[i]()
      local proxy = newproxy(true)
      getmetatable(proxy).__gc = function() return {} end
      kept[i + 100] = ffi.gc(ffi.new("int[?]", i), function() end)
    end
    kept.aligned = ffi.new "struct { double a[3]; } __attribute__((aligned(64)))"
    kept.constant = ffi.new("const struct { int a[5]; }")
    kept.call = ffi.cast("int (*)(int)", function(x) return x end)
    local ok, buffer = pcall(require, "string.buffer")
    if ok then kept.buffer, kept.shared = buffer.new():put(("x"):rep(1000)), buffer.new():set "a string" end
    for i = 1, 30 do
      local n = 0
      for k = 1, 200 do n = n + k % i end
      kept.n = n
    end
    local text = {}
    for i = 1, 5000 do text[i] = "a string " .. i end
    assert.is_true(is_exact(take()))
    assert.equal(5000, #text)
    kept.call:free()
    collectgarbage "step"
    assert.is_true(is_exact(take()))
  end)

  it("is exact with all that PUC Lua has", function()
    requires { puc = true }
    local load = loadstring or load
    local kept = {}
    -- Functions without lines and names, of all sizes.
    for i = 1, 30 do
      local text = { "local a, b = ... " }
      for k = 1, i * 20 do
        text[k + 1] = ("a = (a or 0) + %d.5 b = 'string %d' local c%d = function() return a end\n"):format(k, k, k % 100)
      end
      -- The chunk's name is short, since Lua 5.2 writes it into the dump once for each function.
      local f = assert(load("return function(...) do " .. table.concat(text, " end do ") .. " end end", "=f"))
      kept[i] = load(string.dump(f, true))
      kept[-i] = f
    end
    -- Arrays whose length is not their size, and tables that became smaller or empty.
    for i = 1, 100 do
      local t = {}
      for k = 1, i do t[k], t["k" .. k] = k, k end
      for k = i, i / 2, -1 do t[k], t["k" .. k] = nil, nil end
      kept[#kept + 1] = { t, #t }
    end
    -- Threads: never started, suspended deep in calls and in variables to close, ended, failed; their open upvalues.
    local function deep(n, f)
      local up = {}
      f = f or function() return up end
      if n > 0 then return deep(n - 1, f), up end
      coroutine.yield(f)
      return up
    end
    for i = 1, 50 do
      local co = coroutine.create(deep)
      if i % 5 > 0 then kept[#kept + 1] = { co, select(2, coroutine.resume(co, i * 10)) } end
      if i % 5 == 2 then coroutine.resume(co) end
      if i % 5 == 3 then coroutine.resume(co, 1, error) end
      kept[#kept + 1] = co
    end
    if _VERSION == "Lua 5.4" then
      local co = coroutine.wrap(load [[
        local a <close> = setmetatable({}, { __close = print })
        coroutine.yield(function() return a end)]])
      kept[#kept + 1] = { co, co() }
    end
    -- Finalizers that are called while snapshots are taken, and make their objects live again.
    local calls, all_exact = 0, true
    local meta = { __gc = function(object)
      local h = assert(perf.heap())
      all_exact, calls = all_exact and is_exact(h) and h.total == sum(h), calls + 1
      h:close()
      kept.again = object
    end }
    for _ = 1, 5 do
      local proxy = newproxy and newproxy(true) or setmetatable({}, meta)
      if newproxy then getmetatable(proxy).__gc = meta.__gc end
    end
    collectgarbage()
    assert.equal(5, calls)
    assert.is_true(all_exact)
    kept.text = ("x"):rep(1e7) .. "y"
    kept.file = io.tmpfile()
    local h = take()
    assert.is_true(is_exact(h))
    assert.equal(h.total, sum(h))
    assert.equal(1e7 + 1, h:who(kept.text).bytes - h:who("").bytes)
    kept.file:close()
    local row = row_of(h:types(), "type", "(unknown)")
    assert.equal(missing, row and row.bytes)
  end)

  it("is exact in the generational mode", function()
    requires { lua = "5.4" }
    local wrong = in_small_heap(function()
      local heap = require "perf".heap
      collectgarbage "generational"
      local kept, bad = setmetatable({}, { __mode = "k" }), 0
      for i = 1, 100 do
        for k = 1, 200 do
          local object = setmetatable({ k }, k % 50 == 0 and { __gc = function() end } or nil)
          kept[object] = i % 2 == 0 and { object } or nil
        end
        local h = assert(heap())
        local bytes = 0
        for _, row in ipairs(h:types()) do bytes = bytes + row.bytes end
        if bytes ~= h.total or not h.exact then bad = bad + 1 end
        h:close()
      end
      return bad
    end)
    assert.equal(0, wrong)
  end)

  it("is taken by coroutines and hooks, and of another state of the process", function()
    local h
    coroutine.wrap(function()
      local mine = { ("x"):rep(1000) }
      h = take()
      assert.equal(h.total, sum(h))
      local who = h:who(mine)
      assert.match("^%(running coroutine%) > local mine %(.*heap_spec", who.path)
    end)()
    local in_hook
    debug.sethook(function()
      if not in_hook then in_hook = take() end
    end, "l")
    h = nil
    debug.sethook()
    assert.is_true(is_exact(in_hook))
    local pool = assert(perf.pool { size = 1 })
    finally(function() pool:close() end)
    local exact, total = assert(pool:submit(function()
      local snapshot = require "perf".heap()
      local ok, bytes = snapshot.exact, snapshot.total
      snapshot:close()
      return ok, bytes
    end)):get()
    assert.is_true(exact)
    assert.is_true(total > 0)
    assert.is_nil(h)
  end)

  -- The story: Lua 5.4's threads hold their open upvalues, and the holders of a local variable that a function uses had the
  -- line "(main thread) > content", which no page explained.
  it("names what holds a local variable that is also an upvalue", function()
    coroutine.wrap(function()
      local mine = {}
      local function uses() return mine end
      local known = { ["> local mine (*)"] = 0, ["> local uses (*) > upvalue mine (*)"] = 0, ["> open upvalue"] = 0 }
      for _, path in ipairs(take():who(mine).holders) do
        path = path:gsub("^%(running coroutine%) ", ""):gsub("%(.-:%d+%)", "(*)")
        if not path:find "^> stack slot %d+$" then
          assert.is_truthy(known[path], path)
          known[path] = known[path] + 1
        end
      end
      assert.equal(1, known["> local mine (*)"])
      assert.equal(1, known["> local uses (*) > upvalue mine (*)"] + known["> open upvalue"])
      assert.is_truthy(uses)
    end)()
  end)

  it("follows a chain of many objects, and cycles", function()
    -- On a stack of its own: an unused slot of this one could still refer to an object in the middle.
    local first, last = coroutine.wrap(function()
      local a = {}
      local z = a
      for _ = 1, 2e5 do
        z[1] = {}
        z = z[1]
      end
      z[1], a.me = a, a
      return a, z
    end)()
    _G.heap_spec = first
    finally(function() _G.heap_spec = nil end)
    local h = take()
    local who = h:who(last)
    assert.is_true(h:who(first).retained > 10e6)
    assert.match("^_G%.heap_spec%[1%].* > %.%.%. %d+ steps %.%.%.", who.path)
  end)

  it("knows what an object is, what it retains, and all that holds it", function()
    local leaf = { "leaf" }
    _G.heap_spec = { one = { leaf = leaf, size = {} }, two = { leaf } }
    finally(function() _G.heap_spec = nil end)
    collectgarbage "stop" -- else a new object might get the address of a freed one
    finally(function() collectgarbage "restart" end)
    local h = take()
    local one = h:who(_G.heap_spec.one)
    assert.equal("_G.heap_spec.one", one.path)
    assert.equal("table", one.type)
    local size = h:who(_G.heap_spec.one.size)
    assert.equal(one.bytes + size.bytes, one.retained)
    local held = h:who(leaf)
    local holders = {}
    for _, path in ipairs(held.holders) do holders[path] = true end
    assert.is_true(holders["_G.heap_spec.one.leaf"] and holders["_G.heap_spec.two[1]"])
    assert.is_true(holders[held.path])
    local none, message, code = h:who(setmetatable({}, {}))
    assert.is_nil(none)
    assert.match("^who: the snapshot does not have this table", message)
    assert.equal("ENOENT", code)
    assert.equal("ENOENT", select(3, h:who(1)))
    local wrapped = string.gmatch("a", "b")
    _G.heap_spec.one.wrapped = wrapped
    assert.equal("_G.heap_spec.one.wrapped", take():who(wrapped).path)
  end)

  -- The story: such an object was found, without holders and with no retained bytes, and a new object could have its address.
  it("does not have an object to which only weak references led", function()
    requires { nostress = true }
    collectgarbage "stop"
    finally(function() collectgarbage "restart" end)
    local weak = setmetatable({}, { __mode = "v" })
    coroutine.wrap(function() weak[1] = { {} } end)()
    local h = take()
    assert.equal("ENOENT", select(3, h:who(weak[1])))
    assert.equal("table", h:who(weak).type)
  end)

  it("does not take weak references for holders", function()
    local value = { "value" }
    _G.heap_spec = { weak = setmetatable({ value }, { __mode = "v" }), hold = { value },
      keys = setmetatable({ [value] = 1 }, { __mode = "k" }) }
    finally(function() _G.heap_spec = nil end)
    local who = take():who(value)
    for _, path in ipairs(who.holders) do assert.is_nil(path:find("weak", 1, true) or path:find("keys", 1, true), path) end
    assert.equal("_G.heap_spec.hold[1]", who.path)
  end)
end)

describe("a leak", function()
  after_each(close_all)
  before_each(function()
    requires { heap = true }
    perf.heap():close()
  end)

  local function leads(difference, pattern, bytes)
    local row = difference.paths[1]
    assert.match(pattern, row.path, 1, false, tostring(difference))
    assert.is_true(row.bytes >= bytes and row.bytes < 2 * bytes, tostring(difference))
  end

  it("in a cache that grows is named by its path", function()
    _G.heap_cache = {}
    finally(function() _G.heap_cache = nil end)
    leads(grown(function()
      for i = 1, 3000 do _G.heap_cache["key " .. i] = { i, { i } } end
    end), "^_G%.heap_cache$", 3000 * 200)
  end)

  it("in a closure of a timer is named by the upvalue, the function and its line", function()
    local registry = debug.getregistry()
    registry.heap_timers = {}
    finally(function() registry.heap_timers = nil end)
    local line
    local function start(timers)
      local leaked = {}
      line = debug.getinfo(1, "l").currentline + 1
      timers[1] = function(i)
        leaked[i] = ("x"):rep(1000) .. i
        return leaked
      end
    end
    start(registry.heap_timers)
    local difference = grown(function()
      for i = 1, 500 do registry.heap_timers[1](i) end
    end)
    leads(difference, ("^registry%%.heap_timers%%[1%%] > upvalue leaked %%(.*heap_spec%%.lua:%d%%)$"):format(line), 500 * 1000)
  end)

  it("in a reference of the registry is named by its number", function()
    local registry = debug.getregistry()
    local key = 4711
    finally(function() registry[key] = nil end)
    leads(grown(function()
      local list = {}
      for i = 1, 3000 do list[i] = { i } end
      registry[key] = list
    end), "^registry%[4711%]$", 3000 * 80)
  end)

  it("in a coroutine that never ends is named by the local variable and the line", function()
    _G.heap_workers = {}
    finally(function() _G.heap_workers = nil end)
    local line
    local difference = grown(function()
      _G.heap_workers[1] = coroutine.create(function()
        local buffer = {}
        for i = 1, 3000 do buffer[i] = { i } end
        line = debug.getinfo(1, "l").currentline + 1
        coroutine.yield(buffer)
      end)
      coroutine.resume(_G.heap_workers[1])
    end)
    leads(difference, ("^_G%%.heap_workers%%[1%%] > local buffer %%(.*heap_spec%%.lua:%d%%)$"):format(line), 3000 * 80)
  end)

  it("that two tables share is found at the nearer one", function()
    _G.heap_shared = { {}, deeper = { {} } }
    finally(function() _G.heap_shared = nil end)
    local difference, after = grown(function()
      for i = 1, 3000 do
        local object = { i }
        _G.heap_shared[1][i], _G.heap_shared.deeper[1][i] = { object }, { object }
      end
    end)
    assert.is_true(row_of(difference.paths, "path", "_G.heap_shared[1]") ~= nil or
      row_of(difference.paths, "path", "_G.heap_shared") ~= nil, tostring(difference))
    assert.is_true(after:who(_G.heap_shared[1]).shared >= 3000 * 64)
    assert.equal(0, after:who(_G.heap_shared.deeper[1]).shared)
    assert.is_true(after:who(_G.heap_shared).retained >= 3000 * 200)
  end)

  it("is not attributed to compiled code", function()
    local function make()
      local cache = {}
      return function(n)
        for i = 1, n do cache[i] = { i } end
        return cache
      end
    end
    _G.heap_call = make()
    finally(function() _G.heap_call = nil end)
    _G.heap_call(1000)
    local difference = grown(function() _G.heap_call(5000) end)
    leads(difference, "^_G%.heap_call > upvalue cache", 4000 * 72)
  end)
end)

describe("the tables of a heap", function()
  after_each(close_all)
  before_each(function() requires { heap = true } end)

  it("print", function()
    -- The text has only the ten largest paths, and earlier specs may have left several paths with some megabytes each.
    local after, before = around(function() _G.heap_printed = { ("x"):rep(1e7) } end)
    finally(function() _G.heap_printed = nil end)
    assert.match("^[%d,]+ bytes in [%d,]+ objects\n", tostring(after))
    assert.match("\n *10,000,%d+ +0 +_G%.heap_printed%[1%] +string \"xxx", tostring(after))
    assert.match("^%+[%d,]+ bytes\n", tostring(after:diff(before)))
    assert.match("\n%+10,000,%d+ +0 +10,000,%d+ +_G%.heap_printed", tostring(after:diff(before)))
  end)

  it("are refused after the snapshot is closed, and mistakes raise", function()
    local h = assert(perf.heap())
    assert.error_matches(function() h:paths(0) end, "bad argument #1 to 'paths'")
    assert.error_matches(function() h:who() end, "bad argument #1 to 'who' %(an object expected, got nil%)")
    assert.error_matches(function() h:diff {} end, "bad argument #1 to 'diff' %(Heap expected, got table%)")
    assert.error_matches(function() perf.heap { forc = true } end, "forc")
    h:close()
    h:close()
    assert.error_matches(function() h:paths() end, "closed")
    assert.error_matches(function() return h:who(print) end, "closed")
  end)
end)
