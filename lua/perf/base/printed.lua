-- Plain tables that print their fields: results that a REPL shows.
local late = require "perf.base.late"

local Printed = { __tostring = function(t) return late "perf.base.table_text".text(t) end }

-- Without this, serpent writes a table that has __tostring as its text.
function Printed.__serialize(t) return t end

local M = { class = Printed }

-- Make a table print itself. It stays a plain table otherwise.
function M.table(t) return setmetatable(t, Printed) end

-- Make an array print as a table, and each of its rows as its fields.
function M.rows(list)
  for _, row in ipairs(list) do
    if getmetatable(row) == nil then setmetatable(row, Printed) end
  end
  return setmetatable(list, Printed)
end

return M
