--- Runs a function as an ordinary user, in a child: `nobody(level, fn, ...)`.
local kit = require "testkit"
local sysctl = require "spec.support.sysctl"
local util = require "spec.support.util"

local NOBODY = 65534

local chunks

-- Only root may be able to read this tree, after a clone with the umask 077. So all modules are read before.
local function read_modules()
  if chunks then return end
  chunks = {}
  for path in util.shell "find ./lua -name '*.lua'":gmatch "[^\n]+" do
    chunks[path:match "^%./lua/(.*)%.lua$":gsub("/init$", ""):gsub("/", ".")] = loadfile(path) -- nil for those of LuaJIT alone
  end
end

local function as_user(user, level, fn, ...)
  read_modules()
  return sysctl("perf_event_paranoid", level, util.in_child, function(...)
    for name, chunk in pairs(chunks) do package.preload[name] = chunk end
    assert(kit.drop(user))
    return fn(...)
  end, ...)
end

local nobody = {}

--- Runs fn(...) in the same way, but as a user that has no other process. The memory for rings is limited for each user, so the
-- rings of other processes of user nobody would leave less of it.
function nobody.alone(level, fn, ...) return as_user(40000 + kit.getpid() % 20000, level, fn, ...) end

--- Runs fn(...) in a child as user nobody, at a level of kernel.perf_event_paranoid. Returns its first result as a string.
return setmetatable(nobody, { __call = function(_, level, fn, ...) return as_user(NOBODY, level, fn, ...) end })
