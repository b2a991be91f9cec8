-- The text of events/GROUP/NAME/format:
--
--     name: sched_switch
--     ID: 372
--     format:
--     	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
--     	(more of them; an empty line after the common ones)
--     	field:__data_loc char[] name;	offset:8;	size:4;	signed:0;
--
--     print fmt: "...", REC->...
--
-- The text may come from another program's file, and libtraceevent's parser crashes on damaged text. So this module parses this
-- part, which is all that decoding needs; libtraceevent parses what follows "print fmt" (csrc/ext/record/tracefields_text.c).
local MOST_FIELDS = 4096
local MOST_OFFSET = 1048576 -- a record has less than 64 kB

-- As in csrc/ext/record/tracefields.h.
local HERE, DATA_LOC, REL_LOC, STR_LOC = 0, 1, 2, 3
local INT, INTS, TEXT, BYTES = 0, 1, 2, 3

local is_int_size = { [1] = true, [2] = true, [4] = true, [8] = true }

local sizes = { char = 1, bool = 1, short = 2, loff_t = 8, pid_t = 4, dev_t = 4, enum = 4 }
for _, size in ipairs { 1, 2, 4, 8 } do
  for _, form in ipairs { "u%d", "s%d", "__u%d", "__s%d", "uint%d_t", "int%d_t" } do sizes[form:format(8 * size)] = size end
end

local function has_word(s, word) return s:find("%f[%w_]" .. word .. "%f[^%w_]") ~= nil end

-- The number that the digits stand for; nil if it is larger than max.
local function number(digits, max)
  local n = tonumber(digits)
  return n and n <= max and n or nil
end

-- The size of an array's element of this type; 0 = not known.
local function element_size(type, long_size)
  if type:find("*", 1, true) then return long_size end
  if has_word(type, "long") then return type:find "long.*long" and 8 or long_size end
  for word in type:gmatch "[%w_]+" do
    if sizes[word] then return sizes[word] end
  end
  if has_word(type, "size_t") or has_word(type, "ssize_t") then return long_size end
  return (has_word(type, "int") or has_word(type, "unsigned")) and 4 or 0
end

-- Set a field's kind by its type; false if the size cannot be. count is the number in the brackets, 0 if there is none or it is a
-- name.
local function classify(f, is_array, count, long_size)
  local place = f.type:find "^__data_loc " and (f.size == 2 and STR_LOC or DATA_LOC)
    or f.type:find "^__rel_loc " and REL_LOC or HERE
  f.place = place
  if place ~= HERE and f.size ~= (place == STR_LOC and 2 or 4) then return false end
  if place == HERE and not is_array then
    f.elem, f.shape = f.size, is_int_size[f.size] and INT or BYTES
  else
    f.elem = place == HERE and count > 0 and f.size % count == 0 and f.size / count or element_size(f.type, long_size)
    local text = has_word(f.type, "char") and not has_word(f.type, "unsigned") and not has_word(f.type, "signed")
    f.shape = (place == STR_LOC or f.elem == 1 and text) and TEXT or f.elem ~= 1 and is_int_size[f.elem] and INTS or BYTES
  end
  f.is_address = f.type:find("*", 1, true) ~= nil and f.elem == 8
  return true
end

-- The parts of a declaration: "unsigned long args[6]" has the type "unsigned long", the name "args" and the brackets "[6]". They
-- are split off from the end: patterns that search for an end take quadratic time, which a damaged file can turn into hours.
local function split(declared)
  local text, at = declared:reverse(), 1
  while text:byte(at) == 93 do at = (text:find("[", at, true) or #text) + 1 end -- 93: "]"
  local name, type = text:match("^([%w_]+) *(.*)", at)
  if name then return type:reverse(), name:reverse(), text:sub(1, at - 1):reverse() end
end

-- The field that is declared from there on: "unsigned long args[6]; offset:..." has the type "unsigned long[6]" and the name
-- "args", "__data_loc char[] name" the type "__data_loc char[]" and the name "name".
local function field_at(text, at, long_size)
  local declared, offset, size, next =
    text:match("^([^;\n]*);[ \t]*offset:[ \t]*(%d+)[ \t]*;[ \t]*size:[ \t]*(%d+)[ \t]*;()", at)
  declared = declared and declared:match "^[ \t]*(.*[^ \t])"
  if not declared or declared:find "[^ -~]" then return nil end
  local type, name, brackets = split(declared)
  if (type or "") == "" then return nil end
  local signed = 0
  if text:find("^[ \t]*signed:", next) then signed = number(text:match("^[ \t]*signed:[ \t]*(%d+)[ \t]*;", next), 1) end
  local f = { type = type .. brackets, name = name, offset = number(offset, MOST_OFFSET),
    size = number(size, MOST_OFFSET), is_signed = signed == 1 }
  if not (f.offset and f.size and signed) then return nil end
  local count = number(brackets:match "^%[[ \t]*(%d+)%]$", MOST_OFFSET) or 0
  return classify(f, brackets ~= "", count, long_size) and f
end

-- Parse a format. Returns {name=, id=, fields={{name=, type=, offset=, size=, elem=, place=, shape=, is_signed=, is_address=},
-- ...}}; or nil and the number of the invalid line. No string is made of a line, since LuaJIT's string table is slow with similar
-- strings.
return function(text, long_size)
  local format, n, at = { fields = {} }, 1, 1
  while at <= #text do
    local after = text:find("\n", at, true) or #text + 1
    at = text:match("^[ \t]*()", at)
    if text:find("^print fmt:", at) then break end
    if not format.name and text:find("^name:", at) then
      format.name = text:match("^name:[ \t]*([^%z\1-\32]*)", at)
    elseif not format.id and text:find("^ID:", at) then
      format.id = number(text:match("^ID:[ \t]*(%d+)", at), 2147483647)
    elseif text:find("^field:", at) then
      local field = #format.fields < MOST_FIELDS and field_at(text, at + 6, long_size)
      if not field then return nil, n end
      table.insert(format.fields, field)
    elseif at < after and not text:find("^format:", at) then
      return nil, n
    end
    n, at = n + 1, after + 1
  end
  if (format.name or "") == "" or not format.id or #format.fields == 0 then return nil, n end
  return format
end
