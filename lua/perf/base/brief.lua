-- Messages that quote what a program gave: a name or a path may be of any length.
local WORD, TEXT = 200, 2000 -- bytes of a word, and of a message, at most

-- The beginning and the end of a text, without parts of UTF-8 characters.
local function ends(text, most)
  if #text <= most then return text end
  local head, tail = text:sub(1, most * 0.6), text:sub(-most * 0.3)
  return head:gsub("[\192-\255]?[\128-\191]*$", "") .. "..." .. tail:gsub("^[\128-\191]*", "")
end

local function word(text) return ends(text, WORD) end

-- A message whose long words, and which itself, have only their beginning and their end.
return function(message)
  if #message <= WORD then return message end
  return (ends(message:gsub("%S+", word), TEXT))
end
