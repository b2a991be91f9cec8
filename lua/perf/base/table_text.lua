-- The text of the tables that perf.base.printed makes: an array of rows with a heading, other tables as "name = value".
local format = require "perf.base.format"
local pairs_of = require "perf.base.pairs"
local printed = require "perf.base.printed"
local utf8 = require "perf.base.utf8"

local M = {}

local WIDTH, CELL, ROWS = 100, 60, 20 -- columns of a line and of a cell; rows of a table
local DEEP = 4 -- tables within each other: a program may put a table into itself
local FIRST = {} -- these fields come first, in this order
for i, name in ipairs { "name", "label", "event", "path", "type", "kind", "check", "ok", "count", "self", "total", "weight" } do
  FIRST[name] = i
end

-- The order in which fields are printed.
local function is_before(a, b)
  local x, y = FIRST[a] or math.huge, FIRST[b] or math.huge
  if x ~= y then return x < y end
  return tostring(a) < tostring(b)
end

-- The fields of a table that are not its items, in the order in which they are printed.
local function fields_of(t, n)
  local list = {}
  for key in pairs_of(t) do
    if not (type(key) == "number" and key >= 1 and key <= n) then list[#list + 1] = key end
  end
  table.sort(list, is_before)
  return list
end

local function number(v)
  if v ~= v or v == math.huge or v == -math.huge then return ("%.1f"):format(v) end
  return v == math.floor(v) and format.digits(v) or ("%.6g"):format(v)
end

local inline

-- A table in braces: as many of its values as there is room for.
-- @int depth how many tables it is in
local function braces(t, room, depth)
  if depth > DEEP then return "{...}" end
  local n, parts, used = #t, {}, 0
  local keys = fields_of(t, n)
  local total = n + #keys
  for i = 1, total do
    local key = keys[i - n]
    local text = i <= n and inline(t[i], CELL, depth + 1)
      or ("%s = %s"):format(tostring(key), inline(t[key], CELL, depth + 1))
    used = used + #text + 2
    if used > room and i < total + (i > 1 and 1 or 0) then
      parts[#parts + 1] = ("... %d more"):format(total - i + 1)
      break
    end
    parts[i] = text
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- A value on a line.
function inline(v, room, depth)
  local kind = type(v)
  if kind == "string" then return format.shorten(utf8.line(v), room) end
  if kind == "number" then return number(v) end
  if kind == "table" then
    local meta = getmetatable(v)
    if meta and meta.__tostring and meta.__tostring ~= printed.class.__tostring then
      return format.shorten(utf8.line((tostring(v):match "^[^\n]*")), room)
    end
    if type(rawget(v, "name")) == "string" then return inline(v.name, room, depth) end
    return braces(v, room, depth)
  end
  if kind == "boolean" or kind == "nil" or kind == "cdata" then return format.digits(v) end
  return kind == "userdata" and getmetatable(v) and tostring(v) or kind
end

-- The rows of an array, one below the other.
local function rows_of(list)
  local names, seen, right = {}, {}, {}
  local shown = math.min(#list, ROWS)
  for i = 1, shown do
    for _, key in ipairs(fields_of(list[i], 0)) do
      if not seen[key] then seen[key], names[#names + 1] = true, key end
    end
  end
  table.sort(names, is_before)
  local rows = { {} }
  for k, key in ipairs(names) do rows[1][k], right[k] = tostring(key), type(list[1][key]) == "number" end
  for i = 1, shown do
    rows[i + 1] = {}
    for k, key in ipairs(names) do
      local v = list[i][key]
      rows[i + 1][k] = v == nil and "" or inline(v, #names > 1 and CELL / 2 or CELL, 1)
    end
  end
  local text = format.align(rows, right)
  return #list > shown and ("%s\n... and %d more"):format(text, #list - shown) or text
end

-- Whether a table is an array of rows.
local function has_rows(t)
  for i = 1, math.min(#t, ROWS) do
    if type(t[i]) ~= "table" then return false end
  end
  return type(t[1]) == "table" and not rawget(t[1], "__tostring")
end

function M.text(t)
  local n = #t
  if has_rows(t) then return rows_of(t) end
  if n == 0 and next(t) == nil then return "(empty)" end
  local width = math.min(WIDTH, format.columns() or WIDTH)
  local line = braces(t, width - 16, 0)
  if n > 0 or not line:find("... %d+ more") and #line <= width then return line end
  local rows = {}
  for i, key in ipairs(fields_of(t, n)) do rows[i] = { tostring(key), inline(t[key], WIDTH - 20, 1) } end
  return format.align(rows)
end

return M
