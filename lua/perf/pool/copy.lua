--- Values from one Lua state to another, by copy, as text:
--
--     n t f                 nil, true, false
--     iDIGITS;  dNUMBER;    an integer; any other number
--     sLENGTH:BYTES         a string
--     T KEY VALUE ... E     a table; rN; is the N-th table that began, so that cycles and shared tables stay what they are
--     FLENGTH:BYTES         a function without upvalues, as string.dump writes it
--     lDIGITS; uDIGITS;     LuaJIT's int64_t and uint64_t
--     C TABLE               Counts
--
-- What has no copy is refused, with the way to it: a function with upvalues (they would be other variables there), a C function,
-- a userdata, a coroutine, a table with a metatable.
-- @module perf.pool.copy
local counts = require "perf.counts"
local every = require "perf.every"

local M = {}

local format, concat = string.format, table.concat
local math_type = math.type

local function refuse(path, what) error({ refused = path .. ": " .. what }, 0) end

-- The upvalue that a function cannot take along; _ENV, which a chunk has, is the globals there as here.
local function dump(fn, path)
  if debug.getinfo(fn, "S").what == "C" then refuse(path, "a C function cannot be copied: call it from a Lua function") end
  local i = 1
  while true do
    local name = debug.getupvalue(fn, i)
    if not name then break end
    if name ~= "_ENV" or i > 1 then
      refuse(path, format("the function has the upvalue '%s', which does not exist in the other thread: pass it as an argument, "
        .. "or require what it needs within", name == "" and "?" or name))
    end
    i = i + 1
  end
  local ok, code = pcall(string.dump, fn)
  if not ok then refuse(path, "the function cannot be copied: " .. tostring(code)) end
  return code
end

-- Tables of the library that are only data, by their metatables.
local class_of = { e = counts.Entry, m = counts.Metrics }
local tag_of = {}
for tag, class in every(class_of) do tag_of[class] = tag end

local encode

local function key_path(path, k)
  if type(k) == "string" and k:find "^[%a_][%w_]*$" then return path .. "." .. k end
  return format("%s[%s]", path, tostring(k))
end

local function encode_table(v, path, out, seen)
  if seen[v] then
    out[#out + 1] = "r" .. seen[v] .. ";"
    return
  end
  local mt = getmetatable(v)
  if mt ~= nil and not tag_of[mt] then refuse(path, "a table with a metatable cannot be copied") end
  seen.n = seen.n + 1
  seen[v] = seen.n
  out[#out + 1] = mt and tag_of[mt] or "T"
  for k, item in every(v) do
    encode(k, path .. " (a key)", out, seen)
    encode(item, key_path(path, k), out, seen)
  end
  out[#out + 1] = "E"
end

function encode(v, path, out, seen)
  local kind = type(v)
  local text
  if kind == "nil" then
    text = "n"
  elseif kind == "boolean" then
    text = v and "t" or "f"
  elseif kind == "string" then
    text = format("s%d:", #v) .. v
  elseif kind == "number" then
    if math_type and math_type(v) == "integer" then text = format("i%d;", v) else text = format("d%.17g;", v) end
  elseif counts.is(v) then
    out[#out + 1] = "C"
    local plain = counts.unpack(v)
    local t = { wall_ns = plain.wall_ns, source = plain.source, list = {} }
    for i, e in ipairs(plain) do t.list[i] = e end
    return encode_table(t, path, out, seen)
  elseif kind == "table" then
    return encode_table(v, path, out, seen)
  elseif kind == "function" then
    local code = dump(v, path)
    text = format("F%d:", #code) .. code
  elseif kind == "cdata" and tostring(v):find "^%-?%d+U?LL$" then
    local digits, unsigned = tostring(v):match "^(%-?%d+)(U?)LL$"
    text = (unsigned == "U" and "u" or "l") .. digits .. ";"
  else
    refuse(path, format("a %s cannot be copied", kind))
  end
  out[#out + 1] = text
end

--- Values as text.
-- @string what what they are, for messages: "argument"
-- @int n how many
-- @param ... the values
-- @return text; or nil, message
function M.pack(what, n, ...)
  local out, seen, values = {}, { n = 0 }, { ... }
  local ok, err = pcall(function()
    for i = 1, n do encode(values[i], what .. " " .. i, out, seen) end
  end)
  if ok then return concat(out) end
  return nil, type(err) == "table" and err.refused or tostring(err)
end

local decode

local specials = { inf = 1 / 0, ["-inf"] = -1 / 0, nan = 0 / 0, ["-nan"] = 0 / 0 }

local function number(text) return tonumber(text) or specials[text] end

local function big(digits, unsigned)
  local ffi = require "ffi"
  local v, negative = ffi.new "uint64_t", digits:find "^%-" ~= nil
  for d in digits:gmatch "%d" do v = v * 10 + tonumber(d) end
  if unsigned then return v end
  v = ffi.cast("int64_t", v)
  return negative and -v or v
end

local function decode_table(text, at, tables, class)
  local t = setmetatable({}, class)
  tables[#tables + 1] = t
  while text:sub(at, at) ~= "E" do
    local k, v
    k, at = decode(text, at, tables)
    v, at = decode(text, at, tables)
    t[k] = v
  end
  return t, at + 1
end

-- The value at a place, and the place behind it.
function decode(text, at, tables)
  local tag = text:sub(at, at)
  at = at + 1
  if tag == "n" then return nil, at end
  if tag == "t" or tag == "f" then return tag == "t", at end
  if tag == "T" or class_of[tag] then return decode_table(text, at, tables, class_of[tag]) end
  if tag == "C" then
    local t
    t, at = decode_table(text, at + 1, tables)
    return counts.plain(t.list, t.wall_ns, t.source), at
  end
  if tag == "s" or tag == "F" then
    local length, from = text:match("^(%d+):()", at)
    local bytes = text:sub(from, from + length - 1)
    at = from + tonumber(length)
    if tag == "s" then return bytes, at end
    local load_code = rawget(_G, "loadstring") or load
    return assert(load_code(bytes, "=job")), at
  end
  local word, behind = text:match("^([^;]*);()", at)
  if tag == "i" then return math.tointeger(tonumber(word)), behind end
  if tag == "d" then return math_type and number(word) + 0.0 or number(word), behind end
  if tag == "r" then return tables[tonumber(word)], behind end
  if tag == "l" or tag == "u" then return big(word, tag == "u"), behind end
  error("perf.pool.copy: damaged text")
end

--- The values of a text.
-- @return an array with n
function M.unpack(text)
  local values, n, at, tables = {}, 0, 1, {}
  while at <= #text do
    n = n + 1
    values[n], at = decode(text, at, tables)
  end
  values.n = n
  return values
end

return M
