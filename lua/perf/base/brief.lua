-- Shortens messages that quote a name or a path of the program, which may be of any length.
local WORD, TEXT = 200, 2000 -- bytes of a word, and of a message, at most

-- The beginning and the end of a text, without parts of UTF-8 characters.
local function ends(text, most)
  if #text <= most then return text end
  local head, tail = text:sub(1, most * 0.6), text:sub(-most * 0.3)
  return head:gsub("[\192-\255]?[\128-\191]*$", "") .. "..." .. tail:gsub("^[\128-\191]*", "")
end

local function word(text) return ends(text, WORD) end

-- The message with the beginning and the end of its long words; if it is still long, its own beginning and end.
return function(message)
  if #message <= WORD then return message end
  return (ends(message:gsub("%S+", word), TEXT))
end
