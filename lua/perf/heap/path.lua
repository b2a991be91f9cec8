-- Names for the objects of a snapshot: the path by which each is reached, such as
--
--     _G.cache.entries[17]
--     package.loaded.shop.handle > upvalue cache (shop.lua:12).items
--     registry[5] > local buffer (worker.lua:33)
--
-- Keys follow what they belong to; every other step is named, after " > ".
local M = {}

local roots = { globals = "_G", loaded = "package.loaded", registry = "registry", main = "(main thread)",
  running = "(running coroutine)", internal = "(interpreter)", finalizer = "(waiting for its finalizer)",
  fixed = "(names that are never freed)" }
local steps = { metatable = "metatable", environment = "environment", prototype = "prototype", constant = "constant %d",
  uservalue = "uservalue %d", slot = "stack slot %d", code = "compiled code" }
local LONGEST = 200 -- characters of a key

-- The name of a chunk as Lua's messages have it.
local function chunk(source)
  local kind, rest = source:sub(1, 1), source:sub(2)
  if kind == "@" or kind == "=" then return rest end
  local line = source:match "^[^\r\n]*"
  if #line > 40 then line = line:sub(1, 37) .. "..." end
  return '[string "' .. line .. '"]'
end

local function quoted(text)
  if #text > LONGEST then text = text:sub(1, LONGEST - 3) .. "..." end
  return '"' .. text:gsub('[%c"\\]', function(c) return ("\\%03d"):format(c:byte()) end) .. '"'
end

-- The fields of a text that are separated by zero bytes.
local function fields(text)
  local list = {}
  for field in (text or ""):gmatch "([^%z]*)%z" do list[#list + 1] = field end
  return list
end

-- "FILE:LINE" of a prototype, or of a function.
function M.place(snapshot, i)
  local kind = snapshot:object(i)
  if kind == "function" then i = snapshot:step(i, "prototype", 0) end
  if not i or (kind ~= "function" and kind ~= "prototype") then return nil end
  local of = fields(snapshot:text(i))
  return of[1] and chunk(of[1]) .. ":" .. (of[2] or "?"), of
end

-- An object's description, for people: "function shop.lua:12", "string \"abc\"", "table".
function M.what(snapshot, i)
  local kind = snapshot:object(i)
  local place = M.place(snapshot, i)
  if place then return kind .. " " .. place end
  local text = kind == "string" and snapshot:text(i)
  return text and kind .. " " .. quoted(text) or kind
end

local function key(text)
  if text:find "^[%a_][%w_]*$" then return "." .. text end
  return "[" .. quoted(text) .. "]"
end

local function upvalue(snapshot, holder, n)
  local place, of = M.place(snapshot, holder)
  if not place then return ("upvalue %d (C function)"):format(n) end
  local name = of[n + 2]
  return ("upvalue %s (%s)"):format(name and name ~= "" and name or n, place)
end

local function object_key(snapshot, number)
  local text = snapshot:text(number)
  return snapshot:object(number) == "string" and key(text or "?") or "[" .. M.what(snapshot, number) .. "]"
end

-- The name of an edge, and whether it follows the name of its holder without a mark. i: the object to which it leads, which may
-- be the edge's key.
function M.step(snapshot, edge, i)
  local holder, label, number, to = snapshot:edge(edge)
  if label == "root" then return roots[number], true end
  if label == "index" then return ("[%d]"):format(number), true end
  if label == "key" then
    if to ~= i then return "key " .. M.what(snapshot, number), false end
    return object_key(snapshot, number), true
  end
  if label == "value" then return "[" .. tostring(number) .. "]", true end
  if label == "content" then
    local kind = snapshot:object(holder)
    return kind == "upvalue" and "" or kind == "thread" and "open upvalue" or "content", false
  end
  if label == "upvalue" then return upvalue(snapshot, holder, number), false end
  if label == "local" then
    local of = fields(number)
    return ("local %s (%s:%s)"):format(of[1], chunk(of[2]), of[3]), false
  end
  return steps[label]:format(number), false
end

local function add(text, name, follows)
  if name == "" then return text end
  return text == "" and name or text .. (follows and "" or " > ") .. name
end

local FIRST, LAST = 20, 6 -- steps of a long path that are named

-- The path of an object, and its steps, the outermost first: each {edge, object}.
function M.of(snapshot, i)
  local steps_in = {}
  while i ~= 0 do
    local _, _, _, _, _, edge = snapshot:object(i)
    if not edge then return nil end
    steps_in[#steps_in + 1] = { edge, i }
    i = snapshot:edge(edge)
  end
  local n, text = #steps_in, ""
  for k = n, 1, -1 do
    local place = n - k + 1
    if n > FIRST + LAST + 1 and place > FIRST and place <= n - LAST then
      if place == FIRST + 1 then text = ("%s > ... %d steps ..."):format(text, n - FIRST - LAST) end
    else
      text = add(text, M.step(snapshot, steps_in[k][1], steps_in[k][2]))
    end
  end
  return text, steps_in
end

-- The name of a reference to an object, by an edge: the path of its holder, and the step from there.
function M.through(snapshot, edge, i)
  local holder = snapshot:edge(edge)
  local text = holder == 0 and "" or M.of(snapshot, holder)
  return text and add(text, M.step(snapshot, edge, i)), holder
end

-- Whether this step alone leads from its holder to the object. An object may have several references without a name of their own:
-- to the traces of a prototype, the metatables of types, local variables of a function that calls itself.
local function is_place(from, edge, label, number, i)
  if label == "slot" or number == nil or number == "light userdata" then return false end
  if label == "index" or label == "key" or label == "value" then return true end
  return from:step((from:edge(edge)), label, number) == i
end

-- The object of another snapshot to which the same steps lead; nil if there is none, or if a step is not a stable place. A slot
-- of a stack is not one, since its value changes from time to time; the line of a local variable does not matter.
function M.follow(from, steps_in, to)
  local i = 0
  for k = #steps_in, 1, -1 do
    local _, label, number, target = from:edge(steps_in[k][1])
    if label == "key" then
      if target ~= steps_in[k][2] then return nil end
      number = from:object(number) == "string" and from:text(number) or nil
    end
    if label == "local" then number = number:match "^[^%z]*%z[^%z]*%z" end
    i = is_place(from, steps_in[k][1], label, number, steps_in[k][2]) and to:step(i, label, number)
    if not i then return nil end
  end
  return i
end

return M
