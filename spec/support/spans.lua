--- Tracers that collect their spans for a spec.
local perf = require "perf"
local util = require "spec.support.util"

local M = {}

--- A tracer of page faults, unless the options have other events.
-- @return tracer; the list of its finished spans, in order and by name
function M.tracer(options)
  local list = {}
  options = options or {}
  if options.events == nil then options.events = util.FAULTS end
  options.service = options.service or "spec"
  options.exporter = options.exporter or function(batch)
    for _, s in ipairs(batch) do
      list[#list + 1] = s
      list[s.name] = s
    end
  end
  return assert(perf.tracer(options)), list
end

--- The numbers of a tracer's spans: {made, sent, dropped, queued}.
function M.stats(tracer)
  local s = tracer:stats()
  return { s.made, s.sent, s.dropped, s.queued }
end

return M
