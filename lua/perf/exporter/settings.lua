-- Checks the options and environment variables of tracing. An invalid option raises, since it is the program's mistake; an
-- invalid variable is ignored with a warning, since no program should fail because of its environment.
local argument = require "perf.base.argument"
local core = require "perf.core"
local http = require "perf.exporter.http"

local M = {}

local floor, huge = math.floor, math.huge

local function whole(low)
  return { what = ("a whole number from %d to 16777216"):format(low),
    fits = function(v) return v == floor(v) and v >= low and v <= 2 ^ 24 end }
end

M.count, M.size = whole(0), whole(1)
M.seconds = { what = "a number from 0", fits = function(v) return v >= 0 end } -- NaN is not
M.period = { what = "a number above 0", fits = function(v) return v > 0 and v < huge end }

-- How many characters a value may have: math.huge is no limit.
M.length = { what = "a whole number from 0, or math.huge", fits = function(v) return v >= 0 and v == floor(v) end }

-- An option's number, or a mistake in the first argument of the public function.
function M.option(name, v, range)
  if v ~= nil and (type(v) ~= "number" or not range.fits(v)) then
    argument.raise(("option '%s': %s expected, got %s"):format(name, range.what, type(v) == "number" and v or type(v)), 1)
  end
  return v
end

-- The first of some variables that is set and not empty.
-- @return its text, its name; nil when there is none
function M.text(...)
  for _, name in ipairs { ... } do
    local v = os.getenv(name)
    if v and v ~= "" then return v, name end
  end
end

-- Write warnings to stderr, each once in a process.
function M.print_warnings(warnings)
  for _, text in ipairs(warnings) do
    if core.first_time(text) then pcall(io.stderr.write, io.stderr, "perf.tracer: ", text, "\n") end
  end
end

-- Warn of a value of a variable that is not supported. Keys and passwords are not shown: headers hold them, and URLs may.
function M.warn(warnings, name, text, why)
  if name:find "_HEADERS$" then text = "***" elseif name:find "_ENDPOINT$" then text = http.shown(text) end
  warnings[#warnings + 1] = ("%s=%s: %s"):format(name, text, why)
end

-- The number in the first of some variables that is set.
-- @tab range one of the above
-- @param ... names
-- @return number; nil when there is none
function M.number(warnings, range, ...)
  local text, name = M.text(...)
  local v = tonumber(text or "")
  if v and range.fits(v) and v < huge then return v end
  if text then M.warn(warnings, name, text, range.what .. " expected; it is ignored") end
end

-- The same for a variable in milliseconds; returns seconds.
function M.milliseconds(...)
  local ms = M.number(...)
  return ms and ms / 1e3
end

local function char(h) return string.char(tonumber(h, 16)) end

-- Decodes text with characters such as "%20".
function M.decode(text) return (text:gsub("%%(%x%x)", char)) end

-- The pairs of "key1=value1,key2=value2", percent-encoded, in the first of some variables that is set.
-- @return table by key; name of the variable
function M.list(warnings, ...)
  local t, text, name = {}, M.text(...)
  for item in (text or ""):gmatch "[^,]+" do
    local key, value = item:match "^%s*([^=]-)%s*=%s*(.-)%s*$"
    if key and key ~= "" then
      t[M.decode(key)] = M.decode(value)
    elseif item:find "%S" then
      M.warn(warnings, name, item, "key=value expected; it is ignored")
    end
  end
  return t, name
end

return M
