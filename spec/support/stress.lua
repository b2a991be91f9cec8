--- Runs specs with the collector under pressure, to find missing references: PERF_GCSTRESS=1.
--
-- During a spec's first calls of each C function of the module, every allocation runs a full collection, so that an object that C
-- code does not anchor is freed at once. Otherwise the collector works all the time, one cycle after the other, so that
-- unreferenced objects are finalized during other calls. (Full pressure everywhere would take an hour.)
--
-- A hook notices the calls. It does not notice those of compiled code, so LuaJIT's compiler is off. There is another reason: a
-- trace that begins with a check of the collector returns to the interpreter if a collection has just ended, which is always the
-- case under pressure, and is then entered again.
local stress = {}

local CALLS = 3 -- calls of each function in each spec

local on = os.getenv("PERF_GCSTRESS") ~= nil
local jit = rawget(_G, "jit")
if on and jit then jit.off() end

-- A pause of 0 begins a collection as soon as one has ended; a step this large runs all of it.
local function pressure(full)
  collectgarbage("setpause", 0)
  if _VERSION == "Lua 5.4" then
    collectgarbage("incremental", 0, full and 1000 or 10, full and 24 or 13)
  else
    collectgarbage("setstepmul", full and 1000000 or 400)
  end
  if full then collectgarbage() end -- otherwise the current cycle would continue with the old settings
end

local function relax()
  collectgarbage("setpause", 200)
  if _VERSION == "Lua 5.4" then
    collectgarbage("incremental", 0, 100, 13)
  else
    collectgarbage("setstepmul", 200)
  end
end

-- The C functions of the module: of its tables and its metatables.
local function c_functions()
  local left, seen = {}, {}
  local function visit(t, depth)
    if seen[t] or depth > 3 then return end
    seen[t] = true
    for _, v in pairs(t) do
      if type(v) == "function" and debug.getinfo(v, "S").what == "C" then
        left[v] = CALLS
      elseif type(v) == "table" then
        visit(v, depth + 1)
      end
    end
  end
  for _, place in ipairs{package.loaded, debug.getregistry()} do
    for name, t in pairs(place) do
      if type(name) == "string" and name:find("^perf[.]") and type(t) == "table" then visit(t, 1) end
    end
  end
  -- functions of the standard library may also be in the tables of Lua modules
  for _, lib in ipairs{_G, string, table, math, io, os, debug, coroutine, package, {require}} do
    for _, v in pairs(lib) do
      if type(v) == "function" then left[v] = nil end
    end
  end
  return left
end

local function install(left)
  local getinfo, sethook = debug.getinfo, debug.sethook
  local hook
  local function next_line()
    pressure(false)
    sethook(hook, "c")
  end
  function hook()
    local f = getinfo(2, "f").func
    local n = left[f]
    if n and n > 0 then
      left[f] = n - 1
      pressure(true)
      sethook(next_line, "l") -- the first line of Lua after it, or in a function that it calls
    end
  end
  sethook(hook, "c")
end

function stress.start()
  if not on then return end
  pressure(true)
  pressure(false)
  install(c_functions())
end

function stress.stop()
  if not on then return end
  debug.sethook()
  relax()
end

return stress
