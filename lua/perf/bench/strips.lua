-- The distributions of perf.bench and perf.compare in a terminal: for each event a line of blocks, for each candidate one on the
-- same scale.
--
--     wall time   old  6.77 us  ▁▃█▇▂▁      ▁             12.4 us
--                 new                        ▁▂▄█▅▁  ▁             2 above, up to 40.1 us
local distribution = require "perf.bench.distribution"

local M = {}

local WIDTH = 40
local ASCII = { ".", ":", "-", "=", "+", "*", "#", "@" }
local BLOCKS = {}
for i = 1, 8 do BLOCKS[i] = "\226\150" .. string.char(0x80 + i) end -- U+2581 to U+2588

-- Whether the terminal shows UTF-8: the first of these variables that is set names the encoding.
-- @func[opt=os.getenv] getenv
function M.is_utf8(getenv)
  for _, name in ipairs { "LC_ALL", "LC_CTYPE", "LANG" } do
    local v = (getenv or os.getenv)(name)
    if v and v ~= "" then return v:lower():find "utf%-?8" ~= nil end
  end
  return false
end

-- Blocks as high as the cells' numbers of values: the lowest for any value, the highest for the most.
-- @tparam {integer,...} cells
-- @tparam boolean utf8
-- @treturn string a character for each cell
function M.blocks(cells, utf8)
  local most, parts, heights = 1, {}, utf8 and BLOCKS or ASCII
  for _, n in ipairs(cells) do most = math.max(most, n) end
  for i, n in ipairs(cells) do parts[i] = n == 0 and " " or heights[math.max(1, math.floor(8 * n / most + 0.5))] end
  return table.concat(parts)
end

-- The values that a strip leaves out, in words.
local function left_out(q, before, after, show)
  local parts, t = {}, q.sorted
  if before > 0 then parts[1] = ("%d below, down to %s"):format(before, show(t[1])) end
  if after > 0 then parts[#parts + 1] = ("%d above, up to %s"):format(after, show(t[#t])) end
  return table.concat(parts, "; ")
end

-- The lines of one event.
-- @param lines they are appended as rows of cells: title, name, from, strip, to, what is left out
-- @string title
-- @tparam {table,...} candidates in order: `{name=, values=}`; those without values are left out
-- @func show a value as text
-- @tparam boolean utf8
function M.add(lines, title, candidates, show, utf8)
  local shown, all = {}, {}
  for _, c in ipairs(candidates) do
    if c.values and #c.values > 0 then
      all[#all + 1] = distribution.quartiles(c.values)
      shown[#shown + 1] = c
    end
  end
  if #all == 0 then return end
  local from, to = distribution.scale(all)
  if from == to then return end
  for i, c in ipairs(shown) do
    local cells, before, after = distribution.cells(c.values, from, to, WIDTH)
    lines[#lines + 1] = { i == 1 and title or "", c.name or "", i == 1 and show(from) or "", M.blocks(cells, utf8),
      i == 1 and show(to) or "", left_out(all[i], before, after, show) }
  end
end

-- The lines as text. format.align would count the bytes of the blocks, which are all as wide as the others.
-- @tparam[opt] integer columns of the terminal: a longer line loses its note of the runs that are not shown
-- @treturn string nil if there are none
function M.text(lines, columns)
  if #lines == 0 then return nil end
  local width, texts = {}, {}
  for _, cells in ipairs(lines) do
    for i, cell in ipairs(cells) do width[i] = math.max(width[i] or 0, #cell) end
  end
  for n, cells in ipairs(lines) do
    local parts = {}
    for i, cell in ipairs(cells) do
      local pad = i == 4 and "" or (" "):rep(width[i] - #cell)
      if width[i] > 0 then parts[#parts + 1] = i == 3 and pad .. cell or cell .. pad end
    end
    local used = #table.concat(parts, "  ") - 2 * select(2, cells[4]:gsub("\226", ""))
    if columns and used > columns and cells[6] ~= "" then parts[#parts] = nil end
    texts[n] = table.concat(parts, "  "):match "^.*%S"
  end
  return table.concat(texts, "\n")
end

return M
