-- The header Retry-After, in both of its forms: a number of seconds, and a date in one of HTTP's three formats.
local M = {}

local months = { jan = 1, feb = 2, mar = 3, apr = 4, may = 5, jun = 6, jul = 7, aug = 8, sep = 9, oct = 10, nov = 11, dec = 12 }

-- Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that a leap day is the last day.
local function days(year, month, day)
  if month <= 2 then year, month = year - 1, month + 12 end
  return 365 * year + math.floor(year / 4) - math.floor(year / 100) + math.floor(year / 400)
    + math.floor((153 * (month - 3) + 2) / 5) + day - 719469
end

-- A date of HTTP: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT" or "Sun Nov  6 08:49:37 1994".
-- @return seconds since 1970, or nil
function M.date(text)
  local day, month, year, hour, minute, second =
    text:match "^%a+, (%d%d)[ -](%a%a%a)[ -](%d+) (%d%d):(%d%d):(%d%d) GMT$"
  if not day then
    month, day, hour, minute, second, year = text:match "^%a%a%a (%a%a%a) ([ %d]%d) (%d%d):(%d%d):(%d%d) (%d%d%d%d)$"
  end
  month = month and months[month:lower()]
  if not month or #year ~= 4 and #year ~= 2 then return nil end
  year = tonumber(year)
  if year < 100 then year = year + (year < 70 and 2000 or 1900) end
  return days(year, month, tonumber(day)) * 86400 + tonumber(hour) * 3600 + tonumber(minute) * 60 + tonumber(second)
end

-- How long a backend asks us to wait.
-- @tab headers of the answer, by name in lower case. Its `date` is the backend's current time; without it our clock is used.
-- @return seconds from 0, or nil
function M.seconds(headers)
  local text = headers["retry-after"]
  if not text then return nil end
  if text:find "^%d+$" then return tonumber(text) end
  local till = M.date(text)
  return till and math.max(till - (M.date(headers.date or "") or os.time()), 0)
end

return M
