-- Zones: labels for code, which each sample of a profile keeps.
--
--     perf.zone("parse", fn, ...)             -- fn's results
--     local zone = perf.zone "parse"          -- until zone:close()
--
-- Entering a zone is a store to memory of the thread, through FFI on LuaJIT.
local brief = require "perf.base.brief"
local core = require "perf.core"
local argument = require "perf.base.argument"
local strict = require "perf.api.strict"

local M = {}

local MOST, OTHER = 1000, "(other)" -- how many names are kept, for ever; the name of all later zones
local numbers, names, known = {}, {}, 0

local function number_of(name)
  argument.check_type(name, "string")
  if known >= MOST then
    name = OTHER
    if numbers[name] then return numbers[name] end
  end
  local number = core.new_zone() -- unique among all Lua states, since another one may run on this thread too
  names[number], numbers[name], known = name, number, known + 1
  return number
end

-- The name of a zone's number; nil for a number of another Lua state.
function M.name(number) return names[number] end

-- Set the name of a number from core.new_zone; nil removes it.
function M.set_name(number, name) names[number] = name end

local set = core.set_zone
local has_ffi, ffi = pcall(require, "ffi")
if has_ffi and rawget(_G, "jit") then
  local setter = ffi.cast("uint32_t (*)(uint32_t)", core.zone_setter())
  function set(number) return setter(number) end
end

--- A label on samples, which `perf.zone` began. On Lua 5.4 `local zone <close> = perf.zone "parse"` closes it. A zone belongs to
-- the thread that enters it, not to a coroutine: close it before a yield that lets other coroutines run.
-- @type Zone
local Zone = {}
Zone.__index = Zone
Zone.__name = "perf.Zone"

--- Leave the zone, and return to the one in which it was entered. Idempotent.
function Zone:close()
  if self.outer then set(self.outer) end
  self.outer = nil
end
argument.check_methods(Zone, "Zone", "close")

function Zone:__tostring() return ("perf.Zone(%s%s)"):format(brief(self.label), rawget(self, "outer") and "" or ", closed") end
Zone.__close = Zone.close

local function finish(outer, ok, ...)
  set(outer)
  if not ok then argument.rethrow(...) end
  return ...
end

--- Label the samples of a profile, while a function runs or until the Zone is closed. A Lua state has at most 1,000 names; later
-- ones are all shown as "(other)".
-- @tparam string name
-- @tparam[opt] function fn its error is raised again unchanged
-- @tparam any ... its arguments
-- @treturn any fn's results; without fn a `Zone`, to be closed
function M.zone(name, fn, ...)
  local number = numbers[name] or number_of(name)
  if fn == nil then return setmetatable({ outer = set(number), label = name }, Zone) end
  argument.check_callable(fn, 2)
  return finish(set(number), pcall(fn, ...))
end

strict.class(Zone, "Zone")

return M
