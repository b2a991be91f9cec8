--- Events by the names of the CPU vendors' manuals, as libpfm4 knows them.
--
--     perf.open("INST_RETIRED:ANY_P:u")                    -- libpfm4 is asked about names that perf itself does not know
--     local attr = assert(perf.pfm.encode("skl::UOPS_RETIRED:TOTAL_CYCLES"))
--     for _, e in ipairs(perf.pfm.list("retired")) do print(e.name, e.description) end
--
-- A name is `[PMU::]EVENT[:UNIT MASK ...][:MODIFIER[=VALUE] ...]`: modifiers are u, k, h, precise=, period=, freq=, pinned, excl,
-- mg, mh and those of the PMU (c= counter mask, i invert, e edge ...). Case does not matter. libpfm4 finds the PMUs of this
-- machine; if it finds none, it has the kernel's generic events (`perf::PERF_COUNT_SW_PAGE_FAULTS`, `page-faults`) and raw ones
-- (`perf_raw::r1a8`). The environment variable LIBPFM_FORCE_PMU, read at the first use of libpfm4, selects another CPU's tables
-- ("skl", "icx") instead.
-- @module perf.names.pfm
local argument = require "perf.base.argument"
local brief = require "perf.base.brief"
local extension = require "perf.base.optional"
local late = require "perf.base.late"
local printed = require "perf.base.printed"
local ext = extension.load("pfm", "libpfm4", "libpfm4-dev", "perf.names.pfm")

local M = { available = true, version = ext.version }

local NOTFOUND, UMASK, ATTR, ATTR_VAL = -4, -6, -8, -9

-- Whether libpfm4 supports this machine; it detects PMUs only when it is initialized.
local here
local function present()
  if here then return here end
  local pmus, message, code = ext.pmus()
  if not pmus then return nil, message, code end
  here = {}
  for _, pmu in ipairs(pmus) do
    if pmu.present then here[#here + 1] = pmu end
  end
  return here
end

local function names_of(rows, field)
  local out = {}
  for _, row in ipairs(rows) do
    if field == nil or row.umask == field then out[#out + 1] = row.name end
  end
  return table.concat(out, ", ")
end

-- The set of all names of events, with and without their PMU; libpfm4's tables do not change.
local all
local function known()
  if all then return all end
  all = {}
  for _, pmu in ipairs(present() or {}) do
    for _, event in ipairs(ext.events(pmu.index) or {}) do
      all[#all + 1] = event.name
      all[#all + 1] = pmu.name .. "::" .. event.name
    end
  end
  return all
end

-- A remedy, which is appended to libpfm4's own message.
local function hint(name, number)
  -- "pmu::EVENT:REST" -> "pmu::EVENT"
  local pmu, event = name:match "^(.-)::([^:]+)"
  event = pmu and pmu .. "::" .. event or name:match "^[^:]+" or name
  if number == NOTFOUND then
    local tables = names_of(present() or {})
    if tables == "" then return " (it has the tables of no PMU of this machine)" end
    return (" (it has the tables of %s)%s"):format(tables, late "perf.base.suggest".hint(event, known()))
  end
  local attributes = (number == UMASK or number == ATTR or number == ATTR_VAL) and ext.attributes(event)
  if not attributes then return "" end
  local masks, modifiers = names_of(attributes, true), names_of(attributes, false)
  return (" (%s%smodifiers of %s: %s)"):format(masks ~= "" and "unit masks: " .. masks or "", masks ~= "" and "; " or "",
    event, modifiers)
end

--- The attr fields of an event.
-- @tparam string name in libpfm4's syntax
-- @treturn table attr fields: `type`, `config` and those of `config1`, `config2`, `exclude_user`, `exclude_kernel`, `exclude_hv`,
-- `exclude_host`, `exclude_guest`, `precise_ip`, `sample_period`, `sample_freq`, `pinned`, `exclusive` that are set
-- @treturn string the event's full name, with every mask and modifier
-- @treturn ?integer the CPU on which it must be opened, if the name has `cpu=`
-- @fails "ENOENT" if there is no such event, "EINVAL" for a unit mask or modifier that it does not have, "EOPNOTSUPP" if libpfm4
-- does not know this machine
function M.encode(name)
  local attr, full, code, number = argument.call_as_argument(1, "", ext.encode, argument.check_type(name, "string"))
  if attr and code then return attr, full, code end
  if attr then return attr, full end
  return nil, ("%s: libpfm4: %s%s"):format(brief(name), full, hint(name, number)), code
end

local TRACEPOINT = 2

-- Like encode, but returns only nil on failure, for callers that have their own error message. Tracepoints are left out: libpfm4
-- reads them from debugfs once, as the user that the process had then, but tracefs decides who may use them now.
function M.find(name)
  local attr = ext.encode(name)
  return attr and attr.type ~= TRACEPOINT and attr or nil
end

--- The PMUs whose events libpfm4 encodes here.
-- @treturn {table,...} `{name=, description=, events=}` @fails
function M.pmus()
  local pmus, message, code = present()
  if not pmus then return nil, "libpfm4: " .. message, code end
  local out = {}
  for i, pmu in ipairs(pmus) do
    out[i] = { name = pmu.name, description = pmu.description, events = pmu.events }
  end
  return printed.rows(out)
end

--- The events of these PMUs, one row for each unit mask.
-- @tparam[opt] string pattern as in `perf.list`: part of a name, a glob with * or ?, or a Lua pattern
-- @treturn {table,...} `{name=, kind="pfm", pmu=, description=}` @fails
function M.list(pattern)
  if pattern ~= nil then argument.check_type(pattern, "string") end
  local pmus, message, code = present()
  if not pmus then return nil, "libpfm4: " .. message, code end
  local names, rows = {}, {}
  local function add(pmu, name, description)
    if rows[name] then return end
    names[#names + 1] = name
    rows[name] = { name = name, kind = "pfm", pmu = pmu.name, description = description }
  end
  for _, pmu in ipairs(pmus) do
    for _, event in ipairs(ext.events(pmu.index) or {}) do
      local whole, masks = pmu.name .. "::" .. event.name, 0
      for _, attribute in ipairs(event.attributes) do
        if attribute.umask then
          masks = masks + 1
          add(pmu, whole .. ":" .. attribute.name, ("%s: %s"):format(event.description, attribute.description))
        end
      end
      if masks == 0 then add(pmu, whole, event.description) end
    end
  end
  local out, list = {}, late "perf.names.list"
  for i, name in ipairs(list.select(names, pattern)) do out[i] = rows[name] end
  return list.printed(out)
end

return M
