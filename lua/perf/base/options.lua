-- Options, declared once: the table that is the last argument of a public function.
--
--     local check = options.define {
--       event = "string|table",
--       freq = { "number", integer = true, least = 1, excludes = { "period" } },
--       coroutines = { "string", oneof = { "alone", "creator", "resumer" }, default = "alone" },
--     }
--     opts = check(opts, 2) -- or raises a mistake in argument 2
local argument = require "perf.base.argument"
local pairs_of = require "perf.base.pairs"

local M = {}

-- "a, b or c"
local function enumerate(list)
  local text = table.concat(list, ", ", 1, #list - 1)
  return text == "" and list[#list] or text .. " or " .. list[#list]
end

-- Check a number: returns what is wrong with it, or nil.
local function number_fault(row, v)
  if not (row.integer or row.least or row.most or row.above) then return end
  local least, most = row.least or -math.huge, row.most or 2 ^ 53
  if v >= least and v <= most and not (row.above and v <= row.above) and not (row.integer and v ~= math.floor(v)) then return end
  local what = row.what
  if not what then
    what = row.integer and "whole number" or "number"
    if row.most then what = ("%s from %.14g to %.14g"):format(what, least, most)
    elseif row.least then what = ("%s of at least %.14g"):format(what, least)
    elseif row.above then what = ("%s above %.14g"):format(what, row.above) end
  end
  return ("%s expected, got %s"):format(what, tostring(v))
end

-- Check the value of an option: returns what is wrong with it, or nil.
local function fault(row, v)
  local types = row[1]
  if types and not ("|" .. types .. "|"):find("|" .. type(v) .. "|", 1, true) then
    return ("%s expected, got %s"):format(row.type or enumerate(row.types), type(v))
  elseif row.oneof and type(v) == "string" and not row.oneof[v] then
    return (row.type or row.values) .. " expected"
  end
  if row.check then return row.check(v) end
  return type(v) == "number" and types and number_fault(row, v) or nil
end

local function declare(rows, name, declaration)
  local row = { name = name }
  if type(declaration) == "string" then declaration = { declaration } end
  for key, value in pairs_of(declaration) do row[key] = value end
  row.types = {}
  for kind in (row[1] or ""):gmatch "[^|]+" do row.types[#row.types + 1] = kind end
  if row.oneof then
    local quoted, set = {}, {}
    for i, value in ipairs(row.oneof) do quoted[i], set[value] = '"' .. value .. '"', true end
    row.oneof, row.values = set, enumerate(quoted)
  end
  rows[name] = row
end

-- The end of a message about an unknown name: "; did you mean 'freq'?", or "".
function M.hint(name, known)
  return require "perf.base.suggest".hint(tostring(name), require "perf.base.keys"(known))
end

-- Declare the options of a function.
-- @param declared {name = declaration}. A declaration is a string of types, "string|number", or a table with that string at [1]
-- (without one, any type) and: `default`; `integer`, `least`, `most`, `above` for a number; `oneof`, an array of strings;
-- `check(value)`, which returns what is wrong; `excludes`, an array of options that cannot be given with this one; `unset`, a
-- value that excludes nothing; `required`: `check` is called for nil too; and words for messages: `type` for the types, `what`
-- for a valid number
-- @param[opt] more options of several functions, in the same form; false takes one out
-- @return function(opts, position, method): the options with their defaults, a new table. A mistake is raised for the argument
-- `position` of the public function that was called, or of `method` if it is given, whose object is argument 1
function M.define(declared, more)
  local rows, list, needed = {}, {}, false
  for _, t in ipairs { more or {}, declared } do
    for name, declaration in pairs_of(t) do
      if declaration then declare(rows, name, declaration) else rows[name] = nil end
    end
  end
  for _, row in pairs_of(rows) do
    list[#list + 1] = row
    needed = needed or row.required
  end
  table.sort(list, function(a, b) return a.name < b.name end)

  return function(opts, position, method)
    local function bad(format, ...)
      local message = format:format(...)
      if method then argument.raise_in_method(method, message, position) end
      argument.raise(message, position)
    end
    if type(opts) ~= "table" and (opts ~= nil or needed) then bad("table of options expected, got %s", type(opts)) end
    local given, result = opts or {}, {}
    for name in pairs_of(given) do
      if not rows[name] then bad("unknown option '%s'%s", tostring(name), M.hint(name, rows)) end
    end
    for _, row in ipairs(list) do
      local v = given[row.name]
      local wrong
      if v ~= nil or row.required then wrong = fault(row, v) end
      if wrong then bad("option '%s': %s", row.name, wrong) end
      if v == nil then v = row.default end
      result[row.name] = v
    end
    for _, row in ipairs(list) do
      for _, other in ipairs(given[row.name] ~= nil and row.excludes or {}) do
        if given[other] ~= nil and given[other] ~= rows[other].unset then
          bad("options '%s' and '%s' exclude each other", row.name, other)
        end
      end
    end
    return result
  end
end

return M
