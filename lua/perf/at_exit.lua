--- What runs when Lua ends, or sooner, when what this gives is collected. Before what was given for earlier ones.
-- @module perf.at_exit

--- @func fn called without arguments; its errors are nobody's
-- @return something to hold on to
return function(fn)
  local function call() pcall(fn) end
  local newproxy = rawget(_G, "newproxy")
  if newproxy and _VERSION == "Lua 5.1" then -- whose tables have no __gc
    local proxy = newproxy(true)
    getmetatable(proxy).__gc = function()
      -- Only until this returns. Other Luas never collect within a finalizer; 5.1 does when memory has doubled, and where it is
      -- closing that frees what has been finalized, though it is still in use.
      collectgarbage "stop"
      call()
    end
    return proxy
  end
  return setmetatable({}, { __gc = call })
end
