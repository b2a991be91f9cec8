-- Checks of arguments. The functions of perf.base.errors are fields of this module too.
local errors = require "perf.base.errors"

local argument = setmetatable({}, { __index = errors })

-- In PUC Lua getmetatable makes this string in each call unless something holds it, and a measurement of memory would count it.
argument.held = "__metatable"

-- Whether a value is the module perf itself: `perf:open("cycles")` passes it as the first argument.
function argument.is_perf(v) return v ~= nil and v == package.loaded.perf end

-- The type of a value, for messages.
function argument.kind(v) return argument.is_perf(v) and "the module perf" or type(v) end

-- Raise an error if a function of perf was called with a colon, and so got perf as its first argument.
function argument.check_dot(first)
  if argument.is_perf(first) then argument.raise_colon() end
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

local function result_of(method, n, what, ok, ...)
  if not ok then argument.raise_again(method, n, what, ...) end
  return ...
end

-- Call a function, and raise its argument errors as errors of argument n of the public function that was called.
-- @string what a prefix of the message: "option 'events': ", or ""
-- @param ... its arguments
-- @return its results
function argument.call_as_argument(n, what, f, ...)
  return result_of(nil, n, what, pcall(f, ...))
end

-- Call a method of the core from a public method, and raise its argument errors as errors of the public one.
-- @string name the public method's name
-- @param ... its arguments, the object first
-- @return its results
function argument.call_as_method(name, f, ...)
  return result_of(name, nil, "", pcall(f, ...))
end

-- `call_as_argument` for a method; the object is its argument 1.
function argument.call_as_argument_of_method(name, n, f, ...)
  return result_of(name, n, "", pcall(f, ...))
end

-- Check that an argument can be called.
-- @int[opt=1] arg, name as for `raise`
function argument.check_callable(v, arg, name)
  if not argument.is_callable(v) then argument.raise("function expected, got " .. type(v), arg, name) end
end

return argument
