--- What runs when Lua ends, or sooner, when what this gives is collected.
-- @module perf.at_exit

--- @func fn called without arguments; its errors are nobody's
-- @return something to hold on to
return function(fn)
  local function call() pcall(fn) end
  local newproxy = rawget(_G, "newproxy")
  if newproxy and _VERSION == "Lua 5.1" then -- whose tables have no __gc
    local proxy = newproxy(true)
    getmetatable(proxy).__gc = call
    return proxy
  end
  return setmetatable({}, { __gc = call })
end
