-- "Did you mean": the nearest of many names.
local pairs_of = require "perf.base.pairs"

local suggest = {}

-- The number of edits (insert, delete, replace, swap of neighbours) from a to b, or limit + 1 if there are more.
local function distance(a, b, limit)
  if math.abs(#a - #b) > limit then return limit + 1 end
  local older, old = nil, {}
  for j = 0, #b do old[j] = j end
  for i = 1, #a do
    local new = {[0] = i}
    local least = i
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      local d = math.min(old[j] + 1, new[j - 1] + 1, old[j - 1] + cost)
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        d = math.min(d, older[j - 2] + 1)
      end
      new[j] = d
      if d < least then least = d end
    end
    if least > limit then return limit + 1 end
    older, old = old, new
  end
  return old[#b]
end

-- The names of a set that contain the text; for GROUP:NAME those of the group that contain the NAME.
local function containing(wanted, set)
  local group, part = wanted:match("^(.*:)([^:]*)$")
  part = part or wanted
  local found = {}
  for name in pairs_of(#part > 3 and set or {}) do
    local low = name:lower()
    if low:find(part, 1, true) and (not group or low:sub(1, #group) == group) then
      found[#found + 1] = {name = name, d = #name}
    end
  end
  return found
end

-- The names of a set that are at most `limit` edits away.
local function near(wanted, set, limit)
  local found = {}
  for name in pairs_of(set) do
    local d = distance(wanted, name:lower(), limit)
    if d <= limit then found[#found + 1] = {name = name, d = d} end
  end
  return found
end

-- "; did you mean 'a' or 'b'?", or "": the three nearest names, or else those that contain the text (for GROUP:NAME, the NAME).
-- @string text the unknown name
-- @tparam {string,...} names the known names
function suggest.hint(text, names)
  local set, wanted = {}, text:lower()
  for _, name in ipairs(names) do set[name] = true end
  local limit = math.max(1, math.min(4, math.floor(#text / 3)))
  local found = near(wanted, set, limit)
  if #found == 0 and #text % 3 == 2 then found = near(wanted, set, limit + 1) end
  if #found == 0 then found = containing(wanted, set) end
  table.sort(found, function(a, b)
    if a.d ~= b.d then return a.d < b.d end
    return a.name < b.name
  end)
  if #found == 0 then return "" end
  local list = {}
  for i = 1, math.min(#found, 3) do list[i] = found[i].name end
  return "; did you mean '" .. table.concat(list, "' or '") .. "'?"
end

return suggest
