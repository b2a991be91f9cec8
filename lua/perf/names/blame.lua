--- Raising a programmer's mistake where the programmer made it.
--
-- An event's name travels through several functions of this library before it is parsed, and how many depends on the
-- caller.  So the position is not a level counted by hand: it is the first line on the stack that is not ours.
--
-- @module perf.names.blame

local blame = {}

-- Where the library's own files lie: lua/perf/.
local home = (debug.getinfo(1, "S").source or ""):match("^(@.*)names/blame%.lua$")

--- Functions that run in place of a public one, which called them in tail position: its name by them.
blame.stands_for = setmetatable({}, {__mode = "k"})

-- The name of a function of ours: as it was called, or, where a tail call (a REPL's `return perf.open "x"`) left no trace
-- of that, as perf has it.
local function name_of(info)
  local name = info.name or blame.stands_for[info.func]
  for key, value in pairs(not name and package.loaded.perf or {}) do
    if value == info.func then return key end
  end
  return name
end

--- Raise `message` as a mistake in an argument of the public function that was called.
-- @string message what is wrong, with the offending name
-- @int[opt=1] arg which argument; 0 for a message that is about no argument
-- @raise "FILE:LINE: bad argument #ARG to 'FUNCTION' (MESSAGE)"
function blame.raise(message, arg)
  local level, name, where = 2, nil, ""
  arg = arg or 1
  while home do
    local info = debug.getinfo(level, "Slnf")
    if not info then break end
    if info.what ~= "C" and info.source:sub(1, #home) ~= home and info.currentline > 0 then
      where = ("%s:%d: "):format(info.short_src, info.currentline)
      break
    elseif info.source:sub(1, #home) == home then
      name = name_of(info)
    end
    level = level + 1
  end
  if arg > 0 then
    message = ("bad argument #%d%s (%s)"):format(arg, name and " to '" .. name .. "'" or "", message)
  end
  error(where .. message, 0)
end

--- Whether a value can be called: a function, or what has __call.
function blame.callable(v)
  if type(v) == "function" then return true end
  local mt = getmetatable(v)
  return type(mt) == "table" and mt.__call ~= nil
end

--- `raise` with a format string.
-- @string format as string.format's
-- @param ... its arguments
function blame.raisef(format, ...)
  return blame.raise(format:format(...))
end

return blame
