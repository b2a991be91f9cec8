-- UTF-8 that may be damaged: a walk over its characters, and functions based on it.
local M = {}

local find, byte, char, sub = string.find, string.byte, string.char, string.sub
local floor = math.floor

-- The length of the UTF-8 character that begins at i; nil if there is none: overlong forms, surrogates and characters beyond
-- U+10FFFF are invalid.
local function length(s, i)
  local a, b = byte(s, i, i + 1)
  local n, low, high = 1, 0x80, 0xbf -- the number of continuation bytes, and the limits of the first one
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

-- A string in valid UTF-8, whatever its bytes are.
-- @func[opt] mark converts the number of a byte that belongs to no character to text; without it the text is U+FFFD
function M.valid(s, mark)
  if not find(s, "[\128-\255]") then return s end
  local parts, i, from = {}, 1, 1
  while i <= #s do
    local n = length(s, i)
    if n then
      i = i + n
    else
      parts[#parts + 1] = sub(s, from, i - 1)
      parts[#parts + 1] = mark and mark(byte(s, i)) or "\239\191\189"
      i = i + 1
      from = i
    end
  end
  parts[#parts + 1] = sub(s, from)
  return table.concat(parts)
end

local function hex(b) return ("\\x%02x"):format(b) end

-- One line of text: valid UTF-8 without control characters. A byte that belongs to no character is written
-- \xNN, so that nothing is lost.
function M.line(s)
  return (M.valid(s, hex):gsub("%c", function(c) return c == "\n" and "\\n" or c == "\t" and " " or hex(byte(c)) end))
end

-- Put text with right-to-left letters between U+2068 and U+2069, so that numbers beside it keep their places.
-- The letters are those from Hebrew to Arabic Extended-A, their presentation forms, and the old scripts of U+10800 and U+1E800.
function M.isolated(s)
  if find(s, "[\214-\223]") or find(s, "\224[\160-\163]") or find(s, "\239[\172-\187]") or find(s, "\240[\144\158]") then
    return "\226\129\168" .. s .. "\226\129\169"
  end
  return s
end

-- The first n characters of a string. A byte that is not UTF-8 counts as one character, since U+FFFD is sent for it.
function M.cut(s, n)
  if #s <= n then return s end
  if not find(s, "[\128-\255]") then return sub(s, 1, n) end
  local i = 1
  for _ = 1, n do
    if i > #s then return s end
    i = i + (length(s, i) or 1)
  end
  return sub(s, 1, i - 1)
end

-- The character of a code point.
function M.char(c)
  if c < 0x80 then return char(c) end
  if c < 0x800 then return char(0xc0 + floor(c / 64), 0x80 + c % 64) end
  if c < 0x10000 then return char(0xe0 + floor(c / 4096), 0x80 + floor(c / 64) % 64, 0x80 + c % 64) end
  return char(0xf0 + floor(c / 262144), 0x80 + floor(c / 4096) % 64, 0x80 + floor(c / 64) % 64, 0x80 + c % 64)
end

return M
