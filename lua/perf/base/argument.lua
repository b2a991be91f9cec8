-- Raising a programmer's mistake where the programmer made it.
--
-- An event's name travels through several functions of this library before it is parsed, and how many depends on the
-- caller.  So the position is not a level counted by hand: it is the first line on the stack that is not ours.
local pairs_of = require "perf.base.pairs"

local blame = {}

-- The directory above the library's own files, which are in perf/, resty/perf.lua and resty/perf/.
local root = (debug.getinfo(1, "S").source or ""):match("^(@.*)perf/base/argument%.lua$")

local function is_ours(source)
  return source:sub(1, #root) == root and (source:find("^perf/", #root + 1) or source:find("^resty/perf[./]", #root + 1))
end

-- Functions that run in place of a public one, which called them in tail position: its name by them.
blame.stands_for = setmetatable({}, {__mode = "k"})

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

-- The name of a function of ours: as perf, one of its modules or resty.perf has it, since a tail call (a REPL's
-- `return perf.open "x"`, or the first call of a stub) leaves no trace of how it was called, or on LuaJIT the caller's; or as it
-- was called.
local function name_of(info)
  local perf = loaded "perf"
  local name = key_of(perf, info.func) or key_of(loaded "resty.perf", info.func) or blame.stands_for[info.func]
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

-- Raise `message` as a mistake in an argument of the public function that was called.
-- @string message what is wrong, with the offending name
-- @int[opt=1] arg which argument; 0 for a message that is about no argument
-- @string[opt] name the function's, where it may be called without one (`pcall(tally.take, tally, 1)`)
-- @raise "FILE:LINE: bad argument #ARG to 'FUNCTION' (MESSAGE)"
function blame.raise(message, arg, name)
  local where, called = call_site()
  name = name or called
  arg = arg or 1
  if arg > 0 then
    message = ("bad argument #%d%s (%s)"):format(arg, name and " to '" .. name .. "'" or "", message)
  end
  error(where .. message, 0)
end

-- The same for a method: as Lua does, its object is not counted where it stands before the colon.
-- @string name the method's; nil for whichever was called
-- @int arg which argument, the object being 1
function blame.method(name, message, arg)
  local where, called, colon = call_site()
  name = name or called
  if colon then arg = arg - 1 end
  if name then
    message = (arg == 0 and "calling '%s' on bad self (%s)" or "bad argument #" .. arg .. " to '%s' (%s)"):format(name, message)
  end
  error(where .. message, 0)
end

-- The parts of an error that `raise` or the C API's luaL_argerror made: which argument, and what is wrong with it; or nil.
local function parts(err) return tostring(err):match "bad argument #(%d+)[^(]*%((.*)%)$" end

-- The message of an error, without position and argument.
function blame.words(err) return select(2, parts(err)) or tostring(err) end

-- Check that the object of a method call is of its class.
-- @tab class its metatable
-- @string what what to call one
-- @string name the method's
-- @return v
function blame.object(v, class, what, name)
  if getmetatable(v) == class then return v end
  blame.method(name, ("%s expected, got %s"):format(what, type(v)), 1)
end

-- Raise an error again as it was. Callers hand all of their `...` over: in compiled code of LuaJIT on arm64, until the middle
-- of 2022, `(...)` and `local err = ...` may be another one of them.
function blame.again(err) error(err, 0) end

-- Check that a value can be a path.
-- @string name the function's or method's that it was given to
-- @int arg which argument, a method's object being 1
-- @return path
function blame.path(path, name, arg)
  if type(path) ~= "string" then blame.method(name, "string expected, got " .. type(path), arg) end
  if path:find("\0", 1, true) then blame.method(name, "a path has no zero bytes", arg) end
  return path
end

local function reword(n, what, err)
  local arg, why = parts(err)
  if not arg then error(err, 0) end -- no mistake: memory ran out
  if n then blame.raise(what .. why, n) end
  blame.method(what, why, tonumber(arg))
end

local function hand_on(n, what, ok, ...)
  if not ok then reword(n, what, ...) end
  return ...
end

-- Call a function whose mistakes are those of argument n of the public one that was called.
-- @string what of the argument, "option 'events': ", or ""
-- @param ... its arguments
-- @return what it returns
function blame.on(n, what, f, ...)
  return hand_on(n, what, pcall(f, ...))
end

-- Call a method of the core for the one that stands before it: its mistakes are the caller's.
-- @string name the method's
-- @param ... its arguments, the object first
-- @return what it returns
function blame.call(name, f, ...)
  return hand_on(nil, name, pcall(f, ...))
end

-- Whether a value can be called: a function, or what has __call.
function blame.callable(v)
  if type(v) == "function" then return true end
  local mt = getmetatable(v)
  return type(mt) == "table" and mt.__call ~= nil
end

-- `raise` with a format string.
-- @string format as string.format's
-- @param ... its arguments
function blame.raisef(format, ...)
  return blame.raise(format:format(...))
end

return blame
