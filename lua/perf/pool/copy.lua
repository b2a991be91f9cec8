-- Copies values from one Lua state to another, as text:
--
--     n t f                 nil, true, false
--     iDIGITS;  dNUMBER;    an integer; any other number
--     sLENGTH:BYTES         a string
--     T KEY VALUE ... E     a table; rN; is the N-th table that began, so that cycles and shared tables are preserved
--     FLENGTH:BYTES         a function without upvalues, as string.dump writes it
--     lDIGITS; uDIGITS;     LuaJIT's int64_t and uint64_t
--     C TABLE               Counts
--
-- Other values are refused, with a message that shows their place: functions with upvalues or with other globals (these would
-- differ in the other state), C functions, userdata, coroutines, tables with a metatable.
local counts = require "perf.counts"
local pairs_of = require "perf.base.pairs"
local printed = require "perf.base.printed"

local M = {}

local format, concat = string.format, table.concat
local math_type = math.type
local globals = _G

local function refuse(what) error({ refused = what }, 0) end

-- Whether an environment is the globals, which the function will have in the other thread: _G itself, or a table that looks names
-- up in _G and holds no name that the function uses.
local function is_globals(env, fn)
  if env == globals then return true end
  if type(env) ~= "table" or env._G ~= globals then return false end
  local code
  for name, value in pairs_of(env) do
    if not code then -- the message leaves out the chunk's name, which may be its text
      code = string.dump(fn, true)
      local source = debug.getinfo(fn, "S").source
      local from, to = code:find(source, 1, true)
      if from then code = code:sub(1, from - 1) .. code:sub(to + 1) end
    end
    if type(name) == "string" and value ~= globals[name] and code:find(name, 1, true) then return false end
  end
  return true
end

-- The only upvalue that can be copied is _ENV, which has no name in a stripped function: when the function is loaded in the other
-- state, its first upvalue is set to the globals there. (In Lua 5.1 and LuaJIT a function has an environment instead.)
local env_of = rawget(_G, "getfenv")
local function check_upvalues(fn)
  local i, name, value = 1, debug.getupvalue(fn, 1)
  if env_of then
    if not is_globals(env_of(fn), fn) then name = "_ENV" end
  elseif name and is_globals(value, fn) and (name == "_ENV" or not name:find "^[%a_]") then
    i, name = 2, debug.getupvalue(fn, 2)
  end
  if name == "_ENV" then
    refuse "the function has an environment of its own (_ENV, setfenv), which does not exist in the other thread"
  elseif name then
    refuse(format("the function has the upvalue %s, which does not exist in the other thread: pass it as an argument, or load "
      .. "its module inside the function", name:find "^[%a_]" and "'" .. name .. "'" or i .. " (its name was stripped)"))
  end
end

local function dump(fn)
  if debug.getinfo(fn, "S").what == "C" then refuse "a C function cannot be copied: call it from a Lua function" end
  check_upvalues(fn)
  local ok, code = pcall(string.dump, fn)
  if not ok then refuse("the function cannot be copied: " .. tostring(code)) end
  return code
end

-- The library's tables that are plain data, by their metatables.
local class_of = { e = counts.Entry, m = counts.Metrics, p = printed.class }
local tag_of = {}
for tag, class in pairs_of(class_of) do tag_of[class] = tag end

-- The state of writing: the text so far; the numbers of the tables that were begun; and the open tables, outermost first. They
-- are in arrays, without recursion, so that a linked list may be as long as memory allows. keys[depth] is the current key of a
-- table, and at_key[depth] whether the key is written now, or its value.
local function writer() return { out = {}, seen = {}, n = 0, depth = 0, tables = {}, keys = {}, at_key = {} } end

