-- Functions that the reports share: names that are safe in each format, amounts as text, and which profiles can be compared.
local format = require "perf.base.format"
local utf8 = require "perf.base.utf8"

local M = {}

local function hex(byte) return ("\\x%02x"):format(byte) end

-- Valid UTF-8. A byte that belongs to no character is written \xNN, so nothing of a name is lost.
function M.utf8(s) return utf8.valid(s, hex) end

-- One line of text: valid UTF-8 without control characters.
M.line = utf8.line

-- The line of a frame with its colon, ":12", or ":12-15" for compiled code of several lines; "" without a line.
function M.lines(f)
  if not f.line then return "" end
  return (":%d"):format(f.line) .. (f.lastline and ("-%d"):format(f.lastline) or "")
end

-- The name of a frame with the function first: "parse app.lua:12"; the name as it is if it is not Lua code.
function M.title(f)
  if not (f.file and f.func) then return utf8.isolated(f.name) end
  return ("%s %s%s"):format(utf8.isolated(f.func), utf8.isolated(f.file), M.lines(f))
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

-- Returns the reason why a profile has no samples; nil if it has some.
function M.why_empty(prof)
  if M.number(prof.sample_count) > 0 then return nil end
  local lost = M.number(prof.lost)
  if lost > 0 then return ("all %s were lost: a longer period or a lower frequency loses fewer"):format(format.commas(lost)) end
  return ("%s did not happen, or not often enough for a sample%s"):format(prof.event,
    prof.filter and ", or the filter left out all samples" or "")
end

-- A change as text: of bytes, or of a share, in percent: "+1,234 B", "-12.3".
function M.change(v, unit)
  if unit ~= "bytes" then return ("%+.1f"):format(100 * v) end
  return (v < 0 and "-" or "+") .. M.amount(math.abs(v), unit)
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
