-- A text without the spaces at its ends. Patterns such as "^%s*(.-)%s*$" take time by the square of the spaces within a text,
-- which may come from a peer; this one is linear.
return function(text)
  local from = text:find "%S"
  return from and text:match("^.*%S", from) or ""
end
