-- Argument errors, with the position of the line that called this library.
--
-- An event's name passes through several functions of this library before it is parsed, and their number varies. So the position
-- is not a fixed level: it is that of the first function on the stack that is not part of this library.
local pairs_of = require "perf.base.pairs"

local argument = {}

-- The directory above the library's own files, which are in perf/, resty/perf.lua and resty/perf/.
local root = (debug.getinfo(1, "S").source or ""):match("^(@.*)perf/base/argument%.lua$")

local function is_ours(source)
  return source:sub(1, #root) == root and (source:find("^perf/", #root + 1) or source:find("^resty/perf[./]", #root + 1))
end

-- {[function] = name}: functions that a public function calls in tail position, with the name of the public one.
argument.public_names = setmetatable({}, {__mode = "k"})

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
  local name = key_of(perf, info.func) or key_of(loaded "resty.perf", info.func) or argument.public_names[info.func]
  for _, module in pairs_of(perf) do
    name = name or type(module) == "table" and key_of(module, info.func)
  end
  return name or info.name ~= "?" and info.name or nil
end

-- The position at which the library was called, "FILE:LINE: " or ""; the name of the called function; and whether it is a method.
local function call_site()
  local level, where, name, method = 3, "", nil, false
  while root do
    local info = debug.getinfo(level, "Slnf")
    if not info then break end
    if is_ours(info.source) then
      name, method = name_of(info), info.namewhat == "method"
    elseif info.what ~= "C" and info.currentline > 0 then
      where = ("%s:%d: "):format(info.short_src, info.currentline)
      break
    end
    level = level + 1
  end
  return where, name, method
end

-- Raise an error about an argument of the public function that was called.
-- @string message the mistake, with the offending name
-- @int[opt=1] arg the argument's number; 0 for an operand, whose operator is the name, or for a message that is about no argument
-- @string[opt] name the function's name, if it may be called without one (`pcall(tally.take, tally, 1)`)
-- @raise "FILE:LINE: bad argument #ARG to 'FUNCTION' (MESSAGE)"
function argument.raise(message, arg, name)
  local where, called = call_site()
  local number = arg == 0 and "" or " #" .. (arg or 1)
  if number ~= "" or name then
    name = name or called
    message = ("bad argument%s%s (%s)"):format(number, name and " to '" .. name .. "'" or "", message)
  end
  error(where .. message, 0)
end

-- Raise an error if a function of perf was called with a colon, and so got perf as its first argument.
function argument.check_dot(first)
  if first == nil or first ~= package.loaded.perf then return end
  local where, called = call_site()
  error(("%scall perf.%s with '.', not ':'"):format(where, called or "NAME"), 0)
end

-- `raise` for a method. Like Lua, do not count the object in a call with a colon.
-- @string name the method's name; nil for the method that was called
-- @int arg the argument's number; the object's is 1
function argument.raise_in_method(name, message, arg)
  local where, called, colon = call_site()
  name = name or called
  if colon then arg = arg - 1 end
  if name then
    message = (arg == 0 and "calling '%s' on bad self (%s)" or "bad argument #" .. arg .. " to '%s' (%s)"):format(name, message)
  end
  error(where .. message, 0)
end

-- Check the type of an argument.
-- @int[opt=1] arg, name as for `raise`
-- @return v
function argument.check_type(v, kind, arg, name)
  if type(v) ~= kind then argument.raise(("%s expected, got %s"):format(kind, type(v)), arg, name) end
  return v
end

-- Check the seconds that the first argument gives a function to wait: a number, or nil.
function argument.check_timeout(v)
  if v == nil or type(v) == "number" and v == v then return end
  argument.raise(("number of seconds expected, got %s"):format(type(v) == "number" and v or type(v)), 1)
end

-- The argument's number and the message of an error that `raise` or the C API's luaL_argerror made; or nil.
local function parts(err) return tostring(err):match "bad argument #(%d+)[^(]*%((.*)%)$" end

-- The message of an error, without the position and the argument.
function argument.why(err) return select(2, parts(err)) or tostring(err) end

-- Check that the object of a method call is of its class.
-- @tab class its metatable
-- @string what the name of the class
-- @string name the method's name
-- @return v
function argument.check_object(v, class, what, name)
  if getmetatable(v) == class then return v end
  argument.raise_in_method(name, ("%s expected, got %s"):format(what, type(v)), 1)
end

local function all(...) return ... end

-- Make methods of a class check their object. Then messages have the method's name, even if it is called in tail position or ends
-- in a tail call. Use it for rarely called methods: it costs two calls.
-- @tab methods
-- @string what the name of the class
-- @string names the methods' names
-- @tab[opt=methods] class its metatable
function argument.check_methods(methods, what, names, class)
  for name in names:gmatch "%S+" do
    local method = methods[name]
    local function checked(self, ...) return all(method(argument.check_object(self, class or methods, what, name), ...)) end
    methods[name], argument.public_names[checked] = checked, name
  end
end

-- Raise an error again, unchanged. Callers pass all of their `...`: in code that LuaJIT compiles on arm64, until the middle of
-- 2022, `(...)` and `local err = ...` may be another value of the list.
function argument.rethrow(err) error(err, 0) end

-- Check that a value can be a path.
-- @string name the name of the function or method
-- @int arg the argument's number; a method's object is 1
-- @return path
function argument.check_path(path, name, arg)
  if type(path) ~= "string" then argument.raise_in_method(name, "string expected, got " .. type(path), arg) end
  if path:find("\0", 1, true) then argument.raise_in_method(name, "a path has no zero bytes", arg) end
  return path
end

local function raise_again(n, what, err)
  local arg, why = parts(err)
  if not arg then error(err, 0) end -- not an argument error: memory ran out
  if n then argument.raise(what .. why, n) end
  argument.raise_in_method(what, why, tonumber(arg))
end

local function result_of(n, what, ok, ...)
  if not ok then raise_again(n, what, ...) end
  return ...
end

-- Call a function, and raise its argument errors as errors of argument n of the public function that was called.
-- @string what a prefix of the message: "option 'events': ", or ""
-- @param ... its arguments
-- @return its results
function argument.call_as_argument(n, what, f, ...)
  return result_of(n, what, pcall(f, ...))
end

-- Call a method of the core from a public method, and raise its argument errors as errors of the public one.
-- @string name the public method's name
-- @param ... its arguments, the object first
-- @return its results
function argument.call_as_method(name, f, ...)
  return result_of(nil, name, pcall(f, ...))
end

-- Whether a value is a function, or has __call.
function argument.is_callable(v)
  if type(v) == "function" then return true end
  local mt = getmetatable(v)
  return type(mt) == "table" and mt.__call ~= nil
end

-- Check that an argument can be called.
-- @int[opt=1] arg, name as for `raise`
function argument.check_callable(v, arg, name)
  if not argument.is_callable(v) then argument.raise("function expected, got " .. type(v), arg, name) end
end

-- `raise` with a format string.
-- @string format as string.format's
-- @param ... its arguments
function argument.raisef(format, ...)
  return argument.raise(format:format(...))
end

return argument
