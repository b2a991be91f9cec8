--- Parses the text form of a protocol buffer. A message is {field = array of values}; a value is another message, a string, or
-- the text of a number or word (so that no 64-bit number is rounded).
local textproto = {}

local escapes = {n = "\n", r = "\r", t = "\t", a = "\a", b = "\b", f = "\f", v = "\v"}

local function unquote(text)
  return (text:gsub("\\(.)(%d?%d?)", function(c, rest)
    if c:find("%d") then return string.char(tonumber(c .. rest, 8)) end
    return (escapes[c] or c) .. rest
  end))
end

local function add(message, name, value)
  local values = message[name]
  if not values then
    message[name] = {value}
  else
    values[#values + 1] = value
  end
end

--- Parses an iterator of lines. Calls on_top(name, message) for each message of the outermost level when it is complete, so that
-- a long text need not be kept in memory. Other fields of the outermost level are passed as values.
function textproto.each(lines, on_top)
  local stack, names = {}, {}
  for line in lines do
    local name = line:match("^%s*([%w_]+) {$")
    if name then
      stack[#stack + 1], names[#names + 1] = {}, name
    elseif line:find("^%s*}$") then
      local message = table.remove(stack)
      name = table.remove(names)
      if #stack == 0 then on_top(name, message) else add(stack[#stack], name, message) end
    else
      local value
      name, value = line:match("^%s*([%w_]+): (.*)$")
      if name then
        if value:sub(1, 1) == '"' then value = unquote(value:sub(2, -2)) end
        if #stack == 0 then on_top(name, value) else add(stack[#stack], name, value) end
      end
    end
  end
end

return textproto
