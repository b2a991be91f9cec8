-- The events of Lua's memory: the blocks that the Lua state's allocator gives. They are not the kernel's, so only lists of events
-- that are counted by difference can have them (perf.measure.open_list).
local pairs_of = require "perf.base.pairs"

local memory = {}

-- `field`: as in core.blocks.
memory.events = {
  { name = "lua-alloc-bytes", field = "bytes", unit = "bytes", description = "Bytes that Lua allocates" },
  { name = "lua-alloc-blocks", field = "blocks", description = "Blocks of memory that Lua allocates" },
}

local by_name = {}
for _, event in ipairs(memory.events) do by_name[event.name] = event end

-- Describe such a name to functions that do not count it; nil for other names.
function memory.elsewhere(name)
  return by_name[name] and "a count of the Lua state's allocator, not an event of the kernel: perf.measure, perf.start, "
    .. "perf.bench, spans and resty.perf count it, by this name alone; the event to sample is alloc"
end

-- The resolved event of a name, or of a table {event = name, label =}; nil for others.
function memory.resolve(event)
  local name, label = event, nil
  if type(event) == "table" and next(event) then
    for key in pairs_of(event) do
      if key ~= "event" and key ~= "label" then return nil end
    end
    name, label = event.event, event.label
  end
  local found = type(name) == "string" and by_name[name:match "^%s*(.-)%s*$"]
  return found and { kind = "memory", label = label or found.name, unit = found.unit, description = found.description,
    attrs = {}, field = found.field }
end

return memory
