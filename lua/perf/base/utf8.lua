-- JSON text of what spans hold, made at once and without tables in between.
local M = {}

local find, format, gsub, byte, sub = string.find, string.format, string.gsub, string.byte, string.sub
local floor, huge = math.floor, math.huge

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escape(c) return escapes[c] or format("\\u%04x", byte(c)) end

-- The length of the UTF-8 character that begins at i; nil where there is none.
local function utf8_length(s, i)
  local a, b = byte(s, i, i + 1)
  local n, low, high = 1, 0x80, 0xbf -- bytes that follow, and the first one's bounds
  if a < 0x80 then
    return 1
  elseif a < 0xc2 or a > 0xf4 then
    return nil
  elseif a >= 0xf0 then
    n, low, high = 3, a == 0xf0 and 0x90 or 0x80, a == 0xf4 and 0x8f or 0xbf
  elseif a >= 0xe0 then
    n, low, high = 2, a == 0xe0 and 0xa0 or 0x80, a == 0xed and 0x9f or 0xbf
  end
  if not b or b < low or b > high then return nil end
  for k = 2, n do
    local c = byte(s, i + k)
    if not c or c < 0x80 or c > 0xbf then return nil end
  end
  return n + 1
end

-- Backends refuse a whole batch for one wrong byte: each becomes U+FFFD.
local function repair(s)
  local parts, i, from = {}, 1, 1
  while i <= #s do
    local n = utf8_length(s, i)
    if n then
      i = i + n
    else
      parts[#parts + 1] = sub(s, from, i - 1)
      parts[#parts + 1] = "\239\191\189"
      i = i + 1
      from = i
    end
  end
  parts[#parts + 1] = sub(s, from)
  return table.concat(parts)
end

-- The first n characters of a string. A byte that is not UTF-8 counts as one, as the U+FFFD that is sent for it.
function M.cut(s, n)
  if #s <= n then return s end
  if not find(s, "[\128-\255]") then return sub(s, 1, n) end
  local i = 1
  for _ = 1, n do
    if i > #s then return s end
    i = i + (utf8_length(s, i) or 1)
  end
  return sub(s, 1, i - 1)
end

-- A string in valid UTF-8, whatever bytes it has.
function M.valid(s)
  return find(s, "[\128-\255]") and repair(s) or s
end

-- The same as JSON text.
function M.quote(s)
  if find(s, '[%c"\\\128-\255]') then
    s = M.valid(s)
    s = gsub(s, '[%c"\\]', escape)
  end
  return '"' .. s .. '"'
end

local MOST_KEPT = 2000

-- A function of strings that keeps what it gave: span names and attribute keys are few. When a program invents them, all are
-- forgotten now and then.
function M.keep(fn)
  local kept, n = {}, 0
  return function(s)
    local text = kept[s]
    if text == nil then
      if n >= MOST_KEPT then kept, n = {}, 0 end
      text = fn(s)
      kept[s], n = text, n + 1
    end
    return text
  end
end

local math_type = math.type

-- What a number is, and its digits: "int" or "double". Integers beyond int64, and what is no number, are "string".
function M.number(v)
  if type(v) == "cdata" then
    local text = gsub(tostring(v), "U?LL$", "")
    if #text > 18 and not find(text, "^%-") and (#text > 19 or text > "9223372036854775807") then return "string", text end
    return "int", text
  end
  if math_type then
    if math_type(v) == "integer" then return "int", format("%d", v) end
  elseif v == floor(v) and v > -2 ^ 53 and v < 2 ^ 53 then
    return "int", format("%.0f", v)
  end
  if v ~= v then return "double", '"NaN"' end
  if v == huge then return "double", '"Infinity"' end
  if v == -huge then return "double", '"-Infinity"' end
  return "double", format("%.17g", v)
end

-- The digits of a count: an exact number, an integer, a 64-bit cdata or a "0x" string; nil for what does not fit in int64.
function M.count(v)
  if type(v) == "number" then
    if v == floor(v) and (math_type or v < 2 ^ 53) then return format(math_type and "%d" or "%.0f", v) end
    return format("%.0f", v)
  end
  if type(v) == "string" then return nil end
  local kind, text = M.number(v)
  return kind == "int" and text or nil
end

return M
