-- Distinguishes a hook that another hook has called, so that the outer turn continues, from one that runs after an error in
-- another hook.
local M = { hooks = {} } -- the set of hooks

-- Whether the hook that is running was called by another one.
function M.in_hook()
  local inner = true
  for level = 2, math.huge do
    local info = debug.getinfo(level, "f")
    if not info then return false end
    if M.hooks[info.func] then
      if not inner then return true end
      inner = false
    end
  end
end

return M
