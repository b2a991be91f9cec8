-- JSON text of plain tables, and back.
--
-- Encoded integers keep all their digits, and keys are sorted, so the same value always gives the same text. (cjson prints 14
-- digits, which loses nanoseconds.) Text to decode may be large or damaged; null becomes nil, so it leaves a hole in an array.
local attempt = require "perf.base.attempt"
local format = require "perf.base.format"
local pairs_of = require "perf.base.pairs"
local utf8 = require "perf.base.utf8"

local M = { empty_array = {} }

local find, sub, byte, char = string.find, string.sub, string.byte, string.char

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r",
  ["\t"] = "\\t" }

local function escape(c) return escapes[c] or ("\\u%04x"):format(byte(c)) end

-- A string as JSON text. A backend refuses a whole batch for one byte that is not UTF-8: each such byte becomes U+FFFD.
function M.quote(s)
  if find(s, '[%c"\\\128-\255]') then s = utf8.valid(s):gsub('[%c"\\]', escape) end
  return '"' .. s .. '"'
end

local quote = M.quote

local function number(v)
  if math.type and math.type(v) == "integer" then return format.digits(v) end
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
  for k in pairs_of(t) do keys[#keys + 1] = tostring(k) end
  table.sort(keys)
  for i, k in ipairs(keys) do
    local v = t[k]
    if v == nil then v = t[tonumber(k)] end
    parts[i] = quote(k) .. ":" .. encode(v)
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

-- Encode nil, booleans, numbers, strings, LuaJIT's 64-bit integers and tables (a table is an array if it has t[1], or if it is
-- empty and `M.empty_array`). Raises for anything else.
function encode(v)
  local kind = type(v)
  if kind == "nil" then return "null" end
  if kind == "boolean" then return tostring(v) end
  if kind == "number" then return number(v) end
  if kind == "string" then return quote(v) end
  if kind == "cdata" then return format.digits(v) end
  if kind ~= "table" then error("cannot encode a " .. kind .. " as JSON", 0) end
  if v[1] ~= nil or v == M.empty_array then return array(v, #v) end
  return object(v)
end

M.encode = encode

local DEEP = 200 -- levels; files of this library are never nested deeper

local function fail(at, what) attempt.refuse(("byte %d: %s"):format(at, what), "EBADMSG") end

local unescapes = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

-- The string that begins after the quote at `at`, and the position after it.
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
      local low = code >= 0xd800 and code < 0xdc00 and s:match("^\\u([dD][c-fC-F]%x%x)", from)
      if low then
        code = 0x10000 + (code - 0xd800) * 1024 + tonumber(low, 16) - 0xdc00
        from = from + 6
      end
      parts[#parts + 1] = utf8.char(code)
    elseif unescapes[c] then
      parts[#parts + 1] = unescapes[c]
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

-- The items of an array or an object from `at` to its closing mark: take(at) parses one, and returns the position after it.
-- Returns the position after the mark.
local function items(s, at, close, pause, take)
  at = space(s, at)
  if byte(s, at) == close then return at + 1 end
  while true do
    at = space(s, take(at))
    if pause then pause() end
    local c = byte(s, at)
    if c == close then return at + 1 end
    if c ~= 44 then fail(at, ("',' or '%s' expected"):format(char(close))) end
    at = at + 1
  end
end

local value

local function array_at(s, at, depth, pause)
  local list, n = {}, 0
  -- Most of a file is arrays of numbers.
  local close = find(s, "[^%d, \n]", at)
  if close and byte(s, close) == 93 then
    for digits in sub(s, at, close - 1):gmatch "%d+" do
      n = n + 1
      list[n] = tonumber(digits)
      if pause and n % 64 == 0 then pause() end
    end
    return list, close + 1
  end
  return list, items(s, at, 93, pause, function(from)
    n = n + 1
    list[n], from = value(s, from, depth, pause)
    return from
  end)
end

local function object_at(s, at, depth, pause)
  local t = {}
  return t, items(s, at, 125, pause, function(from)
    from = space(s, from)
    if byte(s, from) ~= 34 then fail(from, "a name expected") end
    local key
    key, from = string_at(s, from + 1)
    from = space(s, from)
    if byte(s, from) ~= 58 then fail(from, "':' expected") end
    t[key], from = value(s, from + 1, depth, pause)
    return from
  end)
end

local words = { ["true"] = true, ["false"] = false }

function value(s, at, depth, pause)
  at = space(s, at)
  local c = byte(s, at)
  if depth > DEEP then fail(at, "nested too deeply") end
  if c == 34 then return string_at(s, at + 1) end
  if c == 91 then return array_at(s, at + 1, depth + 1, pause) end
  if c == 123 then return object_at(s, at + 1, depth + 1, pause) end
  local digits = s:match("^%-?%d+%.?%d*[eE]?[%+%-]?%d*", at)
  if digits and tonumber(digits) then return tonumber(digits), at + #digits end
  local word = s:match("^%l+", at)
  if word == "null" or words[word] ~= nil then return words[word], at + #word end
  fail(at, "a value expected")
end

-- Decode a text.
-- @param[opt] pause called now and then
-- @return the value (nil for null); or nil, message, "EBADMSG"
function M.decode(text, pause)
  return attempt.catch(function()
    local result, at = value(text, 1, 0, pause)
    if space(text, at) <= #text then fail(at, "more than one value") end
    return result
  end)
end

return M
