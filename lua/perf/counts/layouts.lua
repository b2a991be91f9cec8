-- A layout describes the words of packed Counts, which have its number. Opening a list needs only the list's layout, so
-- everything else is in perf.counts, which is loaded when a program first uses its Counts.
--
-- Layouts are interned by their content and kept: there are as many as there are different lists of events.
local core = require "perf.core"

local M = {}

-- A program may remove the modules from package.loaded and load them again while it still has older Counts. So the state that
-- gives Counts their meaning is kept in the C class, of which each Lua state has only one: the layouts by number and by content,
-- LuaJIT's types of packed Counts by the number of words, and the metatable of plain Counts.
local kept = core.Counts.kept or { layouts = {}, by_key = {}, types = {}, plain = { __name = "perf.Counts" } }
core.Counts.kept = kept

local layouts, by_key = kept.layouts, kept.by_key
M.all, M.types, M.plain = layouts, kept.types, kept.plain

-- The name without its modifiers: "cycles:u" -> "cycles", "cpu/event=1/u" -> "cpu/event=1/", "sched:sched_switch" as it is.
function M.base_name(label)
  local head, tail = label:match "^(.*):(%a+)$"
  if head and head ~= "" and (not tail:find "[^ukhGHIpPDSWebR]") then return head end
  head = label:match "^(.*/)[%a]+$"
  return head or label
end

-- rows: array of {label=, unit=, scale=, why=, note=, slots={{group, value}, ...}}: group and value count from 0. cumulative:
-- the counts are readings since the events were opened, not differences. Returns the layout's number.
function M.layout(rows, ngroups, source, cumulative)
  local parts = { source, ngroups, cumulative and "c" or "" }
  for _, row in ipairs(rows) do
    parts[#parts + 1] = table.concat({ row.label, row.unit or "", row.scale or "", row.why or "", row.note or "",
      row.bound and "b" or "", row.pinned and "p" or "" }, "\1")
    for _, slot in ipairs(row.slots) do parts[#parts + 1] = slot[1] .. "." .. slot[2] end
  end
  local key = table.concat(parts, "\2")
  local id = by_key[key]
  if id then return id end
  local layout = { rows = rows, ngroups = ngroups, source = source, cumulative = cumulative, index = {}, nvalues = 0 }
  for i, row in ipairs(rows) do
    local base = M.base_name(row.label)
    if base ~= row.label then layout.index[base] = layout.index[base] == nil and i end
    layout.nvalues = layout.nvalues + #row.slots
  end
  for i, row in ipairs(rows) do layout.index[row.label] = i end
  id = #layouts + 1
  layouts[id], by_key[key] = layout, id
  return id
end

-- The layout of a number.
-- @return {rows=, ngroups=, source=, nvalues=}
function M.describe(id) return layouts[id] end

-- The labels of the enabled hardware events of this Lua state. perf.event.idle, which records them, replaces this function.
function M.enabled_hardware() return {} end

return M
