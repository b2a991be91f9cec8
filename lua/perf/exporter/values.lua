-- Texts that the exporters' writers share: each is made directly, without tables in between.
local digits = require "perf.base.format".digits

local M = {}

local find, format = string.find, string.format
local floor, huge = math.floor, math.huge

-- The texts of a list's items, with commas between.
function M.join(list, text)
  local parts = {}
  for i, item in ipairs(list) do parts[i] = text(item) end
  return table.concat(parts, ",")
end

local MOST_KEPT = 2000

-- A function of strings that remembers its results: span names and attribute keys are few. If a program makes many, all are
-- forgotten now and then.
function M.keep(fn)
  local kept, n = {}, 0
  return function(s)
    local text = kept[s]
    if text == nil then
      if n >= MOST_KEPT then kept, n = {}, 0 end
      text = fn(s)
      kept[s], n = text, n + 1
    end
    return text
  end
end

local math_type = math.type

-- The kind of a number, and its digits: "int" or "double"; "string" for integers beyond int64.
function M.number(v)
  if type(v) == "cdata" then
    local text = digits(v)
    if #text > 18 and not find(text, "^%-") and (#text > 19 or text > "9223372036854775807") then return "string", text end
    return "int", text
  end
  if math_type then
    if math_type(v) == "integer" then return "int", digits(v) end
  elseif v == floor(v) and v > -2 ^ 53 and v < 2 ^ 53 then
    return "int", format("%.0f", v)
  end
  if v ~= v then return "double", '"NaN"' end
  if v == huge then return "double", '"Infinity"' end
  if v == -huge then return "double", '"-Infinity"' end
  return "double", format("%.17g", v)
end

-- The digits of a count: an exact number, an integer, a 64-bit cdata or a "0x" string; nil if it does not fit in int64.
function M.count(v)
  if type(v) == "number" then return digits(v) end
  if type(v) == "string" then return nil end
  local kind, text = M.number(v)
  return kind == "int" and text or nil
end

return M
