-- Errors about arguments. perf.base.mistake has the functions that raise them; they are fields of this module too. Most programs
-- make no mistake, so perf.base.mistake is loaded when one of these functions is first used.
local late = require "perf.base.late"

-- These functions are used if no descriptor is left to load that module: their errors name the mistake, but not its position.
local bare = {
  raise = function(message, arg) error(arg == 0 and message or ("bad argument #%d (%s)"):format(arg or 1, message), 0) end,
  raisef = function(format, ...) error(("bad argument #1 (%s)"):format(format:format(...)), 0) end,
  raise_in_method = function(name, message) error(("bad argument to '%s' (%s)"):format(name or "?", message), 0) end,
  raise_again = function(_, _, _, err) error(err, 0) end,
  raise_colon = function() error("call perf.NAME with '.', not ':'", 0) end,
  is_outside = function() return true end,
}

local M = setmetatable({}, { __index = function(_, name)
  local ok, mistake = pcall(late, "perf.base.mistake")
  if not ok and bare[name] and mistake ~= "not enough memory" then return bare[name] end
  if not ok then error(mistake, 0) end
  return mistake[name]
end })

-- {[function] = name}: functions that a public function calls in tail position, with the name of the public one.
M.public_names = setmetatable({}, {__mode = "k"})

-- Whether a value is a function, or has __call.
function M.is_callable(v)
  if type(v) == "function" then return true end
  local mt = getmetatable(v)
  return type(mt) == "table" and mt.__call ~= nil
end

return M
