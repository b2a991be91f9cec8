-- The counts of this worker, for perf.worker.
local accounting = require "resty.perf.accounting"
local pairs_of = require "perf.base.pairs"
local waits = require "resty.perf.waits"

-- @param names of routes, by number
return function(names)
  local whole, unattributed, pending = accounting.balance()
  local by_name = {}
  for n, name in pairs_of(names) do
    local phases = {}
    for phase, label in ipairs(accounting.phases) do phases[label] = accounting.phase_counts(n, phase, accounting.zeros()) end
    by_name[name] = { requests = accounting.requests(n), phases = phases }
  end
  waits.add_to(by_name, names)
  return { whole = whole, unattributed = unattributed, pending = pending, routes = by_name, abandoned = accounting.abandoned(),
    known = accounting.known() }
end
