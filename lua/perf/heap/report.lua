-- A Heap and a HeapDifference as text.
local format = require "perf.base.format"
local utf8 = require "perf.base.utf8"

local M = {}

local ROWS = 10
local TYPES = { { 3, 12 }, { 2, 0 }, { 3, 8 } } -- for a narrow terminal, as format.align takes it

local function signed(v) return (v > 0 and "+" or v < 0 and "-" or "") .. format.commas(math.abs(v)) end

-- A name, in one line: the name of a chunk can have any bytes.
local function name(text) return utf8.isolated(utf8.line(text)) end

local function table_of(head, list, cells, right, steps)
  local lines = { head }
  for i, row in ipairs(list) do lines[i + 1] = cells(row) end
  return format.align(lines, right, steps)
end

function M.heap(heap)
  local types = table_of({ "bytes", "objects", "type" }, heap:types(), function(row)
    return { format.commas(row.bytes), row.count and format.commas(row.count) or "", row.type }
  end, { true, true }, TYPES)
  local head = format.folded(("%s bytes in %s"):format(format.commas(heap.total), format.count(heap.objects, "object")))
  head = head .. "\n\n" .. types
  if not rawget(heap, "snapshot") then return head end -- it is closed
  local paths = table_of({ "retained", "shared", "path", "" }, heap:paths(ROWS), function(row)
    return { format.commas(row.retained), format.commas(row.shared), name(row.path), name(row.what) }
  end, { true, true }, { { 3, 24 }, { 4, 10 }, { 4, 0 }, { 2, 0 }, { 3, 8 } })
  return head .. "\n\n" .. paths
end

function M.difference(difference)
  local types = table_of({ "bytes", "objects", "type" }, difference.types, function(row)
    return { signed(row.bytes), row.count and signed(row.count) or "", row.type }
  end, { true, true }, TYPES)
  local paths = table_of({ "change", "before", "after", "path", "" }, difference.paths, function(row)
    return { signed(row.bytes), format.commas(row.before), format.commas(row.after), name(row.path), name(row.what) }
  end, { true, true, true }, { { 4, 24 }, { 5, 10 }, { 5, 0 }, { 2, 0 }, { 3, 0 }, { 4, 8 } })
  return ("%s bytes\n\n%s\n\n%s"):format(signed(difference.total), types, paths)
end

return M
