-- Parses the text of an event into attr fields.
--
--     HEAD [/TERM,TERM.../] [:]MODIFIERS
--
-- HEAD is a hardware, software or cache event, rNNN, TYPE:CONFIG, GROUP:TRACEPOINT, mem:ADDRESS[/LENGTH][:rwx], a PMU
-- or an event that a PMU's sysfs directory lists. The cheapest sources are tried first: tables, then sysfs, then tracefs, then
-- libpfm4.

local core = require "perf.core"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local argument = require "perf.base.argument"
local brief = require "perf.base.brief"
local breakpoint = require "perf.names.breakpoint"
local config = require "perf.names.config"
local files = require "perf.kernel.files"
local generic = require "perf.names.generic"
local keys_of = require "perf.base.keys"
local lists = require "perf.names.lists"
local memory = require "perf.names.memory"
local modifiers = require "perf.names.modifiers"
local suggest = require "perf.base.suggest"
local terms = require "perf.names.terms"
local u64 = require "perf.base.u64"

local parser = {}

local Parser = {}
Parser.__index = Parser

-- A parser for a machine.
function parser.new(pmus, tracefs)
  return setmetatable({pmus = pmus, tracefs = tracefs}, Parser)
end

-- Returns fail(at, format, ...), which raises "TEXT: MESSAGE at character N"; "@@" in format is replaced by the position.
local function failure(text)
  return function(at, format, ...)
    local where = at and (" at character %d"):format(at) or ""
    if format:find("@@", 1, true) then format = format:gsub("@@", where) else format = format .. where end
    argument.raise(("%s: %s"):format(text, format:format(...)))
  end
end

-- On a hybrid CPU a generic event is one event for each core PMU, whose type is in the high half of config.
local function extended(event, owner)
  return {type = event.type, config = core.u64(core.halves(event.config), owner.type)}
end

function Parser:from_generic(event)
  local found = {kind = event.kind, unit = event.unit, description = event.description, attrs = {}, owners = {}}
  local cores = (event.type == generic.HARDWARE or event.type == generic.HW_CACHE) and event.kind ~= "raw"
    and self.pmus:cores() or {}
  if #cores > 1 then
    for i, owner in ipairs(cores) do found.attrs[i], found.owners[i] = extended(event, owner), owner end
  else
    found.attrs[1] = {type = event.type, config = event.config}
    found.owners[1] = event.type ~= generic.SOFTWARE and self.pmus:cores()[1] or nil
  end
  return found
end

-- The generic events that are allowed between a PMU's slashes.
function Parser:generic_of(owner, name)
  local event = generic.find(name)
  if not event then return nil end
  if event.type == generic.SOFTWARE then return owner.type == generic.SOFTWARE and event or nil end
  if not owner:is_core() then return nil end
  if #self.pmus:cores() < 2 then return event end
  local attr = extended(event, owner)
  return {type = attr.type, config = attr.config, unit = event.unit, description = event.description}
end

-- Build one event for each of several PMUs.
function Parser:from_pmus(owners, list, fail)
  local found = {kind = "pmu", attrs = {}, owners = owners}
  for i, owner in ipairs(owners) do
    local attr, facts = config.build(owner, list, fail, function(p, name) return self:generic_of(p, name) end)
    found.attrs[i] = attr
    if i == 1 then
      for key, value in pairs_of(facts) do found[key] = value end
    end
  end
  return found
end

-- Apply terms to an event that belongs to no PMU.
local function with_common(found, list, fail)
  local fields = {}
  for _, term in ipairs(list) do
    local set = terms.common[term.key]
    if not set then
      fail(term.at, "unknown term '%s'@@%s", term.key, suggest.hint(term.key, keys_of(terms.common)))
    end
    set(fields, term, fail)
  end
  found.label, fields.label = fields.label, nil
  for _, attr in ipairs(found.attrs) do
    for field, value in pairs_of(fields) do attr[field] = value end
  end
  return found
end

local function apply_modifiers(found, letters, at, fail)
  local i, wrong = modifiers.check(letters)
  if i then fail(at + i - 1, wrong:gsub("%%", "%%%%")) end
  for n, attr in ipairs(found.attrs) do
    local owner = found.owners and found.owners[n]
    local marks, why = modifiers.apply(attr, letters, owner and owner:max_precise())
    if not marks then fail(at, "%s", why) end
    found.weak, found.bpf = found.weak or marks.weak, found.bpf or marks.bpf
  end
  return found
