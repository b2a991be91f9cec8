-- Amounts, shares and tables as text.
local M = {}

local function commas(v)
  local s = ("%.0f"):format(v)
  repeat
    local n
    s, n = s:gsub("^(%-?%d+)(%d%d%d)", "%1,%2")
  until n == 0
  return s
end

--- An amount of an event in its unit: "1.235 ms", "1,234 B", "1,234"; "-" for nothing.
function M.amount(v, unit)
  if v == 0 then return "-" end
  if unit ~= "ns" then return commas(v) .. (unit == "bytes" and " B" or "") end
  if v >= 1e9 then return ("%.3f s"):format(v / 1e9) end
  if v >= 1e6 then return ("%.3f ms"):format(v / 1e6) end
  return ("%.3f us"):format(v / 1e3)
end

--- A share in percent: "12.3"; "-" for nothing.
function M.percent(part, whole) return part > 0 and ("%.1f"):format(100 * part / whole) or "-" end

--- The lines of a table whose first columns are aligned right, and the others left.
function M.align(rows, right)
  local width, lines = {}, {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do width[i] = math.max(width[i] or 0, vim.fn.strdisplaywidth(cell)) end
  end
  for i, row in ipairs(rows) do
    local cells = {}
    for k, cell in ipairs(row) do
      local pad = (" "):rep(width[k] - vim.fn.strdisplaywidth(cell))
      cells[k] = k <= right and pad .. cell or cell .. pad
    end
    lines[i] = (table.concat(cells, "  "):gsub("%s+$", ""))
  end
  return lines
end

return M
