-- Checks the options and environment variables of tracing. An invalid option raises, since it is the program's mistake; an
-- invalid variable is ignored with a warning, since no program should fail because of its environment.
local checks = require "perf.api.check"
local core = require "perf.core"
local http = require "perf.exporter.http"
local trim = require "perf.base.trim"

local M = {}

local unpack = table.unpack or unpack

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

-- Warn about an unsupported value of a variable. Keys and passwords are not shown: headers contain them, and URLs may.
function M.warn(warnings, name, text, why)
  if name:find "_HEADERS$" then text = "***" elseif name:find "_ENDPOINT$" then text = http.shown(text) end
  warnings[#warnings + 1] = ("%s=%s: %s"):format(name, text, why)
end

-- The value of an option in the first of its variables that is set; nil if there is none.
local function read(warnings, row, check)
  local text, name = M.text(unpack(row.variables))
  if not text then return nil end
  if row[2] == "string" then
    local wrong = checks.wrong(row, text, check)
    if not wrong then return text end
    M.warn(warnings, name, text, wrong .. "; " .. (row.ignored or "it is ignored"))
  else
    local v = tonumber(text)
    if v and v < math.huge and not checks.wrong_number(row, v) then
      if v == 0 and row.zero then return row.zero end
      return row.scale and v / row.scale or v
    end
    M.warn(warnings, name, text, checks.number(row, v) .. " expected; it is ignored")
  end
end

-- Set each missing option from its environment variables, or to its usual value.
-- @tab warnings
-- @tab rows of perf.api.options
-- @tab options is changed
-- @tab[opt] own checks, as for checks.options
-- @return options
function M.fill(warnings, rows, options, own)
  for _, row in ipairs(rows) do
    local name = row[1]
    if options[name] == nil and row.variables then options[name] = read(warnings, row, own and own[name]) end
    if options[name] == nil then options[name] = row.otherwise end
  end
  return options
end

local function char(h) return string.char(tonumber(h, 16)) end

-- Decodes text with characters such as "%20".
function M.decode(text) return (text:gsub("%%(%x%x)", char)) end

-- The pairs of "key1=value1,key2=value2", percent-encoded, in the first of some variables that is set.
-- @return table by key; name of the variable
function M.list(warnings, ...)
  local t, text, name = {}, M.text(...)
  for item in (text or ""):gmatch "[^,]+" do
    local key, value = item:match "^([^=]*)=(.*)$"
    if key and key:find "%S" then
      t[M.decode(trim(key))] = M.decode(trim(value))
    elseif item:find "%S" then
      M.warn(warnings, name, item, "key=value expected; it is ignored")
    end
  end
  return t, name
end

return M
