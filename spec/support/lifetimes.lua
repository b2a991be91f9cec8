--- A model of objects with known sizes and lifetimes. Profilers of allocations and of the heap start and stop at random while
-- the objects are made and dropped. Each Profile must have the bytes of exactly the objects that the model expects in it.
--
--     collectgarbage "stop" -- the model knows all collections
--     local play = require("spec.support.lifetimes").new(seed)
--     play(100) -- does 100 steps; raises an error if a Profile is wrong
--     collectgarbage "restart"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local lifetimes = {}

local SLOTS, PROFILERS = 400, 5
local next_line, place = profiling.next_line, profiling.place

-- The frames of what the interpreter allocates for itself.
local interpreters = { ["(JIT compiler)"] = true, ["(garbage collector)"] = true, ["(string table)"] = true }

local line, serial = {}, 0
local slots = {} -- luacheck: ignore 241 -- keeps the objects alive
local sub = string.sub

-- No two parts of it are the same, so that each text is a new string.
local digits = {}
for i = 1, 20000 do digits[i] = 10000000 + i end
digits = table.concat(digits)

-- Each allocates on one line, into the slot i.
local makers = {}
line.tables = next_line()
function makers.tables(i) slots[i] = { i, serial, i } end
line.closures = next_line()
function makers.closures(i) slots[i] = function() return i end end
line.texts = next_line()
function makers.texts(i) slots[i] = sub(digits, serial, serial + 60) end
line.hashes = next_line()
function makers.hashes(i) slots[i] = { x = i, y = i } end

