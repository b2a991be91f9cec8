--- lua-perf: Linux perf_event_open for Lua.
--
--     local perf = require "perf"
--     print((perf.measure(function() return ("x"):rep(1e6):find "y" end)))
--
-- Errors: a programmer's mistake raises an error; a refusal of the machine returns nil, message, code, where code is the errno's
-- symbol. `perf.measure`, whose results are the function's, raises instead. `perf._VERSION` is the version, such as "0.1.0".
-- @module perf
-- Only what measuring needs is loaded at once. The other names are stubs: each loads its module when it is first used, and is
-- replaced by the function that it stands for.
local names = require "perf.api.names"
local errors = require "perf.base.errors"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local reclaim = require "perf.base.reclaim"
require "perf.base.core"
require "perf.measure"

local perf = { _VERSION = require "perf.version" }

local homes, stubs = {}, {} -- the name of a function -> its module, its stub

-- Functions that return what the machine refuses: also if it has no descriptor left to load them.
local OPENING = { open = true, group = true, set = true }

local function first_use(name)
  if OPENING[name] and type(package.loaded[homes[name]]) ~= "table" then
    local message, code = reclaim.make_room()
    if code then return nil, "perf_event_open: " .. message:gsub("^.*: ", ""), code end
  end
  local fn = late(homes[name])[name]
  if rawget(perf, name) == stubs[name] then perf[name] = fn end
  return fn
end

-- perf.NAME is a function of a module that is loaded at the first call.
local function add_function(module, name)
  local function stub(...)
    local fn, message, code = first_use(name)
    if not fn then return nil, message, code end
    return fn(...)
  end
  homes[name], stubs[name], perf[name] = module, stub, stub
end

-- The text that a REPL prints for a module: "perf.data: open, create".
local function text_of(name, functions) return ("perf.%s: %s"):format(name, (functions:gsub(" ", ", "))) end

local function print_module(module) return getmetatable(module).text end

local function printed(module, text)
  return getmetatable(module) and module or setmetatable(module, { text = text, __tostring = print_module })
end

-- perf.NAME is a module that is loaded when it is first used. A program may keep the stub, keep its functions, or replace them
-- (with functions that call the kept ones). So after the module is loaded, the stub has no fields: reading and assigning its
-- fields goes to the module. A kept function is the module's original one.
-- @param meta the stub's metatable: {stub=, module=, name=, text=, kept={functions of the stub}, first={functions of the module}}
-- @return the module
local function use(meta)
  if meta.first then return meta.__index end
  local found, first, stub = printed(late(meta.module), meta.text), {}, meta.stub
  for key in pairs_of(meta.kept) do first[key] = found[key] end
  meta.first, meta.__index, meta.__newindex = first, found, found
  if rawget(perf, meta.name) == stub then perf[meta.name] = found end
  for key, fn in pairs_of(meta.kept) do
    local own = rawget(stub, key)
    rawset(stub, key, nil)
    if own ~= fn then found[key] = own end
  end
  return found
end

local function index(stub, key) return use(getmetatable(stub))[key] end
local function assign(stub, key, value) use(getmetatable(stub))[key] = value end

local function add_module(module, name, functions)
  local stub, kept = {}, {}
  local meta = { stub = stub, module = module, name = name, text = text_of(name, functions), kept = kept,
    __index = index, __newindex = assign, __tostring = print_module }
  for key in functions:gmatch "%S+" do
    kept[key] = function(...)
      use(meta)
      return meta.first[key](...)
    end
    stub[key] = kept[key]
  end
  perf[name] = setmetatable(stub, meta)
end

for _, row in ipairs(names) do
  local module, functions, name = "perf." .. row[1], row[2], row[3]
  local loaded = package.loaded[module]
  if type(loaded) ~= "table" then loaded = nil end
  if not name then
    for key in functions:gmatch "%S+" do
      if loaded then perf[key] = loaded[key] else add_function(module, key) end
    end
  elseif loaded then
    perf[name] = printed(loaded, text_of(name, functions))
  else
    add_module(module, name, functions)
  end
end

package.loaded["perf.api.names"] = nil -- only perf.exporter needs it again

-- "; did you mean 'measure'?", or "".
local function nearest(name) return late "perf.base.suggest".hint(name, late "perf.base.keys"(perf)) end

return setmetatable(perf, {
  -- A misspelt name in a program raises an error. A name that begins with an underscore does not: tools look for protocols by
  -- such names. This library gets nil too: it looks for fields in its arguments, and a program may pass perf by mistake.
  __index = function(_, name)
    if type(name) ~= "string" or name:find "^_" or not errors.is_outside(2) then return nil end
    errors.raise(("perf has no '%s'%s"):format(name, nearest(name)), 0)
  end,
  __tostring = function() return "lua-perf " .. perf._VERSION end,
})
