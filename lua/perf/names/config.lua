-- Converts terms to attr fields, by a PMU's sysfs directory.
--
-- A term is looked up as, in this order: the name of one of the PMU's events (it stands for that event's terms, which the other
-- terms override), a term that every PMU accepts, one of the PMU's format files, rNNN, or on a core PMU the name of a generic
-- event. All bits are combined at the end, so that an overridden term leaves no bits behind.

local core = require "perf.core"
local keys_of = require "perf.base.keys"
local pairs_of = require "perf.base.pairs"
local suggest = require "perf.base.suggest"
local terms = require "perf.names.terms"
local u64 = require "perf.base.u64"

local config = {}

local function unknown(pmu, term, fail)
  local known, near = pmu:formats(), keys_of(terms.common)
  for _, list in ipairs{known, pmu:events()} do
    for _, name in ipairs(list) do near[#near + 1] = name end
  end
  fail(term.at, "unknown term '%s'@@; the PMU %s%s", term.key,
    #known > 0 and "has: " .. table.concat(known, ", ") or "'" .. pmu.name .. "' has no terms of its own",
    suggest.hint(term.key, near))
end

-- The PMU's event that a term names. Like perf(1), accepts the value 1 too if no format has the name.
local function event_of(pmu, term)
  if terms.common[term.key] then return nil end
  if not term.value or term.value == "1" and not pmu:format(term.key) then return pmu:event(term.key) end
end

local Builder = {}
Builder.__index = Builder

-- Set a term of the PMU. Its value is kept until all terms are known.
function Builder:set(term, format)
  local v = terms.number(term, self.fail)
  if not u64.fits(v, format.width) then
    self.fail(term.value_at or term.at, "the value %s of '%s' does not fit into %d bits (%s)", core.hex(v), term.key,
      format.width, format.text)
  end
  self.values[term.key] = v
end

function Builder:event(term, found)
  if self.alias then self.fail(term.at, "both '%s' and '%s' are events", self.alias.name, term.key) end
  self.alias = {name = term.key, event = found}
  local function fail(_, message, ...)
    self.fail(term.at, "event '%s' of sysfs (%s): " .. message, term.key, found.terms, ...)
  end
  for _, own in ipairs(terms.parse(found.terms, 1, fail)) do
    local format = self.pmu:format(own.key)
    if own.value == "?" then
      self.wanted[own.key] = term
    elseif terms.common[own.key] then
      terms.common[own.key](self.fields, own, fail)
    elseif format then
      local outer = self.fail
      self.fail = fail
      self:set(own, format)
      self.fail = outer
    else
      fail(own.at, "unknown term '%s'@@%s", own.key, suggest.hint(own.key, keys_of(terms.common)))
    end
  end
end

function Builder:term(term)
  local pmu = self.pmu
  local found = event_of(pmu, term)
  local format = not found and pmu:format(term.key)
  if found then
    return self:event(term, found)
  elseif terms.common[term.key] then
    return terms.common[term.key](self.fields, term, self.fail)
  elseif format then
    self.wanted[term.key] = nil
    return self:set(term, format)
  elseif not term.value then
    local generic = self.generic(pmu, term.key)
    if generic then
      self.generic_name, self.fields.type, self.fields.config = term.key, generic.type, generic.config
      self.unit, self.description = generic.unit, generic.description
      return
    end
    local digits = term.key:match("^r0x(%x+)$") or term.key:match("^r(%x+)$")
    if digits then
      local v, why = u64.parse_hex(digits)
      if not v then self.fail(term.at, "'%s' %s", term.key, why) end
      self.fields.config = v
      return
    end
  end
  unknown(pmu, term, self.fail)
end

-- The attr fields of an event of one PMU.
-- @tparam table list the result of terms.parse
-- @func fail fail(at, format, ...) raises
-- @func generic generic(pmu, name): {type=, config=, unit=} of a generic event that the PMU counts, or nil
-- @return attr
-- @return {label=, unit=, scale=, per_pkg=, snapshot=, description=} from the terms and the event
function config.build(pmu, list, fail, generic)
  local self = setmetatable({pmu = pmu, fail = fail, generic = generic, fields = {}, values = {}, wanted = {}}, Builder)
  -- Apply the event's terms first, wherever the event is in the list: the other terms override them.
  local others = {}
  for _, term in ipairs(list) do
    local found = event_of(pmu, term)
    if found then self:event(term, found) else others[#others + 1] = term end
  end
  for _, term in ipairs(others) do self:term(term) end
  for key, term in pairs_of(self.wanted) do fail(term.at, "event '%s' needs a value: %s=", term.key, key) end
  if self.generic_name and (next(self.values) or self.alias) then
    fail(list[1].at, "'%s' cannot be combined with the PMU's own terms", self.generic_name)
  end
  local attr = self.fields
  attr.type = attr.type or pmu.type
  for key, v in pairs_of(self.values) do
    local format = pmu:format(key)
    attr[format.field] = core.bor(attr[format.field] or 0, u64.scatter(v, format.ranges))
  end
  attr.config = attr.config or 0
  local event = self.alias and self.alias.event or {}
  local label = attr.label
  attr.label = nil
  return attr, {label = label, unit = self.unit or event.unit, scale = event.scale, per_pkg = event.per_pkg,
    snapshot = event.snapshot, description = self.description or event.terms}
end

return config
