-- Checks of options: the table that is the last argument of a public function, as perf.api.options declares it.
--
--     local check = checks.options("perf.compare", { events = function(v) return "the mistake" or nil end })
--     opts = check(opts, 2) -- or raises a mistake in argument 2
local argument = require "perf.base.argument"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"

local M = {}

-- "a, b or c"; "" for an empty list
function M.enumerate(list)
  if #list < 2 then return list[1] or "" end
  return table.concat(list, ", ", 1, #list - 1) .. " or " .. list[#list]
end

-- A row of perf.api.options, prepared for checks: its Lua types and its possible strings as sets.
local function prepare(row, check)
  local prepared, words = { row = row, check = check, integer = row[2]:find("integer", 1, true) ~= nil }, {}
  for kind in (row.any and "" or row[2]):gmatch "[^|]+" do
    if kind:find "^[%u{]" then kind = "table" end -- an object, or an array
    kind = kind == "integer" and "number" or kind
    words[#words + 1] = kind
    prepared.types = prepared.types or {}
    prepared.types[kind] = true
  end
  prepared.expected = row.expected or not row.any and M.enumerate(words)
  if row.oneof then
    local quoted, set = {}, {}
    for i, value in ipairs(row.oneof) do quoted[i], set[value] = '"' .. value .. '"', true end
    prepared.oneof, prepared.values = set, row.expected or M.enumerate(quoted)
  end
  if row.options and not row.any then prepared.nested = M.options(row.options, nil, row[1] .. ".") end
  return prepared
end

-- The largest number of an option that declares none: larger integers have no exact double.
local LARGEST = 2 ^ 53

-- The valid numbers of an option, in words: "whole number of at least 2".
-- @number[opt] v the number that is not valid; if it is larger than the option allows, the words include the largest
function M.number(row, v)
  if row.what then return row.what end
  local what = row[2]:find "integer" and "whole number" or "number"
  if row.most then return ("%s from %.14g to %.14g"):format(what, row.least or -math.huge, row.most) end
  local most = v and v > LARGEST and ", at most 2^53," or ""
  if row.least == 1 and what == "whole number" then return "positive integer" .. most end
  if row.least then return ("%s of at least %.14g%s"):format(what, row.least, most) end
  return row.above and ("%s above %.14g%s"):format(what, row.above, most) or what
end

-- Check a number: returns the mistake as text, or nil.
local function number_fault(row, integer, v)
  if not (integer or row.least or row.most or row.above) then return end
  local most = row.most or (row.least or row.above) and LARGEST or integer and 2 ^ 64 or math.huge
  if v >= (row.least or integer and -2 ^ 63 or -math.huge) and v <= most and not (row.above and v <= row.above)
    and not (integer and v ~= math.floor(v)) then return end
  return ("%s expected, got %s"):format(M.number(row, v), tostring(v))
end

function M.wrong_number(row, v) return number_fault(row, row[2]:find("integer", 1, true) ~= nil, v) end

-- Check that a string can be a path: returns the mistake as text, or nil.
function M.path(v)
  if v:find("\0", 1, true) then return "a path has no zero bytes" end
end

-- Check that a string can be an event's filter: returns the mistake as text, or nil.
function M.filter(v)
  if v:find("\0", 1, true) then return "a filter has no zero bytes" end
end

-- Check one of an option's possible strings: returns the mistake as text, or nil.
local function wrong_string(option, v, noun)
  if option.oneof[v] then return nil end
  if not noun then return option.values .. " expected" .. M.hint(v, option.oneof) end
  return ("unknown %s'%s'; there are %s"):format(noun, tostring(v), table.concat(option.row.oneof, ", "))
end

-- Check the value of an option: returns the mistake as text, or nil.
local function fault(option, v)
  local kind, noun = type(v), option.row.noun
  if option.types and not option.types[kind] then return ("%s expected, got %s"):format(option.expected, kind) end
  local wrong = option.oneof and kind == "string" and wrong_string(option, v, noun and noun .. " ")
  for i = 1, option.oneof and kind == "table" and #v or 0 do wrong = wrong or wrong_string(option, v[i], "") end
  if wrong then return wrong end
  if option.check then return option.check(v) end
  return kind == "number" and option.types and number_fault(option.row, option.integer, v) or nil
end

-- Check a value by a row of perf.api.options, and perhaps by a function as for M.options: returns the mistake as text, or nil.
function M.wrong(row, v, check) return fault(prepare(row, check), v) end

-- The end of a message about an unknown name: "; did you mean 'freq'?", or "".
function M.hint(name, known)
  return late "perf.base.suggest".hint(tostring(name), late "perf.base.keys"(known))
end

-- The message about an unknown option.
function M.unknown(name, known)
  if type(name) == "number" then
    return ("a table of options has a name for each value, but [%s] has none; there are %s"):format(name,
      table.concat(late "perf.base.keys"(known), ", "))
  end
  local hint = M.hint(name, known)
  for own, option in pairs_of(hint == "" and known or {}) do
    for _, word in ipairs(type(option) == "table" and option.row and option.row.also or {}) do
      if word == name then hint = ("; did you mean '%s'?"):format(own) end
    end
  end
  return ("unknown option '%s'%s"):format(tostring(name), hint)
end

-- The names that the table of an event may have.
local function fields_of_events()
  local fields = { event = true, modifiers = true, label = true, unit = true, scale = true }
  for _, row in ipairs(require "perf.core".defs().attr) do fields[row.name] = true end
  return fields
end

-- Raise an error if a table of events has options, which belong in the last argument.
-- @param events the argument
-- @string name the function's name in perf.api.options
-- @int position of the argument
function M.check_no_options(events, name, position)
  if type(events) ~= "table" or events[1] ~= nil then return end
  local rows, fields = M.rows(name), nil
  for key in pairs_of(events) do
    local hint = type(key) == "string" and M.hint(key, rows) or ""
    if rows[key] or hint ~= "" then
      fields = fields or fields_of_events() -- `cgroup` is an option, and also a field
      if not fields[key] then
        local what = rows[key] and ("'%s' is an option;"):format(key) or ("unknown option '%s'%s"):format(key, hint)
        argument.raise(what .. " options are in the last argument", position)
      end
    end
  end
end

-- The help text of an option, with its possible strings if the text has not the first of them, and its default.
function M.help(row)
  local text, defaults = row[3], {}
  if row.oneof and not text:find(row.oneof[1], 1, true) then text = text .. ": " .. M.enumerate(row.oneof) end
  for i, name in ipairs(row.variables or {}) do defaults[i] = name .. (row.scale and " in milliseconds" or "") end
  local value = row.default
  if value == nil then value = row.otherwise end
  if value ~= nil then defaults[#defaults + 1] = (type(value) == "string" and "%q" or "%s"):format(tostring(value)) end
  return text .. (defaults[1] and " (default: " .. M.enumerate(defaults) .. ")" or "")
end

-- The rows of a function's options, by name.
function M.rows(name)
  local rows = {}
  for _, row in ipairs(late "perf.api.options"[name]) do rows[row[1]] = row end
  return rows
end

-- A check of a function's options. It is prepared at its first call, so that functions which are never called cost nothing.
-- @param declared the function's name in perf.api.options; or rows, with `required` if one of them must be given
-- @param[opt] checks {name = function(value)}, which returns the mistake as text
-- @param[opt] prefix of the names in messages, for an option that is a table: "limits."
-- @return function(opts, position): the options with their defaults, a new table. A mistake is raised for the argument `position`
-- of the public function that was called; the object of a method is argument 1. And a function(opts), which returns the mistake
-- as text, or nil
function M.options(declared, checks, prefix)
  local method = type(declared) == "string" and declared:match ":(.*)"
  local list, known, needed

  local function make()
    local rows, all, by_name = type(declared) == "table" and declared, {}, {}
    rows = rows or late "perf.api.options"[declared]
    needed = rows.required
    for i, row in ipairs(rows) do
      all[i] = prepare(row, checks and checks[row[1]])
      by_name[row[1]], needed = all[i], needed or row.required
    end
    list, known = all, by_name -- last, since memory may run out before
  end

  -- Whether the options are valid, by a quick check that suffices for most.
  local function is_right(given)
    if needed or getmetatable(given) then return false end
    for name, v in pairs_of(given) do
      local option = known[name]
      if not option or option.row.excludes or fault(option, v) then return false end
    end
    return true
  end

  local function mistake(opts)
    if not list then make() end
    local given = opts == nil and not needed and {} or opts
    if type(given) ~= "table" or argument.is_perf(given) then
      return (prefix and ("option '%s': "):format(prefix:sub(1, -2)) or "")
        .. ("table of options expected, got %s"):format(argument.kind(opts))
    end
    if is_right(given) then return nil end
    for name in pairs_of(given) do
      if not known[name] then return (prefix and ("option '%s': "):format(prefix:sub(1, -2)) or "") .. M.unknown(name, known) end
    end
    for _, option in ipairs(list) do
      local name = option.row[1]
      local v = given[name]
      local wrong = v ~= nil and fault(option, v)
      if wrong then return ("option '%s%s': %s"):format(prefix or "", name, wrong) end
      if v == nil and option.row.required then
        return ("option '%s'%s expected"):format(name, option.expected and ": " .. option.expected or "")
      end
      for _, other in ipairs(v ~= nil and option.row.excludes or {}) do
        if given[other] ~= nil and given[other] ~= known[other].row.unset then
          return ("options '%s' and '%s' exclude each other"):format(name, other)
        end
      end
    end
  end

  return function(opts, position)
    local wrong = mistake(opts)
    if wrong and position == 1 and not prefix then argument.check_dot(opts) end
    if wrong and method then argument.raise_in_method(method, wrong, position) end
    if wrong then argument.raise(wrong, position) end
    local given = opts or {}
    local result = {}
    for _, option in ipairs(list) do
      local v = given[option.row[1]]
      if v == nil then v = option.row.default end
      if option.nested and type(v) == "table" then v = option.nested(v, position) end
      result[option.row[1]] = v
    end
    return result
  end, mistake
end

return M
