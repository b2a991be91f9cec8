-- The events that a span requests by its attribute `perfevents`: those that can be counted, and the reasons for the others.
-- Tracing must not make a program fail, and an event that the machine lacks does not exclude the others.
local argument = require "perf.base.argument"
local lists = require "perf.names.lists"
local measure = require "perf.measure"

local M = {}

local function try(events)
  local ok, set, message = pcall(measure.lookup, events)
  if ok and set then return set end
  return nil, argument.why(ok and message or set)
end

-- The open set of the option `events`.
-- @int arg the public function's argument that has the option, for errors about an invalid list
-- @return set; or nil, message, code
function M.option(events, arg) return argument.call_as_argument(arg, "option 'events': ", measure.lookup, events) end

-- The open set of those events that can be counted, as from perf.measure.
-- @param events a string or a table
-- @return set or nil; message about the refused events
function M.lookup(events)
  local set, message = try(events)
  if set then return set end
  local ok, items = true, events
  if type(events) == "string" then ok, items = pcall(lists.split, events) end
  if not ok or type(items) ~= "table" or #items < 2 then return nil, message end
  local good, refused = {}, {}
  for _, item in ipairs(items) do
    local one, why = try(item)
    if one and type(item) == "string" then good[#good + 1] = item else refused[#refused + 1] = why end
  end
  if #good > 0 then set = try(table.concat(good, ",")) end
  return set, #refused > 0 and table.concat(refused, "; ") or message
end

return M
