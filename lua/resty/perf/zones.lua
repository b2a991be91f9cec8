-- The zones of routes: while a profiler runs, the samples that are taken in a request's turn have the name of its route.
local accounting = require "resty.perf.accounting"
local core = require "perf.core"
local ffi = require "ffi"
local pairs_of = require "perf.base.pairs"
local routes = require "resty.perf.routes"
local zone = require "perf.profile.zone"

local M = {}

local ROUTES = 4096 -- the samples of routes with higher numbers have no zone
local MOST = 10000 -- names; later ones are "(other)", since a profiler may run for months

local users, zones, numbers, named = 0, nil, nil, 0

local function number_of(name)
  if not numbers[name] and named >= MOST then name = routes.OTHER end
  local z = numbers[name]
  if not z then
    z = core.new_zone()
    numbers[name], named = z, named + 1
    zone.set_name(z, name)
  end
  return z
end

-- Show this name on the samples of a route. The number is that of the route in the accounting.
function M.name_route(number, name)
  if zones and number < ROUTES then zones[number] = number_of(name) end
end

-- Called when the accounting has been opened anew.
function M.attach()
  if zones then accounting.set_zones(zones, ROUTES) end
end

-- Called when a profiler begins.
-- @param routes_now names of routes by number
function M.take(routes_now)
  if users == 0 then
    zones, numbers, named = ffi.new("uint32_t[?]", ROUTES), {}, 0
    for number, name in pairs_of(routes_now or {}) do M.name_route(number, name) end
    M.attach()
  end
  users = users + 1
end

-- Called when a profiler has ended and its samples have their names.
function M.give()
  users = users - 1
  if users > 0 then return end
  accounting.set_zones(nil, 0)
  core.set_zone(0)
  for _, z in pairs_of(numbers) do zone.set_name(z, nil) end
  zones, numbers = nil, nil
end

return M
