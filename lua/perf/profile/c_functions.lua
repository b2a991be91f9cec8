-- Names of the C functions in a profile, by the addresses of their code.
--
-- Lua's own functions are named by their library, and the iterators that they return by the function ("string.gmatch iterator").
-- Other functions are named by their place in `package.loaded` or in the metatable of a userdata. The rest have no name here: the
-- caller uses the symbols of their code.
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"

local M = {}
local Functions = {}
Functions.__index = Functions

local standard = {}
for name in ("_G string table math io os debug coroutine package bit bit32 utf8 jit jit.opt jit.util ffi"):gmatch "%S+" do
  standard[name] = true
end

-- If a function has several names, a name of Lua's own libraries is preferred, then the first one in alphabetical order.
local function add(found, own, name, fn)
  for _, address in ipairs { core.object_address(fn) } do
    local known = found[address]
    if not known or (own and not known.own) or (own == known.own and name < known.name) then
      found[address] = { name = name, own = own }
    end
  end
end

-- Call fn(key, value) for the names in a table, and pause() after each call. The table may change in a pause.
local function each(t, pause, fn)
  local keys, values = {}, {}
  for key, value in pairs_of(t) do
    if type(key) == "string" then keys[#keys + 1], values[#keys + 1] = key, value end
  end
  for i, key in ipairs(keys) do
    fn(key, values[i])
    if pause then pause() end
  end
end

local function add_table(found, own, prefix, t, pause)
  each(t, pause, function(key, value)
    if type(value) == "function" then add(found, own, prefix .. key, value) end
  end)
end

-- Iterators that library functions return: they are in no table.
local makers = {
  { "string.gmatch iterator", function() return string.gmatch("", "") end },
  { "ipairs iterator", function() return (ipairs {}) end },
  { "io.lines iterator", function() return io.stdout:lines() end },
  { "utf8.codes iterator", function() return (require "utf8".codes "") end },
  { "coroutine.wrap function", function() return coroutine.wrap(function() end) end },
}

-- Lua's own functions, and those of loaded modules.
local function of_modules(pause)
  local found = {}
  each(package.loaded, pause, function(module, t)
    local own = standard[module] or false
    if type(t) == "table" then add_table(found, own, module == "_G" and "" or module .. ".", t, pause) end
    if type(t) == "function" then add(found, own, module, t) end
  end)
  local file = debug.getmetatable(io.stdout)
  if file then
    add_table(found, true, "file.", file)
    if type(file.__index) == "table" then add_table(found, true, "file.", file.__index) end
  end
  local ffi = rawget(_G, "jit") and package.loaded.ffi -- LuaJIT's own: a module for PUC Lua has this name too
  if ffi then
    add_table(found, true, "cdata.", debug.getmetatable(ffi.new "int")) -- every call of a C function is its __call
    add_table(found, true, "ffi.C.", debug.getmetatable(ffi.C))
  end
  for _, maker in ipairs(makers) do
    local ok, fn = pcall(maker[2])
    if ok and type(fn) == "function" then add(found, true, maker[1], fn) end
  end
  for i, searcher in ipairs(rawget(package, "searchers") or rawget(package, "loaders") or {}) do
    if type(searcher) == "function" then add(found, true, ("package.searchers[%d]"):format(i), searcher) end
  end
  return found
end

-- Functions in tables of modules, and in the metatables that C libraries have registered.
local function of_tables(pause)
  local found = {}
  each(package.loaded, pause, function(module, t)
    each(type(t) == "table" and t or {}, nil, function(key, value)
      if type(value) == "table" then
        add_table(found, false, (module == "_G" and "" or module .. ".") .. key .. ".", value, pause)
      end
    end)
  end)
  each(debug.getregistry(), pause, function(class, t)
    if type(t) ~= "table" then return end
    local index = rawget(t, "__index")
    add_table(found, false, class .. ".", t)
    if type(index) == "table" then add_table(found, false, class .. ".", index) end
  end)
  return found
end

-- The current names of this Lua state's C functions.
-- @func[opt] pause called now and then
function M.new(pause) return setmetatable({ pause = pause }, Functions) end

-- The name of a C function by an address from core.object_address.
-- @return the name or nil; whether it belongs to Lua's own libraries
function Functions:find(address)
  self.modules = self.modules or of_modules(self.pause)
  local known = self.modules[address]
  if not known then
    self.tables = self.tables or of_tables(self.pause)
    known = self.tables[address]
  end
  if known then return known.name, known.own end
end

return M
