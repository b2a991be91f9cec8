--- A program that ends in one of many ways, for spec/soak/ends.lua:
--
--     luajit -lperf.auto spec/soak/ending.lua KIND FINALIZERS
local core = require "perf.core"
local perf = require "perf"

local kind, n = arg[1], tonumber(arg[2])
local jit = rawget(_G, "jit")
local x = 0

local function spin(turns)
  for i = 1, turns do x = x + i % 7 end
  return x
end

local function finalized(fn)
  if rawget(_G, "newproxy") then
    local proxy = newproxy(true) -- luacheck: ignore 113
    getmetatable(proxy).__gc = fn
    return proxy
  end
  return setmetatable({}, { __gc = fn })
end

local function send(...)
  local words = {}
  for i, signal in ipairs { ... } do words[i] = ("kill -%s %d"):format(signal, (core.pid())) end
  -- In the background: os.execute ignores SIGINT and SIGQUIT, two bits of the last digit, until its command ends.
  os.execute(("(until grep -q '^SigIgn:.*[0189]$' /proc/%d/status; do sleep 0.01; done; sleep 0.05; %s) >/dev/null 2>&1 &")
    :format((core.pid()), table.concat(words, "; ")))
  while true do spin(1000) end
end

-- The program's own profiler, which replaces perf.auto's; never stopped.
local function unstopped(opts)
  local p = assert(perf.profiler(opts or { freq = 5000 }))
  assert(p:start())
  return p
end

local function in_coroutine(fn, ...)
  assert(coroutine.resume(coroutine.create(fn), ...))
end

local kinds = {}
function kinds.returns() end
function kinds.raises() error "the end" end
function kinds.raises_a_table() error { "the end" } end
function kinds.exits() os.exit(3) end
function kinds.exits_and_closes() os.exit(3, true) end
function kinds.exits_in_coroutine() in_coroutine(function() os.exit(3) end) end
function kinds.terminated() send "TERM" end
function kinds.terminated_twice() send("TERM", "TERM") end
function kinds.hung_up() send "HUP" end
function kinds.quits() send "QUIT" end
function kinds.interrupted() send "INT" end
function kinds.interrupted_twice() send("INT", "INT") end

function kinds.coroutines_die()
  for i = 1, 200 do
    local f = coroutine.wrap(function(a) spin(a) coroutine.yield(a) if i % 2 == 0 then error "dead" end end)
    f(500)
    pcall(f)
    if i % 50 == 0 then collectgarbage() end
  end
end

function kinds.nests()
  local function go(depth)
    spin(1000)
    if depth > 0 then coroutine.wrap(go)(depth - 1) end
  end
  go(150)
end

function kinds.forks()
  local kit = require "testkit"
  assert(kit.fork(function() spin(1e5) return "child" end) == 0)
  os.execute "true"
end

function kinds.finalizer_raises() _G.kept = finalized(function() error "in a finalizer" end) end
function kinds.finalizer_exits() _G.kept = finalized(function() spin(1000) os.exit(4) end) end
function kinds.collects() for _ = 1, 10 do spin(1e4) collectgarbage() end end

function kinds.compiler_off()
  if jit then jit.off() end
  spin(1e5)
  if jit then jit.on() end
end

function kinds.flushes()
  for _ = 1, 20 do
    spin(1e4)
    if jit then jit.flush() end
  end
end

function kinds.profiles_by_itself()
  if not jit then return end
  local profile = require "jit.profile"
  profile.start("li1", function() end)
  spin(1e6)
  profile.stop()
  spin(1e6)
end

function kinds.profiles_to_the_end()
  if jit then require("jit.p").start("li1", "/dev/null") end
  spin(1e6)
end

function kinds.stops_what_runs()
  if jit then require("jit.profile").stop() end
  spin(1e6)
end

function kinds.another_state()
  local kit = require "testkit"
  for _, threaded in ipairs { false, true } do
    assert(kit.state([[
      local perf = require "perf"
      local p = perf.profiler {freq = 5000}
      p:start() -- refused: this process has one
      for i = 1, 1e6 do end]], threaded))
  end
end

-- Without perf.auto: what the program itself leaves behind.
local own = {}
function own.left_running() _G.p = unstopped() end
function own.forgotten() unstopped() spin(1e6) collectgarbage() collectgarbage() end
function own.closed_late() local p = unstopped() _G.kept = finalized(function() p:close() end) end

function own.stopped_late()
  local p
  _G.kept = finalized(function()
    -- Its samples may have been freed before: then it returns an error, which would not be seen if it were raised here.
    local prof, message, code = p:stop()
    if not (prof or code == "EINVAL" and message:find("closed with its Lua state", 1, true)) then os.exit(7) end
    p:close()
  end)
  p = unstopped()
end

function own.of_a_dead_coroutine()
  in_coroutine(function() _G.p = unstopped() spin(1e5) end)
  collectgarbage()
  collectgarbage()
  spin(3e6)
end

function own.of_a_failed_coroutine()
  coroutine.resume(coroutine.create(function() _G.p = unstopped { freq = 5000, coroutines = "creator" } error "dead" end))
  collectgarbage()
  spin(3e6)
end

function own.of_a_closed_state()
  local kit = require "testkit"
  for i = 1, 6 do
    local ok, err = kit.state([[
      local perf = require "perf"
      p = perf.profiler {freq = 5000}
      assert(p:start())
      for i = 1, 1e6 do end]], i % 2 == 0)
    assert(ok, err)
    spin(1e5)
  end
  unstopped():stop()
end

function own.started_by_a_finalizer()
  _G.kept = finalized(function()
    _G.p = perf.profiler { freq = 5000 }
    _G.p:start()
    spin(1e5)
  end)
end

_G.garbage = {}
for i = 1, n do _G.garbage[i] = finalized(function() spin(20) end) end
spin(4e5);
(kinds[kind] or own[kind])()
spin(1e5)
