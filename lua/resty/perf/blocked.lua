-- Turns that blocked the worker's event loop: a thread catches them while they run (csrc/core/resty/watch.h), and the worker
-- reports them after they have ended.
local accounting = require "resty.perf.accounting"
local format = require "perf.base.format"
local json = require "perf.base.json"
local log = require "resty.perf.log"
local nesting = require "resty.perf.nesting"
local routes = require "resty.perf.routes"

local M = {}

local KEPT, MOST = 50, 1000 -- turns, and routes

local function show(ns) return (format.ns(ns):gsub(" ", "")) end

-- The lines of a stack, innermost first.
local function lines_of(stack)
  local lines = {}
  for _, place in ipairs(stack) do
    if place.kind == "lua" and not nesting.files[place.source] then
      local file = place.source:match "^@(.*)" or place.source:match "^=(.*)" or place.source:match "^[^\n]*"
      lines[#lines + 1] = ("%s:%d"):format(file, place.line > 0 and place.line or place.linedefined)
    end
  end
  return lines
end

-- The line: "blocked: a turn of /cart, content, /cart?..., took 61ms: task-clock 60.9ms, page-faults 3; after 51ms it was at
-- cart.lua:12 < ..., in the system call read".
-- @param turn {seen_ns=, call=, lines=, route=, uri=, phase=, wall_ns=, counts=}
function M.line(turn)
  local parts = {}
  for _, e in ipairs(turn.counts or {}) do
    local v = e.value and (e.unit == "ns" and show(e.value) or tostring(e.value))
    parts[#parts + 1] = v and e.label .. " " .. v
  end
  local text = ("blocked: a turn of %s, %s%s, took %s"):format(turn.route, turn.phase, turn.uri and ", " .. turn.uri or "",
    turn.wall_ns and show(turn.wall_ns) or "longer than the limit")
  if turn.wall_ns and not turn.counts then parts[1] = "not counted" end
  if #parts > 0 then text = text .. ": " .. table.concat(parts, ", ") end
  if turn.seen_ns == 0 then return text end
  text = ("%s; after %s it was at %s"):format(text, show(turn.seen_ns),
    turn.lines[1] and table.concat(turn.lines, " < ", 1, math.min(4, #turn.lines)) or "an unknown line")
  return turn.call and text .. ", in the system call " .. turn.call or text
end

-- Add to a number in the dictionary, without evicting another key. Returns the sum; nil if there is no room.
local function add(dict, key, n)
  dict:safe_add(key, 0)
  return (dict:incr(key, n))
end

-- The name under which a route is counted: the later ones of too many are "(other)".
local function announce(dict, route)
  local mark = "blocked i " .. route
  -- Of several workers, only one adds the mark. If there is no room for it, a later turn tries again.
  if dict:get(mark) or not dict:safe_add(mark, true) then return route end
  local n = route == routes.OTHER and 0 or add(dict, "blocked routes", 1)
  if n and n <= MOST then
    dict:safe_set("blocked r" .. n, route)
    return route
  end
  dict:delete(mark)
  if not n then return route end
  add(dict, "blocked routes", -1)
  return announce(dict, routes.OTHER)
end

-- Report the turns since the last call: count them, keep the newest, and log them.
-- @param dict ngx.shared.DICT
-- @param route_of function of a result of accounting.blocked: the name of its route
-- @param redact function of a request's URI
-- @param[opt] go_on called now and then; false ends the report
function M.report(dict, route_of, redact, go_on)
  local found, counts = accounting.blocked()
  while found do
    local turn = { at = ngx.time(), pid = ngx.worker.pid(), route = route_of(found),
      uri = found.uri ~= "" and redact(found.uri) or nil, phase = accounting.phases[found.phase] or accounting.BETWEEN,
      seen_ns = found.seen_ns, call = found.call, lines = lines_of(found.stack), wall_ns = found.wall_ns, counts = counts }
    log.later(ngx.WARN, M.line(turn))
    local events = {}
    for _, e in ipairs(counts or {}) do
      if e.value then events[e.label] = e.value end
    end
    turn.counts = events
    local route = announce(dict, turn.route)
    add(dict, "blocked c " .. route, 1)
    add(dict, "blocked t " .. route, turn.wall_ns or turn.seen_ns)
    local n = add(dict, "blocked", 1)
    if n then dict:safe_set("blocked" .. n % KEPT, json.encode(turn)) end
    if go_on and not go_on() then return end
    found, counts = accounting.blocked()
  end
end

-- The turns of all workers: {routes = {{route=, count=, lasted_ns=}, ...}, recent = {...}}, the newest first; each of `recent` is
-- a turn: {at=, pid=, route=, uri=, phase=, wall_ns=, seen_ns=, call=, lines=, counts=}.
-- @param name_of function(name): the name under which a route is shown
-- @param[opt] pause called now and then
function M.read(dict, name_of, pause)
  pause = pause or function() end
  local list, by_name, recent, n = {}, {}, {}, dict:get "blocked" or 0
  for i = 0, dict:get "blocked routes" or 0 do
    local route = dict:get("blocked r" .. i)
    if route then
      local name = name_of(route)
      local sum = by_name[name]
      if not sum then
        sum = { route = name, count = 0, lasted_ns = 0 }
        by_name[name], list[#list + 1] = sum, sum
      end
      sum.count = sum.count + (dict:get("blocked c " .. route) or 0)
      sum.lasted_ns = sum.lasted_ns + (dict:get("blocked t " .. route) or 0)
    end
    pause()
  end
  for i = n, math.max(1, n - KEPT + 1), -1 do
    local text = dict:get("blocked" .. i % KEPT)
    recent[#recent + 1] = text and json.decode(text)
    pause()
  end
  return { routes = list, recent = recent }
end

return M
