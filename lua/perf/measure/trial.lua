-- Tries a group of hardware events that does not run.
local copy = require "perf.base.copy"
local idle = require "perf.event.idle"
local open = require "perf.event.opening"

local M = {}

-- Whether the counters suffice for a group if no other group uses them: a pinned copy of it gets them before all other
-- groups, or never.
function M.fits(group)
  local trial, scan = {}, nil
  for i, part in ipairs(group) do
    local a = copy(part.attr)
    a.read_format, a.disabled, a.pinned = open.group_format, i == 1, i == 1 or nil
    trial[i] = idle.open(a, 0, -1, trial[1], 0, {})
    if not trial[i] then break end
  end
  if #trial == #group then
    trial[1]:enable()
    scan = trial[1]:scan()
  end
  for i = #trial, 1, -1 do trial[i]:close() end
  return scan and scan[1] and scan.running_ns ~= 0
end

return M
