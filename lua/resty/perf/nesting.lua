-- Distinguishes a hook that another hook has called, so that the outer turn continues, from one that runs after an error in
-- another hook. A thread has a stack of its own, so the functions that run the callbacks of a counted request are in the set too.
local M = { hooks = {} } -- the set of hooks, and of the functions that run callbacks in a turn

-- The files of hooks (perf.content) and wrappers (ngx.thread.spawn). Stacks of waits and blocked turns leave their frames out.
M.files = {}
for _, name in ipairs { "hooks", "yields" } do
  M.files[(debug.getinfo(1, "S").source:gsub("/nesting%.lua$", "/" .. name .. ".lua"))] = true
end

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
