--- Prints the kernel groups that perf.measure makes from a list, in the format for floor.c: "type:config,...;...". groups.lua
-- LIST, or "default" for the events that perf.measure(fn) counts here.
require "perf.event" -- the methods of events
local measure = require "perf.measure"
local core = require "perf.core"

local types = {}
for _, t in ipairs(core.defs().types) do types[t.name] = t.value end

local set = arg[1] == "default" and measure.lookup() or measure.lookup(arg[1])
local groups = {}
for g, group in ipairs(set.groups) do
  local members = {}
  for i, ev in ipairs(group:members()) do
    local attr = ev:attr()
    members[i] = ("%d:%s%s"):format(types[attr.type] or attr.type, tostring(attr.config or 0):gsub("U?LL$", ""),
      attr.exclude_kernel and ":u" or "")
  end
  groups[g] = table.concat(members, ",")
end
print(table.concat(groups, ";"))
