-- Lists of everything that has a name: events, PMUs, tracepoints, as tables that print well.
--
-- A pattern is part of a name; with * or ? it is a glob over the whole name; with ^, $, % or [ a Lua pattern. The name
-- of a kind also stands for all of that kind, as do perf's names of kinds. Case does not matter.

local core = require "perf.core"
local argument = require "perf.base.argument"
local cache = require "perf.names.cache"
local files = require "perf.kernel.files"
local format = require "perf.base.format"
local memory = require "perf.names.memory"
local keys = require "perf.base.keys"

local list = { kinds = { "hardware", "software", "cache", "pmu", "tracepoint", "raw", "breakpoint", "memory" } }

local kind_named = { hw = "hardware", sw = "software", hwcache = "cache" } -- perf's names, and those of our kinds
for _, kind in ipairs(list.kinds) do kind_named[kind] = kind end

-- The kind that a pattern names; or nil.
-- @string[opt] pattern
function list.kind_of(pattern) return pattern and kind_named[pattern:lower()] end

-- A function that matches a name against the pattern.
local function matcher(pattern)
  if not pattern then return function() return true end end
  local lower = pattern:lower()
  if pattern:find("[%^%$%%%[]") then
    local ok, why = pcall(string.find, "", pattern)
    if not ok then argument.raisef("'%s': %s", pattern, (tostring(why):gsub("^.-:%d+: ", ""))) end
    return function(name) return name:find(pattern) ~= nil or name:lower():find(pattern) ~= nil end
  end
  return function(name) return files.matches(name:lower(), lower) end
end

-- Raise if the pattern is invalid.
-- @string[opt] pattern
function list.check(pattern) matcher(pattern) end

-- The names that match a pattern.
-- @tparam {string,...} all
-- @string[opt] pattern
function list.select(all, pattern)
  local out, matches = {}, matcher(pattern)
  for _, name in ipairs(all) do
    if matches(name) then out[#out + 1] = name end
  end
  return out
end

local Row, Rows = {}, {}

local function cells(row)
  local name = row.alias and ("%s OR %s"):format(row.name, row.alias) or row.name
  return {name, row.kind, row.unit or "", (row.counted == false and "(not counted here) " or "") .. (row.description or "")}
end

function Row.__tostring(row)
  return format.align{cells(row)}
end

-- The table of rows as text.
-- @bool short one line for the tracepoints of a subsystem
function list.text(rows, short)
  local out, count = {{"NAME", "KIND", "UNIT", "DESCRIPTION"}}, {}
  for _, row in ipairs(rows) do
    local group = short and row.kind == "tracepoint" and row.name:match("^(.-):")
    if group then
      if not count[group] then
        out[#out + 1] = {group .. ":*", row.kind, ""}
        count[group] = {n = 0, cells = out[#out]}
      end
      local known = count[group]
      known.n = known.n + 1
      known.cells[4] = ("%s: perf.list \"%s:*\""):format(format.count(known.n, "event"), group)
    else
      out[#out + 1] = cells(row)
    end
  end
  return format.align(out, nil, { { 4, 12, cut = true }, { 4, 0 }, { 3, 0 }, { 2, 0 }, { 1, 8 } })
end

-- A REPL prints the whole table: without a pattern it would be thousands of lines.
function Rows.__tostring(rows) return list.text(rows, #rows > 100) end

-- Make rows from elsewhere print like those of `of`.
function list.printed(rows)
  for _, row in ipairs(rows) do setmetatable(row, Row) end
  return setmetatable(rows, Rows)
end

local function pmu_events(pmus, add)
  local seen = {}
  for _, owner in ipairs(pmus:all()) do
    local family = pmus:family(owner.name)
    for _, event in ipairs(owner:events()) do
      local full = ("%s/%s/"):format(family, event)
      if not seen[full] then
        seen[full] = true
        local facts = owner:event(event) or {}
        add{name = full, kind = "pmu", pmu = family, unit = facts.unit, scale = facts.scale, description = facts.terms}
      end
    end
  end
end

-- Rows that show the syntax of events that cannot be listed: rNNN, terms of each PMU, addresses.
local function descriptors(pmus, add)
  add{name = "rNNN", kind = "raw", description = "Raw event of the CPU, NNN in hexadecimal"}
  local seen = {}
  for _, owner in ipairs(pmus:all()) do
    local family = pmus:family(owner.name)
    local formats = not seen[family] and owner:formats() or {}
    seen[family] = true
    if #formats > 0 then
      add{name = ("%s/TERM=VALUE,.../"):format(family), kind = "raw", pmu = family,
        description = "Terms: " .. table.concat(formats, ", ")}
    end
  end
  add{name = "mem:ADDRESS[/LENGTH][:rwx]", kind = "breakpoint", description = "Accesses of an address"}
end

-- The events of a machine.
-- @string[opt] pattern
-- @treturn table see perf.list; if it is empty and the tracepoints could not be looked up, also message, code
function list.of(pmus, tracepoints, pattern)
  local out, matches = setmetatable({}, Rows), matcher(pattern)
  local kind_of_all = list.kind_of(pattern)
  local function add(row)
    if matches(row.name) or row.alias and matches(row.alias) or row.kind == kind_of_all then
      out[#out + 1] = setmetatable(row, Row)
    end
  end
  local defs = core.defs()
  for _, kind in ipairs{"hardware", "software"} do
    for _, row in ipairs(defs[kind]) do
      add{name = row.name, alias = row.alias, kind = kind, unit = row.unit, description = row.description}
    end
  end
  for _, event in ipairs(memory.events) do
    add{name = event.name, kind = "memory", unit = event.unit, description = event.description}
  end
  for _, event in ipairs(cache.all()) do add{name = event.name, kind = "cache", description = event.description} end
  pmu_events(pmus, add)
  descriptors(pmus, add)
  local traced, message, code = tracepoints:names()
  for _, name in ipairs(traced or {}) do add{name = name, kind = "tracepoint"} end
  if #out == 0 and message then return out, message, code end
  return out
end

local Machine, Description = {}, {}

function Description.__tostring(d)
  local out = {{d.name, "type " .. d.type}}
  for _, key in ipairs{"cpus", "cpumask", "nr_addr_filters"} do
    if d[key] then out[#out + 1] = {"  " .. key, tostring(d[key])} end
  end
  for _, part in ipairs{"caps", "formats", "events"} do
    for i, key in ipairs(keys(d[part])) do
      local value = d[part][key]
      if part == "events" then value = value.terms .. (value.unit and " [" .. value.unit .. "]" or "") end
      out[#out + 1] = {i == 1 and "  " .. part or "", ("%s = %s"):format(key, value)}
    end
  end
  return format.align(out)
end

function Machine.__tostring(machine)
  local out = {{"PMU", "TYPE", "CPUS", "TERMS", "EVENTS"}}
  for _, d in ipairs(machine) do
    out[#out + 1] = {d.name, tostring(d.type), d.cpus or d.cpumask or "", table.concat(keys(d.formats), ","),
      table.concat(keys(d.events), ",")}
  end
  return format.align(out)
end

-- The PMUs of a machine.
-- @treturn table see perf.pmus
function list.pmus_of(pmus)
  local out = setmetatable({}, Machine)
  for i, owner in ipairs(pmus:all()) do out[i] = setmetatable(owner:describe(), Description) end
  return out
end

return list
