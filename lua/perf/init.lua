--- lua-perf: Linux perf_event_open for Lua.
--
--     local perf = require "perf"
--     print((perf.measure(function() return ("x"):rep(1e6):find "y" end)))
--
-- Errors: a programmer's mistake raises an error; a refusal of the machine returns nil, message, code, where code is the errno's
-- symbol. `perf.measure`, whose results are the function's, raises instead. `perf._VERSION` is the version, such as "0.1.0".
-- @module perf
-- Only what measuring needs is loaded at once. The other names are stubs, which load their module when they are first used.
local names = require "perf.api.names"
local argument = require "perf.base.argument"
local late = require "perf.base.late"
local reclaim = require "perf.base.reclaim"
require "perf.base.core"
require "perf.measure"

local perf = { _VERSION = require "perf.version" }

local is_stub = {} -- the functions that are stubs

-- Functions that return what the machine refuses: also if it has no descriptor left to load them.
local OPENING = { open = true, group = true, set = true }

local function first_use(module, name)
  if OPENING[name] and type(package.loaded[module]) ~= "table" then
    local message, code = reclaim.make_room()
    if code then return nil, "perf_event_open: " .. message:gsub("^.*: ", ""), code end
  end
  local fn = late(module)[name]
  if is_stub[rawget(perf, name)] then perf[name] = fn end
  return fn
end

local modules = {} -- the modules perf.NAME, and the tables that stand for them -> their rows of the names

-- "perf.data: open, create", for a REPL.
local function print_module(module)
  local row = modules[module]
  return ("perf.%s: %s"):format(row[3], (row[2]:gsub(" ", ", ")))
end

local printed = { __tostring = print_module }

local function add_module(module, row)
  modules[module], perf[row[3]] = row, module
  return getmetatable(module) and module or setmetatable(module, printed)
end

-- The module that a stub stands for, which replaces it in perf. A program may have kept the stub: its fields are those of the
-- module.
local function module_of(stub)
  local row = modules[stub]
  local module = late("perf." .. row[1])
  return rawget(perf, row[3]) == stub and add_module(module, row) or module
end

local stub = { __tostring = print_module,
  __index = function(t, key) return module_of(t)[key] end,
  __newindex = function(t, key, value) module_of(t)[key] = value end }

for _, row in ipairs(names) do
  local module = "perf." .. row[1]
  local loaded = package.loaded[module]
  if type(loaded) ~= "table" then loaded = nil end
  if row[3] then
    add_module(loaded or setmetatable({}, stub), row)
  else
    for name in row[2]:gmatch "%S+" do
      local fn = loaded and loaded[name]
      if not fn then
        function fn(...)
          local first, message, code = first_use(module, name)
          if not first then return nil, message, code end
          return first(...)
        end
        is_stub[fn] = true
      end
      perf[name] = fn
    end
  end
end

package.loaded["perf.api.names"] = nil -- only perf.exporter needs it again

-- "; did you mean 'measure'?", or "".
local function nearest(name) return late "perf.base.suggest".hint(name, late "perf.base.keys"(perf)) end

return setmetatable(perf, {
  -- A misspelt name in a program raises an error. A name that begins with an underscore does not: tools look for protocols by
  -- such names. This library gets nil too: it looks for fields in its arguments, and a program may pass perf by mistake.
  __index = function(_, name)
    if type(name) ~= "string" or name:find "^_" or not argument.is_outside(2) then return nil end
    local ok, hint = pcall(nearest, name) -- the modules that find it cannot be loaded without a free descriptor
    argument.raise(("perf has no '%s'%s"):format(name, ok and hint or ""), 0)
  end,
  __tostring = function() return "lua-perf " .. perf._VERSION end,
})
