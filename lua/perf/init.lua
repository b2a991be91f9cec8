--- lua-perf: Linux perf_event_open for Lua.
--
--     local perf = require "perf"
--     print((perf.measure(function() return ("x"):rep(1e6):find "y" end)))
--
-- Errors: a programmer's mistake raises an error; a refusal of the machine returns nil, message, code, where code is the errno's
-- symbol. `perf.measure`, whose results are the function's, raises instead. `perf._VERSION` is the version, such as "0.1.0".
-- @module perf
-- Only what measuring needs is loaded at once. The other names of perf.api are stubs: each loads its module when it is first
-- used, and is replaced by the function that it stands for.
local api = require "perf.api"
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"
local reclaim = require "perf.base.reclaim"
require "perf.base.core"
require "perf.event.group"
require "perf.measure"
require "perf.event"

local perf = { _VERSION = require "perf.version" }

local function load(module)
  local loaded = package.loaded[module]
  if type(loaded) == "table" then return loaded end
  reclaim.make_room() -- `require` needs a descriptor; without one it would report that the module does not exist
  return require(module)
end

-- perf.NAME is a function of a module that is loaded at the first call.
local function add_function(module, name)
  local function stub(...)
    local fn = load(module)[name]
    if rawget(perf, name) == stub then perf[name] = fn end
    return fn(...)
  end
  perf[name] = stub
end

-- perf.NAME is a module that is loaded when it is first used. A program may keep the stub, keep its functions, or replace them
-- (with functions that call the kept ones). So after the module is loaded, the stub has no fields: reading and assigning its
-- fields goes to the module. A kept function is the module's original one.
local function add_module(module, name, functions)
  local stub, meta, kept, first = {}, {}, {}, nil
  local function use()
    if first then return meta.__index end
    local found, functions_of = load(module), {}
    for key in pairs_of(kept) do functions_of[key] = found[key] end
    first, meta.__index, meta.__newindex = functions_of, found, found
    if rawget(perf, name) == stub then perf[name] = found end
    for key, fn in pairs_of(kept) do
      local own = rawget(stub, key)
      rawset(stub, key, nil)
      if own ~= fn then found[key] = own end
    end
    return found
  end
  function meta.__index(_, key) return use()[key] end
  function meta.__newindex(_, key, value) use()[key] = value end
  for _, row in ipairs(functions) do
    local key = row[1]
    kept[key] = function(...)
      use()
      return first[key](...)
    end
    stub[key] = kept[key]
  end
  perf[name] = setmetatable(stub, meta)
end

for _, group in ipairs(api) do
  local module = "perf." .. group.module
  local loaded = package.loaded[module]
  if type(loaded) ~= "table" then loaded = nil end
  if group.name then
    if loaded then perf[group.name] = loaded else add_module(module, group.name, group) end
  else
    for _, row in ipairs(group) do
      local name = row[1]
      if loaded then perf[name] = loaded[name] else add_function(module, name) end
    end
  end
end

return setmetatable(perf, {
  -- A misspelt name raises an error. A name that begins with an underscore does not: tools look for protocols by such names.
  __index = function(_, name)
    if type(name) ~= "string" or name:find "^_" then return nil end
    argument.raise(("perf has no '%s'%s"):format(name, require "perf.base.suggest".hint(name, require "perf.base.keys"(perf))), 0)
  end,
  __tostring = function() return "lua-perf " .. perf._VERSION end,
})
