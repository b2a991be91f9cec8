--- Tracers whose spans a spec looks at.
local perf = require "perf"

local M = {}

--- A tracer of page faults, unless the options say other events.
-- @return tracer; the list that its spans end up in, in the order they finished and by name
function M.tracer(options)
  local list = {}
  options = options or {}
  if options.events == nil then options.events = "page-faults" end
  options.service = options.service or "spec"
  options.exporter = options.exporter or function(batch)
    for _, s in ipairs(batch) do
      list[#list + 1] = s
      list[s.name] = s
    end
  end
  return assert(perf.tracer(options)), list
end

return M
