-- Argument errors, with the position of the line that called this library.
--
-- An event's name passes through several functions of this library before it is parsed, and their number varies. So the position
-- is not a fixed level: it is that of the first function on the stack that is not part of this library.
local errors = require "perf.base.errors"
local brief = require "perf.base.brief"
local pairs_of = require "perf.base.pairs"

local M = {}

-- A program may have removed the debug library, or getinfo alone: then errors have no position.
local getinfo = package.loaded.debug and package.loaded.debug.getinfo

-- The directory above the library's own files, which are in perf/, resty/perf.lua and resty/perf/.
local root = getinfo and (getinfo(1, "S").source or ""):match "^(@.*)perf/base/mistake%.lua$"

local function is_ours(source)
  return source:sub(1, #root) == root and (source:find("^perf/", #root + 1) or source:find("^resty/perf[./]", #root + 1))
end

-- Whether the function at a level of the stack is Lua code that is not part of this library. The level is as for debug.getinfo
-- in the caller.
function M.is_outside(level)
  if not getinfo then return true end
  local info = getinfo(level + 1, "S")
  return info ~= nil and info.what ~= "C" and not (root and is_ours(info.source))
end

-- The table of a module, or an empty one: a failed `require` may leave another value in package.loaded.
local function loaded(module)
  local found = package.loaded[module]
  return type(found) == "table" and found or {}
end

local function key_of(t, fn)
  for key, value in pairs_of(t) do
    if value == fn then return key end
  end
end

-- The name of a function of this library. It is looked up in perf, its modules and resty.perf, since after a tail call (a REPL's
-- `return perf.open "x"`, or the first call of a stub) the stack has no name, or on LuaJIT the caller's. Other functions have the
-- name by which they were called.
local function name_of(info)
  local perf = loaded "perf"
  local name = key_of(perf, info.func) or key_of(loaded "resty.perf", info.func) or errors.public_names[info.func]
  for _, module in pairs_of(perf) do
    name = name or type(module) == "table" and key_of(module, info.func)
  end
  return name or info.name ~= "?" and info.name or nil
end

-- The position at which the library was called, "FILE:LINE: " or ""; the name of the called function; whether it is a method;
-- and the function.
local function call_site()
  local level, where, name, method, func = 3, "", nil, false, nil
  while root do
    local info = getinfo(level, "Slnf")
    if not info then break end
    if is_ours(info.source) then
      name, method, func = name_of(info), info.namewhat == "method", info.func
    elseif info.what ~= "C" and info.currentline > 0 then
      where = ("%s:%d: "):format(info.short_src, info.currentline)
      break
    end
    level = level + 1
  end
  return where, name, method, func
end

local kinds = { table = true, ["function"] = true, userdata = true, thread = true, cdata = true }

-- A message without the addresses ("table: 0x55d23b3eb270"), zero bytes and very long texts of the values that it shows.
local function plain(message)
  message = brief(message):gsub("%f[%a](%a+): 0x%x+", function(kind) return kinds[kind] and kind end)
  message = message:gsub("file %(0x%x+%)", "file")
  return (message:gsub("%z", "\\0"))
end

-- Raise an error about an argument of the public function that was called.
-- @string message the mistake, with the offending name
-- @int[opt=1] arg the argument's number; 0 for an operand, whose operator is the name, or for a message that is about no argument
-- @string[opt] name the function's name, if it may be called without one (`pcall(tally.take, tally, 1)`)
-- @raise "FILE:LINE: bad argument #ARG to 'FUNCTION' (MESSAGE)"
function M.raise(message, arg, name)
  local where, called = call_site()
  local number = arg == 0 and "" or " #" .. (arg or 1)
  if number ~= "" or name then
    name = name or called
    message = ("bad argument%s%s (%s)"):format(number, name and " to '" .. name .. "'" or "", message)
  end
  error(where .. plain(message), 0)
end

-- Raise the error that a function of perf was called with a colon.
function M.raise_colon()
  local where, called, _, func = call_site()
  for name, module in pairs_of(loaded "perf") do
    if type(module) == "table" and key_of(module, func) then called = name .. "." .. called end
  end
  error(("%scall perf.%s with '.', not ':'"):format(where, called or "NAME"), 0)
end

-- `raise` for a method. Like Lua, do not count the object in a call with a colon.
-- @string name the method's name; nil for the method that was called
-- @int arg the argument's number; the object's is 1
function M.raise_in_method(name, message, arg)
  local where, called, colon = call_site()
  name = name or called
  if colon then arg = arg - 1 end
  if name then
    message = (arg == 0 and "calling '%s' on bad self (%s)" or "bad argument #" .. arg .. " to '%s' (%s)"):format(name, message)
  end
  error(where .. plain(message), 0)
end

-- The argument's number and the message of an error that `raise` or the C API's luaL_argerror made; or nil.
local function parts(err) return tostring(err):match "bad argument #(%d+)[^(]*%((.*)%)$" end

-- The message of an error, without the position and the argument.
function M.why(err) return select(2, parts(err)) or tostring(err) end

-- Raise an argument error again, as an error of the public function that was called. Raise another error unchanged.
-- @string[opt] method the public method's name
-- @int[opt] n the argument's number; by default the number in the error
-- @string what a prefix of the message
function M.raise_again(method, n, what, err)
  local arg, why = parts(err)
  if not arg then error(err, 0) end -- not an argument error: memory ran out
  if method then M.raise_in_method(method, why, n or tonumber(arg)) end
  M.raise(what .. why, n)
end

-- `raise` with a format string.
-- @string format as string.format's
-- @param ... its arguments
function M.raisef(format, ...)
  return M.raise(format:format(...))
end

return M
