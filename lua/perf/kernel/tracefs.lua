-- Tracepoints: their ids and names in tracefs.
--
-- Tracefs is mounted at /sys/kernel/tracing, in older setups under debugfs. It may be unmounted, or only readable by root. The
-- roots are a member of an object, so that a test can use others. Files are read when they are needed.
--
--     ROOT/events/GROUP/NAME/id     decimal, attr.config of PERF_TYPE_TRACEPOINT
--     ROOT/available_events         GROUP:NAME, one a line

local brief = require "perf.base.brief"
local core = require "perf.core"
local files = require "perf.kernel.files"

local tracefs = {}
local Tracefs = {}
Tracefs.__index = Tracefs

local REMEDY = {
  ENOENT = "tracefs is not mounted; as root: mount -t tracefs tracefs /sys/kernel/tracing",
  EACCES = "run as root, or let root remount it with mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing",
}

-- An object that searches these roots in order.
-- @tparam[opt] {string,...} roots
function tracefs.new(roots)
  return setmetatable({roots = roots or {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}, ids = {}}, Tracefs)
end

-- The root that can be read.
-- @return[1] string
-- @return[2] nil, message, "ENOENT" or "EACCES"
function Tracefs:root()
  local tried, code = {}, "ENOENT"
  for _, root in ipairs(self.roots) do
    local ok, message, why = core.listdir(root .. "/events")
    if ok then return root end
    tried[#tried + 1] = message
    if why ~= "ENOENT" then code = why end
  end
  return nil, ("no tracepoints can be looked up (%s): %s"):format(table.concat(tried, "; "), REMEDY[code] or code), code
end

-- A tracepoint's id.
-- @string group
-- @string name both without a slash
-- @return[1] integer
-- @return[2] nil, message, code; and true as a fourth result if tracefs can be read but has no such tracepoint
function Tracefs:id(group, name)
  local key = group .. ":" .. name
  if self.ids[key] then return self.ids[key] end
  if files.is_name(group) and files.is_name(name) then
    for _, root in ipairs(self.roots) do
      local text, number, message = files.read(("%s/events/%s/%s/id"):format(root, group, name))
      if files.lack[number] then return nil, ("%s: %s"):format(key, message), files.lack[number] end
      local id = tonumber((text or ""):match "^%d+")
      if id then
        self.ids[key] = id
        return id
      end
    end
  end
  local root, message, code = self:root()
  if not root then return nil, key .. ": " .. message, code end
  return nil, brief(("no tracepoint '%s' in %s/events"):format(key, root)), "ENOENT", true
end

-- The events of all groups below a root.
-- @return array of {group, name}; or nil, message, code if a directory cannot be opened for lack of a descriptor or of memory
function tracefs.events(root)
  local groups, message, code = core.listdir(root .. "/events")
  if not groups then return nil, message, code end
  local found = {}
  for _, group in ipairs(groups) do
    local names
    names, message, code = core.listdir(("%s/events/%s"):format(root, group))
    if files.lack[code] then return nil, message, code end
    for _, name in ipairs(names or {}) do found[#found + 1] = { group, name } end
  end
  return found
end

-- All tracepoints that perf_event_open(2) supports.
-- @return[1] sorted array of "group:name"
-- @return[2] nil, message, code
function Tracefs:names()
  local root, message, code = self:root()
  if not root then return nil, message, code end
  local out, text, number, why = {}, files.read(root .. "/available_events")
  if files.lack[number] then return nil, why, files.lack[number] end
  if text then
    for name in text:gmatch("[^\n]+") do out[#out + 1] = name end
  else
    local all
    all, message, code = tracefs.events(root)
    if not all then return nil, message, code end
    for _, event in ipairs(all) do
      if files.read(("%s/events/%s/%s/id"):format(root, event[1], event[2])) then out[#out + 1] = event[1] .. ":" .. event[2] end
    end
  end
  table.sort(out)
  return out
end

-- The tracefs of this machine.
tracefs.here = tracefs.new()

return tracefs
