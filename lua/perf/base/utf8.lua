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

-- Code points that take no column of a terminal (marks, joiners, directions) and those that take two: {first, last, columns}.
local UNUSUAL = { { 0x300, 0x36f, 0 }, { 0x483, 0x489, 0 }, { 0x591, 0x5bd, 0 }, { 0x610, 0x61a, 0 }, { 0x64b, 0x65f, 0 },
  { 0x1100, 0x115f, 2 }, { 0x1ab0, 0x1aff, 0 }, { 0x1dc0, 0x1dff, 0 }, { 0x200b, 0x200f, 0 }, { 0x202a, 0x202e, 0 },
  { 0x2060, 0x206f, 0 }, { 0x20d0, 0x20ff, 0 }, { 0x2e80, 0x303e, 2 }, { 0x3041, 0xa4cf, 2 }, { 0xac00, 0xd7a3, 2 },
  { 0xf900, 0xfaff, 2 }, { 0xfe00, 0xfe0f, 0 }, { 0xfe20, 0xfe2f, 0 }, { 0xfe30, 0xfe6f, 2 }, { 0xff00, 0xff60, 2 },
  { 0xffe0, 0xffe6, 2 }, { 0x1f300, 0x1f64f, 2 }, { 0x1f680, 0x1f6ff, 2 }, { 0x1f900, 0x1f9ff, 2 }, { 0x20000, 0x3fffd, 2 } }

-- The columns of the character of n bytes that begins at i.
local function columns_at(s, i, n)
  if n == 1 then return 1 end
  local a, b, c, d = byte(s, i, i + n - 1)
  local point = n == 2 and a % 32 * 64 + b % 64 or n == 3 and (a % 16 * 64 + b % 64) * 64 + c % 64
    or ((a % 8 * 64 + b % 64) * 64 + c % 64) * 64 + d % 64
  for _, range in ipairs(UNUSUAL) do
    if point <= range[2] then return point >= range[1] and range[3] or 1 end
  end
  return 1
end

-- The columns that a string takes in a terminal. A byte that is not UTF-8 takes one.
function M.columns(s)
  if not find(s, "[\128-\255]") then return #s end
  local sum, i = 0, 1
  while i <= #s do
    local n = length(s, i) or 1
    sum, i = sum + columns_at(s, i, n), i + n
  end
  return sum
end

-- The beginning of a string that takes at most n columns.
function M.first(s, n)
  if #s <= n then return s end
  local i = 1
  while i <= #s do
    local size = length(s, i) or 1
    n = n - columns_at(s, i, size)
    if n < 0 then break end
    i = i + size
  end
  return sub(s, 1, i - 1)
end

-- The end of a string that takes at most n columns.
function M.last(s, n)
  local left, i = M.columns(s), 1
  while left > n do
    local size = length(s, i) or 1
    left, i = left - columns_at(s, i, size), i + size
  end
  return sub(s, i)
end

-- The character of a code point.
function M.char(c)
  if c < 0x80 then return char(c) end
  if c < 0x800 then return char(0xc0 + floor(c / 64), 0x80 + c % 64) end
  if c < 0x10000 then return char(0xe0 + floor(c / 4096), 0x80 + floor(c / 64) % 64, 0x80 + c % 64) end
  return char(0xf0 + floor(c / 262144), 0x80 + floor(c / 4096) % 64, 0x80 + floor(c / 64) % 64, 0x80 + c % 64)
end

return M
