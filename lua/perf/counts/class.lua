-- The metamethods of packed Counts. perf.counts has their functions, and is loaded when one of them is first used.
local late = require "perf.base.late"

local M = { __name = "perf.Counts" }

local class

local function loaded()
  class = late "perf.counts".packed_class
  return class
end

local index

local function first_index(c, key)
  index = loaded().__index
  return index(c, key)
end

index = first_index

-- Fields are read often, so this calls the function without looking it up in a table.
function M.__index(c, key) return index(c, key) end

for name in ("len ipairs pairs tostring add sub mul div unm eq"):gmatch "%a+" do
  name = "__" .. name
  M[name] = function(a, b) return (class or loaded())[name](a, b) end
end

return M
