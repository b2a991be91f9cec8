-- perf.help: the rows of perf.api and perf.api.classes as text.
local api = require "perf.api"
local argument = require "perf.base.argument"
local checks = require "perf.api.check"
local classes = require "perf.api.classes"
local format = require "perf.base.format"
local options = require "perf.api.options"
local suggest = require "perf.base.suggest"

local M = {}

local WIDTH = 100 -- columns

-- The prefix of the names in a group: "perf.", "perf.data." or "Event:".
local function prefix_of(group)
  if group.class then return group.class .. ":" end
  return group.name and "perf." .. group.name .. "." or "perf."
end

local function overview()
  local rows, modules = {}, {}
  for _, group in ipairs(api) do
    if group.name then
      modules[#modules + 1] = { "", prefix_of(group) .. "*", group.summary }
    else
      for _, row in ipairs(group) do rows[#rows + 1] = { "", "perf." .. row[1], row[3] } end
    end
  end
  for _, row in ipairs(modules) do rows[#rows + 1] = row end
  local names = {}
  for _, class in ipairs(classes) do names[#names + 1] = class.class end
  local last = "\n\nClasses: " .. table.concat(names, ", ")
    .. '\n\nperf.help "measure" shows the arguments of a function, perf.help "Event" or perf.help(object) the methods of a class.'
  return format.align(rows) .. format.folded(last)
end

-- Append rows {name, type, text} of fields or options as lines.
local function add_rows(lines, indent, rows)
  local all = {}
  local function add(row, prefix)
    all[#all + 1] = { prefix .. row[1], row[2] .. ": " .. checks.help(row) }
    for _, inner in ipairs(row.options or {}) do add(inner, row[1] .. ".") end
  end
  for _, row in ipairs(rows) do add(row, "") end
  format.describe(lines, indent, all, math.min(WIDTH, format.columns() or WIDTH))
end

local function page_of(group)
  local rows, prefix = {}, prefix_of(group)
  for _, row in ipairs(group) do rows[#rows + 1] = { "", prefix .. row[1] .. row[2], row[3] } end
  local lines = { (group.class or "perf." .. group.name) .. ": " .. group.summary, format.align(rows) }
  if group.fields then
    lines[#lines + 1] = "Fields:"
    add_rows(lines, "  ", group.fields)
  end
  return table.concat(lines, "\n")
end

-- Calls visit(group, row, full name) for every function and method.
local function each_row(visit)
  for _, list in ipairs { api, classes } do
    for _, group in ipairs(list) do
      for _, row in ipairs(group) do visit(group, row, prefix_of(group) .. row[1]) end
    end
  end
end

-- The meanings of a name: a module, a class, or every function and method of that name.
local function by_name(name)
  local known = {}
  for _, list in ipairs { api, classes } do
    for _, group in ipairs(list) do
      local own = group.class or group.name
      if own and (own == name or "perf." .. own == name) then return page_of(group) end
      known[#known + 1] = own
    end
  end
  local found = {}
  each_row(function(_, row, full)
    if name == row[1] or name == full or "perf." .. name == full or name == full:gsub(":", ".") then
      found[#found + 1] = full .. row[2] .. "\n" .. format.folded("  " .. row[3])
      add_rows(found, "    ", options[full] or {})
    end
    known[#known + 1] = row[1]
  end)
  if not found[1] then argument.raise(("nothing is called '%s'%s"):format(name, suggest.hint(name, known))) end
  return table.concat(found, "\n")
end

-- The API entry of a value: `perf`, one of its functions or modules, or an object. An object may have all methods of several
-- classes; its class is the one with the most methods.
local function by_value(value)
  local perf = require "perf" -- package.loaded.perf may have been cleared
  if rawequal(value, perf) then return overview() end
  for _, group in ipairs(api) do
    local place = group.name and perf[group.name] or perf
    if rawequal(value, place) then return page_of(group) end
    for _, row in ipairs(group) do
      if rawequal(value, place[row[1]]) then return by_name(prefix_of(group) .. row[1]) end
    end
  end
  local best
  local metatable = debug.getmetatable(value)
  local name = type(metatable) == "table" and rawget(metatable, "__name")
  for _, class in ipairs(classes) do
    if name == "perf." .. class.class then return page_of(class) end -- a class may have fields alone
    local has_all = true
    for _, row in ipairs(class) do
      local ok, method = pcall(function() return value[row[1]] end)
      has_all = has_all and ok and type(method) == "function"
    end
    if has_all and #class > (best and #best or 0) then best = class end
  end
  if not best then argument.raise(("a name or an object of this library expected, got %s"):format(type(value))) end
  return page_of(best)
end

-- The text that `help` prints.
function M.text(what)
  if what == nil then return overview() end
  return (type(what) == "string" and by_name or by_value)(what)
end

--- Print the list of functions, or help about a name, a function, a module or an object.
--
--     perf.help()  perf.help "measure"  perf.help "data"  perf.help "Event"  perf.help(event)
--
-- @tparam[opt] any name one, or the function, module or object itself
-- @since 0.2.0
function M.help(what)
  print(M.text(what))
end

return M
