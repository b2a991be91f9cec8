-- PMUs, the units that count, from their descriptions in sysfs.
--
--     ROOT/NAME/type             attr.type
--     ROOT/NAME/format/TERM      "config:0-7,32-35": the bits of attr that a term sets
--     ROOT/NAME/events/EVENT     "event=0x3c,umask=0x1": terms with values; "?" is a value that the caller gives
--     ROOT/NAME/events/EVENT.scale .unit .per-pkg .snapshot
--     ROOT/NAME/cpumask          the CPUs on which an event of a shared PMU is opened
--     ROOT/NAME/cpus             the CPUs of one core type
--     ROOT/NAME/caps/*           max_precise and the like
--
-- The root is a member of an object, so that a test can simulate another machine. Files are read when they are needed, each at
-- most once. A missing file is not an error. A file that cannot be opened for lack of a descriptor or of memory counts as
-- missing, but is read again when it is next needed.

local brief = require "perf.base.brief"
local core = require "perf.core"
local files = require "perf.kernel.files"

local pmu = {}

local Pmus, Pmu = {}, {}
Pmus.__index, Pmu.__index = Pmus, Pmu

-- The PMUs below a root.
-- @string[opt="/sys/bus/event_source/devices"] root
function pmu.new(root)
  return setmetatable({root = root or "/sys/bus/event_source/devices", known = {}, facts = {}}, Pmus)
end

-- The number of times that a file or directory could not be opened for lack of a descriptor or of memory.
local lacks = 0

local function read(path)
  local text, number = files.read(path)
  if files.lack[number] then lacks = lacks + 1 end
  return text
end

local function names_in(path)
  local names, _, code = core.listdir(path)
  if files.lack[code] then lacks = lacks + 1 end
  return names or {}
end

-- Sort a list of names: uncore_cha_2 before uncore_cha_10.
local function sorted(list)
  local keys = {}
  for _, name in ipairs(list) do
    keys[name] = name:gsub("%d+", function(digits) return ("0"):rep(8 - #digits) .. digits end)
  end
  table.sort(list, function(a, b) return keys[a] < keys[b] end)
  return list
end

-- Names of all PMUs, sorted.
function Pmus:names()
  return sorted(names_in(self.root))
end

-- Names for a message, with the boxes of a family as one.
local function folded(names)
  local out, families = {}, {}
  for _, name in ipairs(names) do
    local family = name:match("^(.*)_%d+$")
    if not family then
      out[#out + 1] = name
    elseif not families[family] then
      families[family] = true
      out[#out + 1] = family .. "_*"
    end
  end
  return #out > 0 and table.concat(out, ", ") or "none (is sysfs mounted?)"
end

local function absent(pmus, name)
  return nil, ("no PMU '%s' here; there are: %s"):format(brief(name), folded(pmus:names())), "ENODEV"
end

-- One PMU.
-- @return[1] Pmu
-- @return[2] nil, message, "ENODEV"
function Pmus:get(name)
  local found = self.known[name]
  if found then return found end
  local path = self.root .. "/" .. name
  local kind = files.is_name(name) and tonumber(read(path .. "/type") or "")
  if not kind then
    return absent(self, name)
  end
  found = setmetatable({name = name, type = kind, path = path, facts = {}}, Pmu)
  self.known[name] = found
  return found
end

-- The name that a box shares with others (uncore_imc for uncore_imc_0 and uncore_imc_1), or its own.
-- @treturn string
function Pmus:family(name)
  local family, count = name:match("^(.*)_%d+$"), 0
  for _, other in ipairs(family and self:names() or {}) do
    if other:match("^(.*)_%d+$") == family then count = count + 1 end
  end
  return count > 1 and family or name
end

-- Whether a PMU belongs to a family: uncore_imc_0 is of the family uncore_imc, which may also be called imc. The numbers in a
-- family are decimal or, if they are addresses, long hexadecimal ones.
local function of_family(name, family)
  local short = name:match("^(.*)_%d+$") or name:match("^(.*)_%x%x%x%x+$")
  return name == family or short == family
end

-- The PMUs that a name in an event stands for: itself, a family, or a glob.
-- @return[1] array of Pmu
-- @return[2] nil, message, "ENODEV"
function Pmus:match(name)
  local out, pattern = {}, name:find("[*?]") and files.pattern(name)
  for _, candidate in ipairs(self:names()) do
    local bare = candidate:match("^uncore_(.+)$")
    local hit
    if pattern then
      hit = candidate:find(pattern) or bare and bare:find(pattern)
    else
      hit = of_family(candidate, name) or bare and of_family(bare, name)
    end
    local found = hit and self:get(candidate)
    if found then out[#out + 1] = found end
  end
  if #out > 0 then return out end
  return absent(self, name)
end

-- All PMUs, or those that fits(pmu) chooses, sorted by name.
function Pmus:all(fits)
  local out = {}
  for _, name in ipairs(self:names()) do
    local found = self:get(name)
    if found and (not fits or fits(found)) then out[#out + 1] = found end
  end
  return out
end

-- Call make() once and keep its result; false for a missing file. If a file could not be opened for lack of a descriptor or of
-- memory, the result is not kept, and the next use calls make() again.
local function once(self, key, make)
  local fact = self.facts[key]
  if fact == nil then
    local before = lacks
    fact = make() or false
    if lacks == before then self.facts[key] = fact end
  end
  return fact or nil
end

-- The PMUs of the CPU cores: several on a hybrid CPU.
function Pmus:cores()
  return once(self, "cores", function()
    local cpu = read(self.root .. "/cpu/type") and self:get "cpu" -- if a PMU has that name, it is the only one of the cores
    local cores = cpu and { cpu } or self:all(function(found) return found:is_core() end)
    table.sort(cores, function(a, b) return a.type < b.type end)
    return cores
  end)
end

-- The PMUs that have an event of that name.
function Pmus:with_event(event) return self:all(function(found) return found:event(event) end) end

-- A file's text: "cpumask", "cpus", "nr_addr_filters", "caps/max_precise" ...
-- @treturn ?string
function Pmu:text(file)
  return once(self, file, function() return read(self.path .. "/" .. file) end)
end

-- Whether it counts on CPU cores, and therefore has the generic hardware events.
function Pmu:is_core()
  return self.name == "cpu" or self:text("cpus") ~= nil
end

-- "config1:0-7,32-35" as {field=, ranges=, width=, text=}.
local function parse_format(text)
  local field, list = text:match("^%s*(config%d?)%s*:%s*([%d,%-]+)%s*$")
  local ranges, width = {}, 0
  for range in (list or ""):gmatch("[^,]+") do
    local first, last = range:match("^(%d+)%-(%d+)$")
    first = tonumber(first or range)
    last = tonumber(last) or first
    if not first or last < first or last > 63 then return nil end
    ranges[#ranges + 1] = {first, last}
    width = width + last - first + 1
  end
  return width > 0 and {field = field, ranges = ranges, width = width, text = text} or nil
end

-- The bits of attr that a term sets.
-- @treturn ?{field=string,ranges={{int,int},...},width=int,text=string}
function Pmu:format(term)
  if not files.is_name(term) then return nil end
  local text = self:text("format/" .. term)
  return text and once(self, "parsed/" .. term, function() return parse_format(text) end)
end

local function listing(self, directory, keep)
  return once(self, "list/" .. directory, function()
    local out = {}
    for _, name in ipairs(names_in(self.path .. "/" .. directory)) do
      if not keep or keep(name) then out[#out + 1] = name end
    end
    return sorted(out)
  end)
end

-- Names of all terms, sorted.
function Pmu:formats()
  return listing(self, "format")
end

local SUFFIX = {scale = true, unit = true, ["per-pkg"] = true, snapshot = true}

local function is_event(name)
  return not SUFFIX[name:match("%.([^.]*)$") or ""]
end

-- Names of all events that sysfs lists, sorted.
function Pmu:events()
  return listing(self, "events", is_event)
end

-- The names of the PMU's events, by their lower-case forms.
function Pmu:lower_events()
  return once(self, "lower", function()
    local out = {}
    for _, name in ipairs(self:events()) do out[name:lower()] = name end
    return out
  end)
end

-- Names of all capabilities, sorted.
function Pmu:caps()
  return listing(self, "caps")
end

-- An event that sysfs lists.
-- @string name in upper or lower case
-- @treturn ?{terms=string,scale=number,unit=string,per_pkg=boolean,snapshot=boolean}
function Pmu:event(name)
  if not files.is_name(name) or not is_event(name) then return nil end
  local terms = self:text("events/" .. name)
  if not terms then
    -- Like perf(1), accept other case: cpu/CPU-CYCLES/.
    local exact = self:lower_events()[name:lower()]
    return exact and exact ~= name and self:event(exact) or nil
  end
  return once(self, "event/" .. name, function()
    local function side(suffix) return self:text(("events/%s.%s"):format(name, suffix)) end
    local unit = side("unit")
    return {
      terms = terms, scale = tonumber(side("scale") or ""), unit = unit ~= "" and unit or nil,
      per_pkg = side("per-pkg") == "1" or nil, snapshot = side("snapshot") == "1" or nil,
    }
  end)
end

-- The highest precise_ip that the PMU supports.
-- @treturn int 0 if unknown
function Pmu:max_precise()
  return tonumber(self:text("caps/max_precise") or "") or 0
end

-- Everything about it as a plain table.
-- @treturn {name=,type=,cpumask=,cpus=,nr_addr_filters=,caps={name=text},formats={name=text},events={name=event}}
function Pmu:describe()
  local out = {
    name = self.name, type = self.type, cpumask = self:text("cpumask"), cpus = self:text("cpus"),
    nr_addr_filters = tonumber(self:text("nr_addr_filters") or ""), caps = {}, formats = {}, events = {},
  }
  for _, name in ipairs(self:caps()) do out.caps[name] = self:text("caps/" .. name) end
  for _, name in ipairs(self:formats()) do out.formats[name] = self:text("format/" .. name) end
  for _, name in ipairs(self:events()) do out.events[name] = self:event(name) end
  return out
end

-- The PMUs of this machine.
pmu.here = pmu.new()

return pmu
