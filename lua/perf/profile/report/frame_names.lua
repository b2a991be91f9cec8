-- What the reports share: names that are safe in any of the formats, and amounts as text.
local format = require "perf.base.format"

local M = {}

-- How many bytes the UTF-8 character at i has, nil where none is: no overlong forms, no surrogates, none beyond U+10FFFF.
local function length(s, i)
  local a, b = s:byte(i, i + 1)
  local n = a < 0x80 and 1 or a >= 0xc2 and a < 0xe0 and 2 or a >= 0xe0 and a < 0xf0 and 3 or a >= 0xf0 and a < 0xf5 and 4
  if not n then return nil end
  if n == 1 then return 1 end
  local low = a == 0xe0 and 0xa0 or a == 0xf0 and 0x90 or 0x80
  local high = a == 0xed and 0x9f or a == 0xf4 and 0x8f or 0xbf
  if not b or b < low or b > high then return nil end
  for k = i + 2, i + n - 1 do
    local c = s:byte(k)
    if not c or c < 0x80 or c > 0xbf then return nil end
  end
  return n
end

-- Valid UTF-8: bytes that are none come as \xNN, so nothing of a name is lost.
function M.utf8(s)
  if not s:find "[\128-\255]" then return s end
  local out, i = {}, 1
  while i <= #s do
    local n = length(s, i)
    out[#out + 1] = n and s:sub(i, i + n - 1) or ("\\x%02x"):format(s:byte(i))
    i = i + (n or 1)
  end
  return table.concat(out)
end

-- One line for people: valid UTF-8 without control characters.
function M.line(s)
  return (M.utf8(s):gsub("%c", function(c)
    return c == "\n" and "\\n" or c == "\t" and " " or ("\\x%02x"):format(c:byte())
  end))
end

-- A count of any kind that this module gives (number, 64-bit cdata, "0x" string) as a number.
function M.number(v)
  return tonumber(v) or 0
end

-- An amount of an event in its unit: "1.235 ms", "1,234".
function M.amount(v, unit)
  if unit ~= "ns" then return format.commas(v) end
  return format.ns(v)
end

-- A share as text: "12.3". Of nothing, there is none.
function M.percent(part, whole)
  return whole ~= 0 and ("%.1f"):format(100 * part / whole) or "-"
end

return M