-- The path to the current value, only made for a message: at each node of a linked list it would be as long as the list so far.
local FEW = 10 -- steps shown at each end
local function path(w, root)
  local steps = { root }
  for depth = 1, w.depth do
    local k = w.keys[depth]
    if depth > FEW and depth <= w.depth - FEW then
      if depth == FEW + 1 then steps[#steps + 1] = format(" ... (%d more) ... ", w.depth - 2 * FEW) end
    elseif w.at_key[depth] then
      steps[#steps + 1] = " (a key)"
    elseif type(k) == "string" and k:find "^[%a_][%w_]*$" then
      steps[#steps + 1] = "." .. k
    else
      steps[#steps + 1] = format("[%s]", tostring(k))
    end
  end
  return concat(steps)
end

local function begin(w, v)
  if w.seen[v] then return "r" .. w.seen[v] .. ";" end
  local mt = getmetatable(v)
  if mt ~= nil and not tag_of[mt] then refuse "a table with a metatable cannot be copied" end
  w.n, w.depth = w.n + 1, w.depth + 1
  w.seen[v] = w.n
  w.tables[w.depth], w.keys[w.depth], w.at_key[w.depth] = v, nil, false
  return mt and tag_of[mt] or "T"
end

-- The text of a value, or of a table's beginning.
local function text_of(w, v)
  local kind = type(v)
  if kind == "nil" then return "n" end
  if kind == "boolean" then return v and "t" or "f" end
  if kind == "string" then return format("s%d:", #v) .. v end
  if kind == "number" then
    return math_type and math_type(v) == "integer" and format("i%d;", v) or format("d%.17g;", v)
  end
  if counts.is(v) then
    local plain = counts.unpack(v)
    local t = { wall_ns = plain.wall_ns, source = plain.source, cumulative = plain.cumulative, epoch = plain.epoch, list = {} }
    for i, e in ipairs(plain) do t.list[i] = e end
    return "C" .. begin(w, t)
  end
  if kind == "table" then return begin(w, v) end
  if kind == "function" then
    local code = dump(v)
    return format("F%d:", #code) .. code
  end
  if kind == "cdata" and tostring(v):find "^%-?%d+U?LL$" then
    local digits, unsigned = tostring(v):match "^(%-?%d+)(U?)LL$"
    return (unsigned == "U" and "u" or "l") .. digits .. ";"
  end
  refuse(format("a %s cannot be copied", kind))
end

local function encode(w, v)
  local out, tables, keys, at_key = w.out, w.tables, w.keys, w.at_key
  out[#out + 1] = text_of(w, v)
  while w.depth > 0 do
    local depth = w.depth
    local t, k = tables[depth], keys[depth]
    if at_key[depth] then
      at_key[depth] = false
      out[#out + 1] = text_of(w, t[k])
    else
      k = next(t, k)
      if k == nil then
        out[#out + 1] = "E"
        w.depth, tables[depth] = depth - 1, nil
      else
        keys[depth], at_key[depth] = k, true
        out[#out + 1] = text_of(w, k)
      end
    end
  end
end

-- Values as text.
-- @string what a word for messages: "argument"
-- @int n the number of values
-- @param ... the values
-- @return text; or nil, message
function M.pack(what, n, ...)
  local w, values, at = writer(), { ... }, 0
  local ok, err = pcall(function()
    for i = 1, n do
      at = i
      encode(w, values[i])
    end
  end)
  if ok then return concat(w.out) end
  local reason = type(err) == "table" and err.refused
  if reason then return nil, format("%s: %s", path(w, what .. " " .. at), reason) end
  return nil, tostring(err)
end

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

-- Read a value that is not a table: the value, and the position after it.
local function scalar(tag, text, at, tables)
  if tag == "n" then return nil, at end
  if tag == "t" or tag == "f" then return tag == "t", at end
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

-- The values of a text.
-- @return an array with n
function M.unpack(text)
  local values, n, at = {}, 0, 1
  local tables, last = {}, 0 -- the tables so far, by number
  local depth, open, tags, keyed, keys = 0, {}, {}, {}, {} -- the open ones; whether a key waits for its value, and the key
  while at <= #text do
    local tag = text:sub(at, at)
    at = at + 1
    if tag == "T" or tag == "C" or class_of[tag] then
      if tag == "C" then at = at + 1 end
      depth, last = depth + 1, last + 1
      tables[last] = setmetatable({}, class_of[tag])
      open[depth], tags[depth], keyed[depth] = tables[last], tag, false
    else
      local v
      if tag == "E" then
        v = open[depth]
        if tags[depth] == "C" then
          local plain = counts.plain(v.list, v.wall_ns, v.source)
          plain.cumulative, plain.epoch = v.cumulative, v.epoch
          v = plain
        end
        depth = depth - 1
      else
        v, at = scalar(tag, text, at, tables)
      end
      if depth == 0 then
        n = n + 1
        values[n] = v
      elseif keyed[depth] then
        open[depth][keys[depth]], keyed[depth] = v, false
      else
        keys[depth], keyed[depth] = v, true
      end
    end
  end
  values.n = n
  return values
end

return M
