-- Objects that raise an error for a misspelt method or field, with the nearest name of their class in perf.api.classes.
--
-- Programs may test whether an object has a method (`if x.close then`), and keep fields of their own in it. So an unknown name is
-- nil as usual if no name of the class is near to it, if another class of the library has it, or if the library itself reads it.
local argument = require "perf.base.argument"
local late = require "perf.base.late"

local M = {}

local known = {} -- class -> {[name] = true}

local everywhere = {} -- the names of all classes

local function read_classes()
  for _, group in ipairs(late "perf.api.classes") do
    local names = {}
    for _, rows in ipairs { group, group.fields or {} } do
      for _, row in ipairs(rows) do names[row[1]], everywhere[row[1]] = true, true end
    end
    known[group.class] = names
  end
end

-- A function that an __index calls for a name that an object does not have.
-- @string class
-- @return function(object, name, [depth]): returns nil, or raises. `depth` is 1 more for each function between it and the __index
function M.missing(class)
  local read = {} -- names that the library itself has read: for these the caller is not looked for again
  return function(_, name, depth)
    if read[name] or type(name) ~= "string" or name:find "^_" then return nil end
    if not argument.is_outside(2 + (depth or 0)) then
      read[name] = true
      return nil
    end
    if not known[class] then read_classes() end
    local hint = not everywhere[name] and late "perf.api.check".hint(name, known[class]) or ""
    if hint ~= "" then argument.raise(("%s has no '%s'%s"):format(class, name, hint), 0) end
  end
end

-- Make objects of a class raise these errors.
-- @tab methods the __index of the class
-- @string class
-- @string[opt] absent names of fields that quick paths read although objects often lack them; they are false then
-- @return methods
function M.class(methods, class, absent)
  for name in (absent or ""):gmatch "%S+" do methods[name] = false end
  return setmetatable(methods, { __index = M.missing(class) })
end

return M
