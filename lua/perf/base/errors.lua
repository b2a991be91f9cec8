-- Errors about arguments. perf.base.mistake has the functions that raise them; they are fields of this module too. Most programs
-- make no mistake, so perf.base.mistake is loaded when one of these functions is first used.
local late = require "perf.base.late"

local M = setmetatable({}, { __index = function(_, name) return late "perf.base.mistake"[name] end })

-- {[function] = name}: functions that a public function calls in tail position, with the name of the public one.
M.public_names = setmetatable({}, {__mode = "k"})

-- Whether a value is a function, or has __call.
function M.is_callable(v)
  if type(v) == "function" then return true end
  local mt = getmetatable(v)
  return type(mt) == "table" and mt.__call ~= nil
end

return M
