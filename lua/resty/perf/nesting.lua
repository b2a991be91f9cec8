-- Hooks that are called by other hooks. Code of the outer hook runs, so its turn goes on; after an error in it, it does not.
local M = { hooks = {} } -- the set of them

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
