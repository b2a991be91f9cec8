-- The routes of this worker, by the accounting's numbers. A name has a number while it has a place among the server's routes; the
-- number of a name that has lost its place is used again.
local accounting = require "resty.perf.accounting"
local pairs_of = require "perf.base.pairs"
local routes = require "resty.perf.routes"
local zones = require "resty.perf.zones"

local M = {}

local numbers, names, free
local noted -- the requests of each name when its use was last noted
local writer, blocked, reserve

-- Begin with no names.
-- @param totals_writer a writer of resty.perf.shared_totals
-- @bool names_blocked whether the accounting gets the names, for lines about blocked turns
-- @string last the name that gets all requests when there are no more numbers
-- @return names by number, which the functions below keep up to date
function M.begin(totals_writer, names_blocked, last)
  numbers, names, free, noted = {}, {}, {}, {}
  writer, blocked, reserve = totals_writer, names_blocked, last
  M.number(last)
  return names
end

-- The number of a name.
function M.number(name)
  local n = numbers[name]
  if n then return n end
  n = table.remove(free) or accounting.route()
  if not n then return numbers[reserve] end
  numbers[name], names[n], noted[name] = n, name, 0
  writer.route(name, n)
  zones.name_route(n, name)
  accounting.label_route(n, name)
  if blocked then accounting.name_route(n, name) end
  return n
end

-- A name has lost its place: move its counts to "(other)".
-- @param[opt] waits_writer a writer of resty.perf.shared_waits
function M.forget(name, waits_writer)
  local n = numbers[name]
  local function merge() writer.merge(name, n, routes.OTHER, n and M.number(routes.OTHER)) end
  if n and waits_writer then waits_writer.merging(merge) else merge() end
  if not n then return end
  numbers[name], names[n], noted[name] = nil, nil, nil
  free[#free + 1] = n
end

-- How many requests each name got since this was last called.
function M.take_uses()
  local uses = {}
  for name, n in pairs_of(numbers) do
    local requests = accounting.requests(n)
    uses[name], noted[name] = requests - noted[name], requests
  end
  return uses
end

return M
