-- Lists of events: "cycles,cpu/event=0x3c,umask=1/,{a,b}:u".

local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local modifiers = require "perf.names.modifiers"

local trim = require "perf.base.trim"

local lists = {}

-- Split a list at the commas that are outside of slashes, braces and quotes.
-- @return array of strings, trimmed; a group stays one string with its braces and modifiers
-- @raise for an empty name, or an unpaired brace or slash
function lists.split(list)
  local out, from, brace, slash, quote = {}, 1, nil, nil, nil
  local i, n = 1, #list
  while i <= n + 1 do
    local c = list:sub(i, i)
    -- mem:ADDRESS/LENGTH has only one slash.
    local length = c == "m" and not slash and list:match("^mem:%w+/%d%w*()", i)
    if length and trim(list:sub(from, i - 1)):match("^{?$") then
      i = length - 1
    elseif c == "'" and slash then
      quote = not quote and i or nil
    elseif c == "/" and not quote then
      slash = not slash and i or nil
    elseif slash and c ~= "" then
      i = (list:find("[/']", i + 1) or n + 1) - 1 -- terms
    elseif c == "{" then
      if brace then argument.raise(("%s: a group within a group at character %d"):format(list, i)) end
      brace = i
    elseif c == "}" then
      if not brace then argument.raise(("%s: '}' without '{' at character %d"):format(list, i)) end
      brace = nil
    elseif c == "" or c == "," and not brace then
      local item = trim(list:sub(from, i - 1))
      if brace then argument.raise(("%s: '{' without '}' at character %d"):format(list, brace)) end
      local where = list == "" and "" or list .. ": "
      if item == "" then argument.raise(("%sempty event name at character %d"):format(where, from)) end
      out[#out + 1] = item
      from = i + 1
    end
    i = i + 1
  end
  return out
end

-- The groups of a list: a single event is a group of one.
-- @return array of groups, each an array of specs for resolve: strings, or {event=, modifiers=} if the group has modifiers; a
-- group in braces has braces = true
function lists.expand(list)
  local out = {}
  for _, item in ipairs(lists.split(list)) do
    local inner, letters = item:match("^{(.*)}:?([^}]*)$")
    if not inner then
      out[#out + 1] = {item}
    else
      local at, wrong = modifiers.check(letters)
      if at then argument.raise(item .. ": " .. wrong:gsub("@@", "")) end
      local group = {braces = true}
      for i, member in ipairs(lists.split(inner)) do
        local own = i == 1 and letters or modifiers.of_member(letters)
        group[i] = own == "" and member or {event = member, modifiers = own}
      end
      out[#out + 1] = group
    end
  end
  return out
end

-- Check that a table is an array: it has no key that is not a position, and no hole, at which ipairs would stop.
-- @return nil if it is an array; an invalid key; or nil, the first position without a value
function lists.invalid_item(list)
  local last = 0
  for key in pairs_of(list) do
    if type(key) ~= "number" then return key end
    if key > last then last = key end
  end
  for i = 1, last do
    if list[i] == nil then return nil, i end
  end
end

-- Check that a table is a list of events.
-- @return nil if it is one, otherwise the error as text
function lists.wrong(list)
  local key, hole = lists.invalid_item(list)
  if key ~= nil then return ("unknown field '%s' in a list of events"):format(tostring(key)) end
  return hole and ("event %d of the list is nil"):format(hole)
end

return lists
