-- The buffer with the tables of a profile: by plugin, by file at start-up, and by line.
local text = require "perf.nvim.text"

local M = {}

local NAME = "perf://profile"
local help = "<CR> open the line   m marks   c quickfix list   f flame graph   q close"
local space = vim.api.nvim_create_namespace "perf.nvim.window"
local places = {} -- the row of each line of the buffer

-- The cells of one table.
local function cells_of(result, heading, rows, limit)
  local prof, whole = result.prof, result.sums.whole
  local cells, of = { { "self", "%", "total", "%", heading, heading ~= "plugin" and "plugin" or nil } }, {}
  for i = 1, math.min(#rows, limit) do
    local row = rows[i]
    cells[i + 1] = { text.amount(row.self, prof.unit), text.percent(row.self, whole), text.amount(row.total, prof.unit),
      text.percent(row.total, whole), (row.name:gsub("%c", " ")), heading ~= "plugin" and row.plugin or nil }
    of[i + 1] = row
  end
  if #rows > limit then cells[#cells + 1] = { "", "", "", "", ("... and %d more"):format(#rows - limit) } end
  return cells, of
end

-- The lines of the buffer, their rows, and the numbers of the lines that are headings.
local function content(result, limit)
  local lines, rows, headings = {}, {}, {}
  for line in (result.title .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  lines[#lines + 1] = help
  for _, part in ipairs(result.parts) do
    if #part.rows > 0 then
      local cells, of = part.cells, {}
      if not cells then cells, of = cells_of(result, part.heading, part.rows, limit) end
      lines[#lines + 1] = ""
      headings[#lines] = true
      for i, line in ipairs(text.align(cells, part.right or 4)) do
        lines[#lines + 1] = line
        rows[#lines] = of[i]
      end
    end
  end
  return lines, rows, headings
end

-- The path of a source file; nil if its code is in no file.
local function path_of(file)
  if file:find "^%[string" then return nil end
  if file:find "^n?vim/" then return vim.env.VIMRUNTIME .. "/lua/" .. file end
  return vim.fn.fnamemodify(file, ":p")
end

--- A row's file and line as an entry of the quickfix list; nil if its code is in no file.
function M.entry(row)
  local path = row.file and path_of(row.file)
  if not path or vim.fn.filereadable(path) == 0 then return nil end
  return { filename = path, lnum = math.max(row.line or 1, 1) }
end

-- The window in which a file is opened: the previous one, another one that may show another file, or a new one.
local function leave()
  local here = vim.api.nvim_get_current_win()
  vim.cmd "wincmd p"
  local function suits(win)
    local buffer = vim.bo[vim.api.nvim_win_get_buf(win)]
    local _, fixed = pcall(vim.api.nvim_win_get_option, win, "winfixbuf") -- an option of newer versions
    return win ~= here and buffer.buftype == "" and (vim.o.hidden or not buffer.modified) and fixed ~= true
  end
  if suits(vim.api.nvim_get_current_win()) then return end
  for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if suits(win) then
      vim.api.nvim_set_current_win(win)
      return
    end
  end
  vim.api.nvim_set_current_win(here)
  vim.cmd "aboveleft new"
end

local function open_row()
  local row = places[vim.api.nvim_win_get_cursor(0)[1]]
  if not row then return end
  local entry = M.entry(row)
  if not entry then
    vim.notify("Perf: the code of this row is in no file: " .. row.name)
    return
  end
  leave()
  vim.cmd("edit " .. vim.fn.fnameescape(entry.filename))
  vim.api.nvim_win_set_cursor(0, { math.min(entry.lnum, vim.api.nvim_buf_line_count(0)), 0 })
  vim.cmd "normal! zz"
end

local function leave_table()
  if not pcall(vim.cmd, "close") then vim.cmd "enew" end -- the last window cannot be closed
end

local function buffer()
  local found = vim.fn.bufnr("^" .. NAME .. "$")
  if found > 0 and vim.api.nvim_buf_is_loaded(found) then return found end
  -- :bdelete leaves a buffer with its name, but without its options and mappings.
  if found > 0 then vim.api.nvim_buf_delete(found, { force = true }) end
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buf, NAME)
  vim.bo[buf].bufhidden = "hide"
  vim.bo[buf].filetype = "perf"
  local function map(key, what, desc)
    vim.keymap.set("n", key, what, { buffer = buf, nowait = true, silent = true, desc = desc })
  end
  map("<CR>", open_row, "open the line")
  map("m", "<Cmd>Perf marks<CR>", "marks on the lines")
  map("c", "<Cmd>Perf quickfix<CR>", "quickfix list")
  map("f", "<Cmd>Perf flamegraph<CR>", "flame graph")
  map("q", leave_table, "close")
  return buf
end

--- Show a result in the buffer's window.
-- @tab result {prof=, sums=, title=, parts=}
-- @int limit the most rows of a table
function M.show(result, limit)
  local buf = buffer()
  local lines, rows, headings = content(result, limit)
  places = rows
  vim.bo[buf].modifiable = true
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  vim.bo[buf].modifiable = false
  vim.api.nvim_buf_clear_namespace(buf, space, 0, -1)
  for i, line in ipairs(lines) do
    local group = i == 1 and "Title" or line == help and "Comment" or headings[i - 1] and "Type"
    if group then vim.api.nvim_buf_set_extmark(buf, space, i - 1, 0, { end_col = #line, hl_group = group }) end
  end
  local win = vim.fn.bufwinid(buf)
  if win == -1 then
    vim.cmd("botright " .. math.max(10, math.floor(vim.o.lines / 2)) .. "split")
    vim.api.nvim_win_set_buf(0, buf)
    vim.cmd "setlocal nowrap nonumber norelativenumber nolist cursorline"
  else
    vim.api.nvim_set_current_win(win)
  end
  local first = 1
  while rows[first] == nil and first < #lines do first = first + 1 end
  vim.api.nvim_win_set_cursor(0, { rows[first] and first or 1, 0 })
end

return M
