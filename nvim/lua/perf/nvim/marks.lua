-- Virtual text with the weights of a profile's lines, in the buffers of its files.
local text = require "perf.nvim.text"

local M = {}

local uv = vim.uv or vim.loop
local space = vim.api.nvim_create_namespace "perf.nvim.marks"
local HOT, WARM = 0.2, 0.05 -- shares of the weight
local invalidate = vim.fn.has "nvim-0.10" == 1 or nil -- a deleted line loses its mark; older versions move it to the next line
local shown -- {prof=, whole=, least=, files={[real path] = name in the profile}}

local function group_of(share)
  return share >= HOT and "PerfHot" or share >= WARM and "PerfWarm" or "PerfCool"
end

-- Put a mark at the end of a line, unless its weight is small.
local function mark(buf, line, row, prefix)
  local prof, whole = shown.prof, shown.whole
  local share = whole > 0 and row.total / whole or 0
  if not line or share < shown.least or row.total == 0 then return end
  local words = ("%s%s %%  %s"):format(prefix, text.percent(row.total, whole), text.amount(row.total, prof.unit))
  if row.self > 0 and row.self < row.total then words = ("%s, self %s %%"):format(words, text.percent(row.self, whole)) end
  local chunk = { "  " .. words, group_of(share) }
  vim.api.nvim_buf_set_extmark(buf, space, line - 1, 0, { virt_text = { chunk }, hl_mode = "combine", invalidate = invalidate })
end

-- A function that gives a line's number in the buffer, which may have been edited since the profile; nil if the line is gone.
local function line_in(buf, lines)
  local before = {}
  for i, line in ipairs(lines) do before[i] = line.text end
  local now = vim.api.nvim_buf_get_lines(buf, 0, -1, false)
  local diff = vim.text and vim.text.diff or vim.diff
  local changes = diff(table.concat(before, "\n") .. "\n", table.concat(now, "\n") .. "\n", { result_type = "indices" })
  return function(line)
    local shift = 0
    for _, change in ipairs(changes) do
      local from, count, new_from, new_count = unpack(change)
      if count == 0 then from = from + 1 end -- lines were added after this one
      if new_count == 0 then new_from = new_from + 1 end
      if line < from then break end
      if line < from + count then return count == new_count and new_from + line - from or nil end -- edited, or gone
      shift = new_from + new_count - from - count
    end
    return line + shift
  end
end

local function mark_buffer(buf)
  local name = vim.api.nvim_buf_get_name(buf)
  local file = shown and name ~= "" and shown.files[uv.fs_realpath(name) or name]
  if not file or not vim.api.nvim_buf_is_loaded(buf) then return end
  vim.api.nvim_buf_clear_namespace(buf, space, 0, -1)
  local found = shown.prof:annotate(file)
  if not found then return end
  local place = line_in(buf, found.lines)
  for i, row in ipairs(found.lines) do mark(buf, place(i), row, "") end
  for _, range in ipairs(found.ranges) do
    local first, last = place(range.line), place(range.lastline)
    if last then mark(buf, first, range, ("one of lines %d-%d: "):format(first or last, last)) end
  end
end

function M.are_shown() return shown ~= nil end

--- Remove the marks of all buffers.
function M.hide()
  shown = nil
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do vim.api.nvim_buf_clear_namespace(buf, space, 0, -1) end
  vim.api.nvim_create_augroup("perf.nvim.marks", { clear = true })
end

--- Mark the lines of all loaded buffers, and of those that are loaded later.
-- @number whole the weight that shares are of
-- @number least the smallest weight of a marked line, in percent
function M.show(prof, whole, least)
  M.hide()
  shown = { prof = prof, whole = whole, least = least / 100, files = {} }
  for _, sample in ipairs(prof:samples()) do
    for _, frame in ipairs(sample.stack) do
      local file = frame.file
      if file and not file:find "^%[string" then
        local path = file:find "^n?vim/" and vim.env.VIMRUNTIME .. "/lua/" .. file or vim.fn.fnamemodify(file, ":p")
        shown.files[uv.fs_realpath(path) or path] = file
      end
    end
  end
  for group, default in pairs { PerfHot = "DiagnosticError", PerfWarm = "DiagnosticWarn", PerfCool = "Comment" } do
    vim.api.nvim_set_hl(0, group, { link = default, default = true })
  end
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do mark_buffer(buf) end
  vim.api.nvim_create_autocmd("BufReadPost", {
    group = vim.api.nvim_create_augroup("perf.nvim.marks", { clear = true }),
    callback = function(event) mark_buffer(event.buf) end,
  })
end

return M