local jit = rawget(_G, "jit")
local names = {}
for name, maker in pairs(makers) do
  names[#names + 1] = name
  if jit then jit.off(maker) end -- in compiled code a block may be shown at several lines
end
table.sort(names)

-- Grows the interpreter's stack, so that it does not grow on the line of a maker. A collection shrinks it again.
local function deepen(n) return n > 0 and 1 + deepen(n - 1) or 0 end

local function make(name, i)
  serial = serial + 1
  makers[name](i)
end

-- A whole collection. On some interpreters it also starts the collector again.
local function collect()
  collectgarbage()
  collectgarbage "stop"
end

-- Collects until nothing is left that becomes smaller with each collection, such as a buffer.
local function collect_all()
  local before
  repeat
    before = collectgarbage "count"
    collect()
  until collectgarbage "count" == before
end

local function measure(name)
  local N = 50
  for i = 1, N do make(name, i) end
  collect_all()
  local before = collectgarbage "count"
  for i = 1, N do slots[i] = false end
  collect_all()
  return (before - collectgarbage "count") * 1024 / N
end

-- The bytes of one object of each kind, by the interpreter's own count.
local function measure_all()
  local sizes, last = {}
  local compiles = jit and jit.status()
  if compiles then -- the compiler's own blocks would be counted
    jit.off()
    jit.flush()
  end
  for _, name in ipairs(names) do
    repeat -- the interpreter may also free something of its own
      last, sizes[name] = sizes[name], measure(name)
    until sizes[name] == last
  end
  if compiles then jit.on() end
  return sizes
end

-- The bytes on each maker's line, and those that the interpreter allocated there for itself.
local function found_in(prof)
  local own, interpreter = {}, {}
  for _, s in ipairs(prof:samples()) do
    local frame = place(s.stack)
    for _, name in ipairs(names) do
      if frame and frame.line == line[name] and frame.file:find("support/lifetimes.lua", 1, true) then
        local sums = interpreters[s.stack[1].name] and interpreter or own
        sums[name] = (sums[name] or 0) + tonumber(s.weight)
      end
    end
  end
  return own, interpreter
end

--- Returns a function of n that returns random numbers from 1 to n: for each seed, the same ones on all interpreters.
function lifetimes.random(seed)
  return function(n)
    seed = seed * 16807 % 2147483647
    return math.floor(seed / 1024) % n + 1
  end
end

--- Returns a function that does a number of random steps, the same ones for each seed. The function returns how many bytes all
-- Profiles had so far.
function lifetimes.new(seed)
  local sizes
  local objects = {} -- the object of each slot
  local dropped = {} -- objects that are garbage
  local profilers = {}
  local collections, whole = 0, 0
  local log = {}
  local random = lifetimes.random(seed)

  local function fresh(k)
    local event = k == PROFILERS and "alloc" or "heap"
    local survived = event == "heap" and k - 1 or nil
    profilers[k] = { event = event, survived = survived or 0, running = false,
      p = assert(perf.profiler { event = event, period = 1, survived = survived }) }
  end

  -- Must the Profile of q have this object?
  local function is_in(q, o)
    return o.at > q.started and (q.survived == 0 or collections - o.born > q.survived)
  end

  local function check(q, prof, what)
    local want, own, interpreter = {}, found_in(prof)
    local function add(o)
      if is_in(q, o) then want[o.name] = (want[o.name] or 0) + sizes[o.name] end
    end
    if q.event == "alloc" then
      for _, o in ipairs(q.made) do add(o) end
    else
      for _, o in pairs(objects) do add(o) end
      for _, o in ipairs(dropped) do add(o) end
    end
    for _, name in ipairs(names) do
      local is, should = own[name] or 0, want[name] or 0
      -- On LuaJIT, some blocks of a line may be shown as the interpreter's own.
      if is > should or is + (jit and interpreter[name] or 0) < should then
        error(("%s, survived %d, %s: %s of %s bytes of %s\n%s\n%s"):format(q.event, q.survived, what, is, should, name,
          table.concat(log, " "), profiling.text(prof)), 0)
      end
      whole = whole + is
    end
  end

  local function refused(expected, result, message, code)
    assert(not result and type(message) == "string", "not refused")
    assert(code == expected, message)
  end

  local steps = {}

  function steps.make()
    local name, from, n = names[random(#names)], random(SLOTS), random(60)
    deepen(20)
    for i = from, math.min(SLOTS, from + n - 1) do
      local o = { name = name, born = collections, at = serial + 1 }
      if objects[i] then dropped[#dropped + 1] = objects[i] end
      objects[i] = o
      make(name, i)
      for _, q in ipairs(profilers) do
        if q.running and q.made then q.made[#q.made + 1] = o end
      end
    end
  end

  function steps.drop()
    local from = random(SLOTS)
    for i = from, math.min(SLOTS, from + random(150)) do
      slots[i] = false
      dropped[#dropped + 1], objects[i] = objects[i], nil
    end
  end

  function steps.collect()
    collect()
    collections, dropped = collections + 1, {}
  end

  function steps.start(q)
    if q.running then return refused("EBUSY", q.p:start()) end
    assert(q.p:start())
    q.running, q.started = true, serial
    q.made = q.event == "alloc" and {} or nil
  end

  function steps.stop(q)
    if not q.running then return refused("EINVAL", q.p:stop()) end
    q.running = false
    check(q, assert(q.p:stop()), "stop")
  end

  function steps.read(q)
    local method = q.event == "alloc" and "snapshot" or "live"
    if not q.running then return refused("EINVAL", q.p[method](q.p)) end
    check(q, assert(q.p[method](q.p)), method)
    if q.made then q.started, q.made = serial, {} end
  end

  -- A running profiler becomes garbage and is collected.
  function steps.abandon(q, k)
    if not q.running then return end
    fresh(k)
    q.p = nil -- luacheck: ignore
    steps.collect()
  end

  local kinds = { "make", "make", "make", "drop", "collect", "start", "start", "stop", "read", "read", "abandon" }

  return function(n)
    if not sizes then
      for i = 1, SLOTS do slots[i] = false end
      sizes = measure_all()
      for k = 1, PROFILERS do fresh(k) end
    end
    steps.collect()
    for _ = 1, n do
      local kind, k = kinds[random(#kinds)], random(PROFILERS)
      log[#log + 1] = kind .. k
      steps[kind](profilers[k], k)
    end
    return whole
  end
end

return lifetimes