end

function Parser:all(text)
  local out = generic.names()
  for _, event in ipairs(memory.events) do out[#out + 1] = event.name end
  for _, owner in ipairs(self.pmus:all()) do
    for _, event in ipairs(owner:events()) do
      out[#out + 1] = event
      out[#out + 1] = ("%s/%s/"):format(owner.name, event)
    end
  end
  if text:find(":", 1, true) then
    for _, name in ipairs(self.tracefs:names() or {}) do out[#out + 1] = name end
  end
  return out
end

-- An event from libpfm4, if that is installed.
local function from_pfm(text)
  local ok, pfm = pcall(late, "perf.names.pfm")
  if not ok or type(pfm) ~= "table" then return nil end
  local attr = pfm.find(text)
  return attr and {kind = "pfm", attrs = {attr}}
end

-- Names of events that are not the kernel's, and what they are.
local TOOL = "an event of the perf command, not of the kernel; see "
local MEMORY = "Lua's memory, not an event of the kernel: only a Lua script is profiled by it"
local ELSEWHERE = {duration_time = TOOL .. "the wall_ns of Counts", user_time = TOOL .. "task-clock",
  system_time = TOOL .. "task-clock", alloc = MEMORY, heap = MEMORY}

-- A text without its modifiers; the same text if it has none.
local function without_modifiers(text)
  local name, letters = text:match "^(.*):([^:]*)$"
  return name and not modifiers.check(letters) and name or text
end

-- Returns what an unknown text seems to be, or nil if it is like nothing that is known.
function Parser:mistake(text)
  local name = without_modifiers(text)
  local elsewhere = ELSEWHERE[name] or memory.elsewhere(name)
  if elsewhere then return elsewhere end
  if self.pmus:get(name) then return ("a PMU, not an event: %s/EVENT/ or %s/TERM=VALUE,.../"):format(name, name) end
  local hint = suggest.hint(name, self:all(name))
  return hint ~= "" and "unknown event" .. hint or nil
end

function Parser:unknown(text)
  failure(text)(nil, "%s", self:mistake(text) or "unknown event")
end

-- Parse a head without slashes and modifiers; nil if it is not one, nil and a reason if it is invalid.
function Parser:head(text)
  local event, why = generic.event(text)
  if event then return self:from_generic(event) end
  if why then return nil, why end
  local owners = not text:find(":", 1, true) and self.pmus:with_event(text) or {}
  if #owners > 0 then
    return self:from_pmus(owners, {{key = text, at = 1}}, failure(text))
  end
end

-- Look up group:name; the second result is a message if tracefs cannot be read.
function Parser:tracepoint(group, name)
  local id, message, code, unknown = self.tracefs:id(group, name)
  if not id then return nil, message, code, unknown end
  return {kind = "tracepoint", attrs = {{type = generic.TRACEPOINT, config = id}}}
end

-- Parse GROUP:NAME, with or without modifiers after another colon.
function Parser:colons(text, fail)
  local group, name, at, letters = text:match("^([^:]+):([^:]+):?()([^:]*)$")
  if not group then return nil end
  if group:find("[*?]") or name:find("[*?]") then
    fail(nil, "a pattern is not one event; perf.tracepoints('%s:%s') lists what it matches", group, name)
  end
  local found, message, code, unknown = self:tracepoint(group, name)
  if found then return apply_modifiers(found, letters, at, fail) end
  return nil, message, code, unknown
end

-- Parse a text without slashes.
function Parser:plain(text, fail)
  local found, why = self:head(text)
  if why then fail(nil, "%s", why) end
  if found then return found end
  local head, at, letters = text:match("^(.*):()([^:]*)$")
  if head then
    found, why = self:head(head)
    if why then fail(nil, "%s", why) end
    if found then return apply_modifiers(found, letters, at, fail) end
  end
  local message, code, unknown
  found, message, code, unknown = self:colons(text, fail)
  found = found or from_pfm(text)
  if found then return found end
  -- Without tracefs, a name with modifiers is more likely to be misspelt than to be a tracepoint.
  if message and not unknown and (without_modifiers(text) == text or not self:mistake(text)) then return nil, message, code end
  self:unknown(text)
end

-- Parse mem:ADDRESS[/LENGTH][:ACCESS]: the event and the position after it.
local function address_of(text, fail)
  local address, at = text:match("^mem:([%w]*)()")
  local addr, why = u64.parse(address)
  if not addr then fail(5, "the address '%s' %s", address, why) end
  local len, bits
  local length, after = text:match("^/(%d%w*)()", at)
  if length then
    len, why = u64.parse(length)
    if not len then fail(at + 1, "the length '%s' %s", length, why) end
    if len == 0 then fail(at + 1, "the length is 0") end
    if not breakpoint.is_length(len) then fail(at + 1, "the length is %s, and must be 1, 2, 4 or 8", length) end
    at = after
  end
  local access, stop = text:match("^:([rwx]+)()", at)
  if access and (stop > #text or text:find("^[:/]", stop)) then
    bits = breakpoint.access(access)
    if not bits then fail(at + 1, "the access '%s' names a letter twice", access) end
    at = stop
  end
  return {kind = "breakpoint", attrs = {breakpoint.attr(addr, len, bits)}}, at
end

-- Parse the terms between slashes from `at` on: the list and the position after it.
local function slashes(text, at, fail)
  local quoted = false
  for i = at + 1, #text do
    local c = text:sub(i, i)
    if c == "'" then quoted = not quoted end
    if c == "/" and not quoted then return terms.parse(text:sub(at + 1, i - 1), at + 1, fail), i + 1 end
  end
  fail(at, "no second '/' for the one@@")
end

-- Parse the rest: nothing, :modifiers, or after a slash also modifiers without a colon.
local function tail(found, text, at, fail)
  local letters_at = text:match("^:()", at) or at
  if at > 1 and letters_at == at and at <= #text and text:sub(at - 1, at - 1) ~= "/" then
    fail(at, "unexpected '%s'", text:sub(at))
  end
  return apply_modifiers(found, text:sub(letters_at), letters_at, fail)
end

-- Parse HEAD/TERMS/.
function Parser:with_terms(text, at, fail)
  local head = text:sub(1, at - 1)
  local list, after = slashes(text, at, fail)
  if head == "" then fail(1, "a name expected before '/'") end
  local event, why = generic.event(head)
  if why then fail(1, "%s", why) end
  if event then return with_common(self:from_generic(event), list, fail), after end
  if head:find(":", 1, true) then
    local found, message, code, unknown = self:tracepoint(head:match("^([^:]*):(.*)$"))
    if unknown then self:unknown(head) end
    if not found then return nil, message, code end
    return with_common(found, list, fail), after
  end
  if not files.is_name(head) then fail(1, "'%s' cannot be a PMU's name", head) end
  local owners, message, code = self.pmus:match(head)
  if not owners then
    owners = self.pmus:with_event(head)
    if #owners == 0 then return nil, ("%s: %s"):format(brief(text), message), code end
    table.insert(list, 1, {key = head, at = 1})
  end
  return self:from_pmus(owners, list, fail), after
end

-- Parse mem:... with or without terms.
local function watched(text, fail)
  local found, at = address_of(text, fail)
  if not text:find("^/", at) then return found, at end
  local list, after = slashes(text, at, fail)
  return with_common(found, list, fail), after
end

-- The result must be plain tables, without the objects for PMUs.
local function finish(found, text)
  local owners = found.owners
  found.owners = nil
  found.label = found.label or text
  if owners and #owners == #found.attrs then
    found.pmus = {}
    for i, owner in ipairs(owners) do
      found.pmus[i] = owner.name
      found.cpumask = found.cpumask or owner:text("cpumask")
    end
  end
  return found
end

-- Parse one event.
-- @return[1] the resolved event
-- @return[2] nil, message, code
-- @raise if the text is not an event
function Parser:parse(text)
  local fail = failure(text)
  if text == "" then argument.raise("empty event name") end
  if text:find("%c") then failure(text:gsub("%c", "?"))(text:find("%c"), "control character") end
  if text:find("^{") then fail(nil, "a group, where one event is expected") end
  local several = #lists.split(text)
  if several > 1 then fail(nil, "%d events, where one is expected", several) end
  local found, at, code
  local slash = text:find("/", 1, true)
  if text:find("^mem:") then
    found, at = watched(text, fail)
  elseif slash then
    found, at, code = self:with_terms(text, slash, fail)
  else
    found, at, code = self:plain(text, fail)
  end
  if not found then return nil, at, code end
  if slash or at then tail(found, text, at, fail) end
  for _, attr in ipairs(found.attrs) do
    if attr.sample_period and attr.sample_freq then fail(nil, "both a period and a freq") end
  end
  return finish(found, text)
end

return parser
