-- JSON text as plain tables: for files that may be large or damaged. null becomes nil, so it leaves a hole in an array.
local M = {}

local DEEP = 200 -- levels: what nests deeper is no file of ours

local find, sub, byte, char = string.find, string.sub, string.byte, string.char

local function fail(at, what)
  error({ text = ("byte %d: %s"):format(at, what) }, 0)
end

-- A code point as UTF-8.
local function utf8(c)
  if c < 0x80 then return char(c) end
  if c < 0x800 then return char(0xc0 + math.floor(c / 64), 0x80 + c % 64) end
  if c < 0x10000 then return char(0xe0 + math.floor(c / 4096), 0x80 + math.floor(c / 64) % 64, 0x80 + c % 64) end
  return char(0xf0 + math.floor(c / 262144), 0x80 + math.floor(c / 4096) % 64, 0x80 + math.floor(c / 64) % 64, 0x80 + c % 64)
end

local escapes = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

-- The string that begins behind the quote at `at`: it, and where it goes on.
local function string_at(s, at)
  local from, close = at, find(s, '["\\]', at)
  if not close then fail(at, "a string without an end") end
  if byte(s, close) == 34 then return sub(s, from, close - 1), close + 1 end
  local parts = {}
  while true do
    parts[#parts + 1] = sub(s, from, close - 1)
    if byte(s, close) == 34 then return table.concat(parts), close + 1 end
    local c = sub(s, close + 1, close + 1)
    if c == "u" then
      local hex = s:match("^%x%x%x%x", close + 2)
      if not hex then fail(close, "a bad escape") end
      local code = tonumber(hex, 16)
      from = close + 6
      local low = code >= 0xd800 and code < 0xdc00 and s:match("^\\u(d[c-f]%x%x)", from) or
        code >= 0xd800 and code < 0xdc00 and s:match("^\\u(D[C-F]%x%x)", from)
      if low then
        code = 0x10000 + (code - 0xd800) * 1024 + tonumber(low, 16) - 0xdc00
        from = from + 6
      end
      parts[#parts + 1] = utf8(code)
    elseif escapes[c] then
      parts[#parts + 1] = escapes[c]
      from = close + 2
    else
      fail(close, "a bad escape")
    end
    close = find(s, '["\\]', from)
    if not close then fail(from, "a string without an end") end
  end
end

local function space(s, at)
  return find(s, "[^ \t\r\n]", at) or #s + 1
end

local value

local function array(s, at, depth)
  -- Most of a file are arrays of numbers.
  local close = find(s, "[^%d, \n]", at)
  if close and byte(s, close) == 93 then
    local list, n = {}, 0
    for digits in s:sub(at, close - 1):gmatch "%d+" do
      n = n + 1
      list[n] = tonumber(digits)
    end
    return list, close + 1
  end
  local list, n = {}, 0
  at = space(s, at)
  if byte(s, at) == 93 then return list, at + 1 end
  while true do
    n = n + 1
    list[n], at = value(s, at, depth)
    at = space(s, at)
    local c = byte(s, at)
    if c == 93 then return list, at + 1 end
    if c ~= 44 then fail(at, "',' or ']' expected") end
    at = at + 1
  end
end

local function object(s, at, depth)
  local t = {}
  at = space(s, at)
  if byte(s, at) == 125 then return t, at + 1 end
  while true do
    at = space(s, at)
    if byte(s, at) ~= 34 then fail(at, "a name expected") end
    local key
    key, at = string_at(s, at + 1)
    at = space(s, at)
    if byte(s, at) ~= 58 then fail(at, "':' expected") end
    t[key], at = value(s, at + 1, depth)
    at = space(s, at)
    local c = byte(s, at)
    if c == 125 then return t, at + 1 end
    if c ~= 44 then fail(at, "',' or '}' expected") end
    at = at + 1
  end
end

local words = { ["true"] = true, ["false"] = false }

function value(s, at, depth)
  at = space(s, at)
  local c = byte(s, at)
  if depth > DEEP then fail(at, "nested too deeply") end
  if c == 34 then return string_at(s, at + 1) end
  if c == 91 then return array(s, at + 1, depth + 1) end
  if c == 123 then return object(s, at + 1, depth + 1) end
  local number = s:match("^%-?%d+%.?%d*[eE]?[%+%-]?%d*", at)
  if number and tonumber(number) then return tonumber(number), at + #number end
  local word = s:match("^%l+", at)
  if word == "null" or words[word] ~= nil then return words[word], at + #word end
  fail(at, "a value expected")
end

-- Decode a text.
-- @string text
-- @return the value (nil for null); or nil, message, "EBADMSG"
function M.decode(text)
  local ok, result, at = pcall(value, text, 1, 0)
  if ok and space(text, at) <= #text then ok, result = false, { text = ("byte %d: more than one value"):format(at) } end
  if ok then return result end
  if type(result) ~= "table" then error(result, 0) end
  return nil, result.text, "EBADMSG"
end

return M
