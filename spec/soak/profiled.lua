--- A long run of everything that a program can do to its own stack, under a profiler that takes 10,000 stacks a second: deep
-- recursion and overflow, errors, coroutines, finalizers, code that is flushed, freed and loaded again, other states, forks,
-- another profiler.
--
--     SOAK_SECONDS=3600 luajit spec/soak/profiled.lua
--
-- Each profile takes a second or more. The sum of its weights must be its total. At the end it prints how many samples there
-- were, and for how many of them the stack was not found, by reason.
local kit = require "testkit"
local core = require "perf.core"
local perf = require "perf"

local seconds = tonumber(os.getenv "SOAK_SECONDS") or 60
local seed = tonumber(os.getenv "SOAK_SEED") or 1
local MOST = 8192 -- KiB
local jit = rawget(_G, "jit")
local unpack, load = rawget(_G, "unpack") or table.unpack, rawget(_G, "loadstring") or load

math.randomseed(seed)
local random = math.random
local ops, text = {}, ("some text of which a part is searched "):rep(50)

local function op(name, fn, rare) ops[#ops + 1] = { name = name, fn = fn, rare = rare } end

local function work(n)
  local s = 0
  for i = 1, n do
    s = (s + i * 7) % 1000003
    if i % 64 == 0 then s = s + #tostring(i) end
  end
  return s
end

-- Not a tail call, so that each level has a frame.
local function deep(n, last)
  if n == 0 then return last() end
  return (deep(n - 1, last))
end

op("recursion", function() deep(random(500), function() return work(2000) end) end)

op("recursion with protected calls, in C", function()
  local function down(n)
    if n == 0 then error("bottom", 0) end
    assert(pcall(down, n - 1), "bottom")
  end
  pcall(down, random(100))
end)

op("stack overflow", function()
  local function endless(n) return 1 + endless(n + 1) end
  local ok, err = pcall(endless, 0)
  assert(not ok and tostring(err):find "overflow", err)
end, true)

op("overflow of C calls", function()
  local t = setmetatable({}, {})
  getmetatable(t).__index = function(self, k) return self[k + 1] end
  assert(not pcall(function() return t[1] end))
end)

op("errors", function()
  for i = 1, 100 do
    local mine = { i }
    local ok, err = pcall(function() deep(10, function() error(mine) end) end)
    assert(not ok and err == mine)
  end
end)

op("error handlers", function()
  for _ = 1, 50 do
    xpcall(function() deep(5, function() return nil .. "x" end) end, function(m) return debug.traceback(m) end)
  end
  xpcall(error, function() error "in the handler" end)
end)

op("coroutines in coroutines", function()
  local function nest(n)
    if n == 0 then return work(500) end
    local co = coroutine.wrap(function()
      coroutine.yield(n)
      return nest(n - 1)
    end)
    assert(co() == n)
    return co()
  end
  nest(random(30))
end)

op("switches", function()
  local co = coroutine.wrap(function() while true do coroutine.yield(1) end end)
  for _ = 1, 2000 do co() end
end)

op("coroutines that die, or are left", function()
  for i = 1, 100 do
    local co = coroutine.create(function(a)
      local b = coroutine.yield(a)
      if i % 3 == 0 then error(b) end
      return deep(i % 20, coroutine.yield)
    end)
    coroutine.resume(co, 1)
    if i % 2 == 0 then coroutine.resume(co, 2) end
  end
end)

op("finalizers", function()
  local newproxy = rawget(_G, "newproxy")
  local make = newproxy and function(gc) getmetatable(newproxy(true)).__gc = gc end or
    function(gc) setmetatable({}, { __gc = gc }) end
  for i = 1, 200 do
    make(function()
      deep(i % 30, function() return {} end)
      if i % 50 == 0 then work(100) end
    end)
  end
  if random(2) == 1 then collectgarbage() end
end)

op("the collector", function()
  local keep = {}
  for i = 1, 5000 do keep[i % 100] = { i, tostring(i) } end
  collectgarbage(random(2) == 1 and "step" or "collect")
  return keep
end)

op("code that is loaded and freed", function()
  for i = 1, 20 do
    local lines = {}
    for k = 1, random(30) do lines[k] = ("local function f%d(a) return a + %d end s = s + f%d(s %% 9)"):format(k, k, k) end
    local chunk = assert(load("local s = 0 for i = 1, 200 do\n" .. table.concat(lines, "\n") .. "\nend return s", "=loaded" .. i))
    chunk()
  end
  collectgarbage()
end)

op("modules that are loaded again", function()
  local name = ({ "perf.profile.collect", "perf.names", "perf.list" })[random(3)]
  local before = package.loaded[name]
  package.loaded[name] = nil
  pcall(require, name)
  package.loaded[name] = before
end)

op("library functions that call back", function()
  local t = {}
  for i = 1, 300 do t[i] = (i * 7919) % 301 end
  table.sort(t, function(a, b) return a < b end)
  text:gsub("%w+", function(w) return #w end)
  text:find "part%s+that is not there"
end)

op("metamethods, variable arguments and tail calls", function()
  local m = { __index = function(_, k) return k end, __add = function(a, b) return work(10) + b, a end,
    __call = function(_, ...) return select("#", ...) end, __concat = function() return "" end,
    __lt = function() return true end, __eq = function() return true end, __len = function() return 3 end }
  local a, b = setmetatable({}, m), setmetatable({}, m)
  local function tail(n, ...)
    if n == 0 then return select("#", ...) end
    return tail(n - 1, n, ...)
  end
  for i = 1, 100 do
    select("#", a[i], a + i, a(i, i), a .. b, a < b, a == b)
    tail(i % 50)
    tail(5, unpack { 1, 2, 3 })
  end
end)

op("pages", function() kit.touch_pages(random(64)) end)

op("another profiler", function()
  local function touch() kit.touch_pages(20) end
  local prof, message, code = perf.profile({ event = "page-faults:u", period = 1 }, deep, random(50), touch)
  if not prof and code == "EBUSY" and not core.unwinds() then return end -- stacks of safe points: one at a time
  assert(assert(prof, message).total >= 20)
end)

op("another state", function()
  local ok, message = kit.state([[
    local perf = require "perf"
    local p = assert(perf.profiler { freq = 5000 })
    local ok, message, code = p:start()
    assert(ok or code == "EBUSY" and not require "perf.core".unwinds(), message) -- one at a time takes stacks at safe points
    for i = 1, 1e5 do local t = { i } end
    if ok and ... then p:stop() end
  ]], random(2) == 1)
  assert(ok, message)
end)

op("a fork", function()
  assert(kit.fork(function()
    deep(20, function() return work(100) end)
    return "child"
  end) == 0)
end)

op("a hook", function()
  local hook, mask, count = debug.gethook()
  debug.sethook(function() end, "crl", 100)
  work(500)
  debug.sethook(hook, mask, count)
end)

if jit then
  op("code that is flushed, or not compiled", function()
    local what = random(4)
    if what == 1 then jit.flush() elseif what == 2 then jit.off() end
    for _ = 1, 10 do work(1000) end
    jit.on()
    if what == 3 then jit.flush(work, true) end
    if what == 4 then jit.opt.start("hotloop=" .. random(2, 60), "hotexit=" .. random(2, 10)) end
  end)

  op("many traces", function()
    for i = 1, 20 do
      local chunk = load(([[
        local s = 0
        for i = 1, 300 do
          if i %% %d == 0 then s = s + i else s = s - 1 end
        end
        return s]]):format(i + 1))
      chunk()
      chunk()
    end
  end)

  op("LuaJIT's own profiler", function()
    local profile = require "jit.profile"
    profile.start("i1", function() end)
    work(5000)
    profile.stop()
  end)

  local ffi = require "ffi"
  ffi.cdef "void qsort(void *base, size_t n, size_t size, int (*compare)(const int *, const int *));"
  local compare = ffi.cast("int (*)(const int *, const int *)", function(a, b) return a[0] - b[0] end)
  local sort = function(n)
    local t = ffi.new("int[?]", n)
    for i = 0, n - 1 do t[i] = (i * 7919) % 301 end
    ffi.C.qsort(t, n, 4, ffi.cast("void *", compare))
  end
  jit.off(sort) -- compiled code cannot call what calls back
  op("callbacks of foreign functions", function() sort(200) end)
end

local function memory()
  local f = assert(io.open "/proc/self/smaps_rollup")
  local all = f:read "*a"
  f:close()
  return tonumber(all:match "Private_Dirty:%s+(%d+)")
end

local start, count = core.wall_ns(), 0
local function elapsed() return (core.wall_ns() - start) / 1e9 end

local function step(o)
  local ok, err = pcall(o.fn)
  if not ok then error(o.name .. ": " .. tostring(err)) end
  count = count + 1
end

for _, o in ipairs(ops) do step(o) end -- so that the memory that each needs is there
local samples, unfound, failures, methods, first = 0, 0, {}, {}, nil
repeat
  local p = assert(perf.profiler { event = "task-clock", freq = 10000 })
  assert(p:start())
  local till = elapsed() + 1
  repeat
    local o = ops[random(#ops)]
    if not o.rare or random(20) == 1 then step(o) end
  until elapsed() > till
  local prof = assert(p:stop())
  p:close()
  local sum = 0
  for _, s in ipairs(prof:samples()) do
    sum = sum + s.weight
    samples = samples + s.count
    if s.stack[1].name == "(unsampled)" then unfound = unfound + s.count end
  end
  assert(sum == tonumber(prof.total), ("weights of %d, a total of %s"):format(sum, tostring(prof.total)))
  for reason, n in pairs(prof.failures or {}) do failures[reason] = (failures[reason] or 0) + n end
  methods[prof.method] = (methods[prof.method] or 0) + 1
  prof, p = nil, nil -- luacheck: ignore 311
  collectgarbage()
  collectgarbage()
  local at = elapsed()
  if not first and at > seconds / 4 then first = memory() end
until at > seconds

local parts = {}
for reason, n in pairs(failures) do parts[#parts + 1] = ("%s %d (%.3f %%)"):format(reason, n, 100 * n / samples) end
table.sort(parts)
local ways = {}
for method, n in pairs(methods) do ways[#ways + 1] = ("%d by %s"):format(n, method) end
print(("profiled: %s, %.0f s, seed %d: %d operations of %d kinds, profiles: %s"):format(
  jit and jit.version or _VERSION, elapsed(), seed, count, #ops, table.concat(ways, ", ")))
local failed = #parts > 0 and table.concat(parts, ", ") or "no failure"
print(("  samples: %d, %d of them without a stack; %s"):format(samples, unfound, failed))
local last = memory()
print(("  memory: %d KiB, %d at a quarter of the time"):format(last, first))
if last - first > MOST and not os.getenv "PERF_SAN" then -- a sanitizer keeps what was freed
  print("  FAILED: memory has grown")
  os.exit(1)
end
