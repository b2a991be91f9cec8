-- A table of a function's values by their arguments: each is made when it is first used.
return function(fn)
  return setmetatable({}, { __index = function(t, key)
    local value = fn(key)
    t[key] = value
    return value
  end })
end
