-- JSON text of plain tables, for output only: integers keep all their digits, keys come sorted, so the same value
-- always gives the same text. (cjson prints 14 digits, which loses nanoseconds.)
local every = require "perf.base.pairs"

local M = {}

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r",
  ["\t"] = "\\t" }

local function escape(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end

local function quote(s) return '"' .. s:gsub('[%c"\\\127]', escape) .. '"' end

local function number(v)
  if math.type and math.type(v) == "integer" then return ("%d"):format(v) end
  if v ~= v or v == math.huge or v == -math.huge then return "null" end
  if v == math.floor(v) and v >= -2 ^ 53 and v <= 2 ^ 53 then return ("%.0f"):format(v) end
  return ("%.17g"):format(v)
end

local encode

local function array(t, n)
  local parts = {}
  for i = 1, n do parts[i] = encode(t[i]) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function object(t)
  local keys, parts = {}, {}
  for k in every(t) do keys[#keys + 1] = tostring(k) end
  table.sort(keys)
  for i, k in ipairs(keys) do
    local v = t[k]
    if v == nil then v = t[tonumber(k)] end
    parts[i] = quote(k) .. ":" .. encode(v)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

-- Encode nil, booleans, numbers, strings, LuaJIT's 64-bit integers and tables (a table with t[1], or an empty one that
-- says `M.empty_array`, is an array). Raises for anything else.
function encode(v)
  local kind = type(v)
  if kind == "nil" then return "null" end
  if kind == "boolean" then return tostring(v) end
  if kind == "number" then return number(v) end
  if kind == "string" then return quote(v) end
  if kind == "cdata" then return (tostring(v):gsub("U?LL$", "")) end
  if kind ~= "table" then error("cannot encode a " .. kind .. " as JSON", 0) end
  if v[1] ~= nil or v == M.empty_array then return array(v, #v) end
  return object(v)
end

M.empty_array = {}
M.encode = encode


return M
