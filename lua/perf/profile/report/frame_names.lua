-- Functions that the reports share: names that are safe in each format, amounts as text, and which profiles can be compared.
local format = require "perf.base.format"
local utf8 = require "perf.base.utf8"

local M = {}

local function hex(byte) return ("\\x%02x"):format(byte) end

-- Valid UTF-8. A byte that belongs to no character is written \xNN, so nothing of a name is lost.
function M.utf8(s) return utf8.valid(s, hex) end

-- One line of text: valid UTF-8 without control characters.
function M.line(s)
  return (M.utf8(s):gsub("%c", function(c)
    return c == "\n" and "\\n" or c == "\t" and " " or hex(c:byte())
  end))
end

-- A count of any type of this library (number, 64-bit cdata, "0x" string) as a number.
function M.number(v)
  return tonumber(v) or 0
end

-- An amount of an event in its unit: "1.235 ms", "1,234 B", "1,234".
function M.amount(v, unit)
  if unit == "ns" then return format.ns(v) end
  return format.commas(v) .. (unit == "bytes" and " B" or "")
end

-- A share in percent as text: "12.3"; no text for a whole of 0.
function M.percent(part, whole)
  return whole ~= 0 and ("%.1f"):format(100 * part / whole) or "-"
end

-- Why a profile cannot be compared with an earlier one; nil if both are of the same event.
function M.other_event(prof, before)
  if before.event == prof.event then return nil end
  return ("a profile of %s expected, got one of %s"):format(prof.event, before.event)
end

return M
