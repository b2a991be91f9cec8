-- Lists of everything that has a name: events, PMUs, tracepoints, as tables that print well.
--
-- A pattern is part of a name; with * or ? it is a glob over the whole name; with ^, $, % or [ a Lua pattern. The name
-- of a kind also stands for all of that kind. Case does not matter.

local core = require "perf.core"
local argument = require "perf.base.argument"
local cache = require "perf.names.cache"
local files = require "perf.kernel.files"
local format = require "perf.base.format"
local keys = require "perf.base.keys"

local list = { kinds = { "hardware", "software", "cache", "pmu", "tracepoint", "raw", "breakpoint" } }

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
  return {name, row.kind, row.unit or "", row.description or ""}
end

function Row.__tostring(row)
  return format.align{cells(row)}
end

function Rows.__tostring(rows)
  local out = {{"NAME", "KIND", "UNIT", "DESCRIPTION"}}
  for _, row in ipairs(rows) do out[#out + 1] = cells(row) end
  return format.align(out)
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
  local function add(row)
    if matches(row.name) or row.alias and matches(row.alias) or pattern and pattern:lower() == row.kind then
      out[#out + 1] = setmetatable(row, Row)
    end
  end
  local defs = core.defs()
  for _, kind in ipairs{"hardware", "software"} do
    for _, row in ipairs(defs[kind]) do
      add{name = row.name, alias = row.alias, kind = kind, unit = row.unit, description = row.description}
    end
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
