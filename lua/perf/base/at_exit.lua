-- Functions to run when the Lua state closes, or earlier, when the returned object is collected. The last one given runs first.
--
-- Lua closes its state at the end of the script and at os.exit(code, true). Lua 5.1's os.exit has no second argument and never
-- closes the state, so it is replaced there. The replacement runs the functions for os.exit(code, true) only: os.exit(code)
-- skips them on the other Luas too.
local keys_of = require "perf.base.keys"

local given, last -- Lua 5.1: the proxies by number; each has its function as __gc

local function run_all()
  local numbers = keys_of(given)
  for i = #numbers, 1, -1 do getmetatable(given[numbers[i]]).__gc() end
end

local function replace_exit()
  local exit = os.exit
  given, last = setmetatable({}, { __mode = "v" }), 0
  os.exit = function(code, close) -- luacheck: ignore 122
    if close then run_all() end
    if type(code) == "boolean" then code = code and 0 or 1 end -- the same argument as on the other Luas
    return exit(code)
  end
end

local function proxy_of(newproxy, fn)
  local proxy = newproxy(true)
  getmetatable(proxy).__gc = function()
    -- The collector stays stopped until this returns. Other Luas never collect within a finalizer. Lua 5.1 does when memory has
    -- doubled; while the state is being closed, that would free finalized objects that are still in use.
    collectgarbage "stop"
    pcall(fn)
  end
  if rawget(_G, "jit") then return proxy end -- LuaJIT's os.exit closes the state
  if not given then replace_exit() end
  last = last + 1
  given[last] = proxy
  return proxy
end

-- @func fn called without arguments; its errors are ignored. It may be called twice
-- @return an object to keep as long as fn is needed
return function(fn)
  local newproxy = rawget(_G, "newproxy")
  if newproxy and _VERSION == "Lua 5.1" then return proxy_of(newproxy, fn) end -- tables have no __gc there
  return setmetatable({}, { __gc = function() pcall(fn) end })
end
