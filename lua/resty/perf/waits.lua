-- The sites where requests wait: a call that may yield, with its phase, kind, peer and the Lua stack.
--
-- The accounting adds up by the number of a site (csrc/core/resty/waits.h). C computes a key of the stack without allocating Lua
-- memory; only a new key's stack is walked here. There are at most MOST sites: further ones are counted by their kind.
local accounting = require "resty.perf.accounting"
local core = require "perf.core"
local ffi = require "ffi"
local memo = require "perf.base.memo"
local nesting = require "resty.perf.nesting"
local pairs_of = require "perf.base.pairs"
local Profile = require "perf.profile.profile"
local sorted = require "perf.base.sorted"
local fit = require "resty.perf.routes".peer

local M = {}

local MOST = 1000
local DEEPEST = 16 -- frames
local stack_key = core.stack_key

local HOST = #accounting.phases -- sites 1 to HOST + 1: nginx, until a phase begins or the request ends
local LAST = 1 + HOST

local peers, admit -- the names that resty.perf.route_names gives places to, and its function
local noted = {} -- how often requests had waited for each peer at the last note_uses

local sites, known = {}, {} -- sites by number; their numbers by phase, kind, peer and stack
for i, phase in ipairs(accounting.phases) do sites[i] = { phase = phase, kind = "nginx", peer = "", stack = {} } end
sites[LAST] = { phase = "end", kind = "nginx", peer = "", stack = {} }
sites[0] = { phase = "", kind = "(other)", peer = "", stack = {} }
local newest = LAST

-- The Lua functions of the stack, as frames of a Profile.
local function frames_at(level)
  local stack = {}
  for i = 0, DEEPEST - 1 do
    local info = debug.getinfo(level + i, "Sln")
    if not info then break end
    if info.what ~= "C" and not nesting.files[info.source] then
      local func = info.what == "main" and "main chunk" or info.name or ("anonymous@%d"):format(info.linedefined)
      stack[#stack + 1] = { name = ("%s:%d %s"):format(info.short_src, info.currentline, func), func = func, kind = "lua",
        file = info.source:match "^@(.*)" or info.short_src, line = info.currentline, linedefined = info.linedefined }
    end
  end
  return stack
end

local function child(t, key)
  local c = t[key]
  if not c then
    c = {}
    t[key] = c
  end
  return c
end

-- The levels of the function that the program called are those of the wrapper in resty.perf.yields, which calls M.at.
local function new_site(phase, kind, peer, key)
  if newest >= LAST + MOST then peer, key = "(other)", 0 end
  local by_stack = child(child(child(known, phase), kind), peer)
  local n = by_stack[key]
  if not n then
    n = newest + 1
    sites[n] = { phase = accounting.phases[phase], kind = kind, peer = peer, stack = key ~= 0 and frames_at(5) or {} }
    by_stack[key], newest = n, n
  end
  return n
end

-- The site of a call that may yield, for accounting.back. The function that wraps the call must call this.
-- @param phase its number
-- @param kind a text
-- @param peer function of the call's arguments, which returns a text
-- @return the number of the site, and the time; 0, 0 if waits, or the request's, are not counted
function M.at(phase, kind, peer, ...)
  local w = accounting.waits
  if not w or phase >= accounting.WATCHED then return 0, 0 end
  local key, whom = stack_key(3, DEEPEST), peer(...)
  if whom ~= "" then whom = admit(whom) end
  local t = known[phase]
  t = t and t[kind]
  t = t and t[whom]
  return t and t[key] or new_site(phase, kind, whom, key), w.clock
end

-- Peers get their places from these names: an object of resty.perf.route_names.
function M.bound_peers(names) peers, admit, noted = names, names.admit, {} end

-- Tell the names how often each peer was used, once a second. The waits for one that has lost its place stay under its name, and
-- are shown as those of "(other)".
-- @param[opt] go_on called now and then; false ends it
function M.note_uses(go_on)
  local sums, uses = {}, {}
  for _, number, row in M.rows() do
    local peer = sites[number].peer
    sums[peer] = (sums[peer] or 0) + tonumber(row.count)
    if go_on and not go_on() then return end
  end
  for name, n in pairs_of(sums) do uses[name] = n - (noted[name] or 0) end
  noted = sums
  peers.used(uses, function() end)
  peers.turn_over()
end

-- A site's description: {phase=, kind=, peer=, stack=}, and its line as text: the innermost function's and its caller's,
-- "redis.lua:230 < cart.lua:12".
function M.describe(number)
  local site = sites[number]
  if not site.text then
    local parts = {}
    for i = 1, math.min(2, #site.stack) do
      parts[i] = ("%s:%d"):format(site.stack[i].file:match "[^/]*$", site.stack[i].line)
    end
    site.text = fit(table.concat(parts, " < "))
  end
  return site, site.text
end

local OTHER = 0xffffffffffffffffULL

-- The number of a row's route, and the rest of its key. nil, 0 for the row of keys without room.
local function split(key)
  if key == OTHER then return nil, 0 end
  local route = key / 0x100000000ULL
  return tonumber(route), tonumber(key - route * 0x100000000ULL)
end

-- An iterator over an array of the open accounting: gives route's number, the rest of the key, row, index.
local function iterate(array, length)
  local i, w = -1, accounting.waits
  return function()
    i = i + 1
    if not w or i >= w[length] then return nil end
    local row = w[array] + i
    local route, rest = split(row.key)
    return route or -1, rest, row, i
  end
end

-- Iterators over the rows of the open accounting. `rows` gives route's number, site's number, row, index; `latencies` gives
-- route's number, status, bit of the method, row, index.
function M.rows() return iterate("row", "rows") end

function M.latencies()
  local next_row = iterate("latency", "latencies")
  return function()
    local route, rest, row, i = next_row()
    if route then return route, math.floor(rest / 256), rest % 256, row, i end
  end
end

-- Add the sums of this worker's routes to the tables of perf.worker.
function M.add_to(routes, names)
  if not accounting.waits then return end
  for _, r in pairs_of(routes) do r.wall_ns, r.waiting_ns, r.late_ns = 0, 0, 0 end
  for route, _, row in M.rows() do
    local r = routes[names[route]]
    if r then r.waiting_ns, r.late_ns = r.waiting_ns + tonumber(row.waiting), r.late_ns + tonumber(row.late) end
  end
  for route, _, _, row in M.latencies() do
    local r = routes[names[route]]
    if r then r.wall_ns = r.wall_ns + tonumber(row.lasted) end
  end
end

local methods = { "GET", "HEAD", "POST", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "OPTIONS", "PROPFIND", "PROPPATCH", "LOCK",
  "UNLOCK", "PATCH", "TRACE", "CONNECT" } -- nginx's NGX_HTTP_*, by their bits

-- The name of a method by its bit in nginx.
function M.method(bit) return methods[bit] or "other" end

-- The waits of the request that was finished last, at most 32: array of {site=, from_end_ns=, lasted_ns=, waiting_ns=, late_ns=};
-- and its wall time. A wait began from_end_ns before the request's end.
function M.of_last()
  local w, list = accounting.waits, {}
  if not w then return list end
  for i = 0, w.lasts - 1 do
    local wait = w.last[i]
    list[i + 1] = { site = M.describe(wait.site), text = select(2, M.describe(wait.site)),
      from_end_ns = tonumber(w.last_end - wait.from), lasted_ns = tonumber(wait.lasted), waiting_ns = tonumber(wait.waiting),
      late_ns = tonumber(wait.late) }
  end
  return list, tonumber(w.last_wall)
end

-- "waited 480.1ms in receive 127.0.0.1:6379 at redis.lua:230 < cart.lua:12", for the site where the last request waited longest;
-- nil if it did not wait.
function M.longest(show)
  local sums, best = {}, nil
  for _, wait in ipairs(M.of_last()) do
    sums[wait.site] = (sums[wait.site] or 0) + wait.waiting_ns
    if not best or sums[wait.site] > sums[best] then best = wait.site end
  end
  if not best or sums[best] == 0 then return nil end
  return ("waited %s in %s%s%s"):format(show(sums[best]), best.kind, best.peer ~= "" and " " .. best.peer or "",
    best.text ~= "" and " at " .. best.text or "")
end

local function state_frame(name) return { name = name, func = name, kind = "state" } end

-- The waits at this moment, for a profile that is made with pauses: the number of rows; an array with the route's number, the
-- site's number, count, ns waiting and ns late of each; and the routes' names by their numbers.
local function snapshot(names)
  local n, route_name = accounting.waits.rows, {}
  local list = ffi.new("double[?]", 5 * n)
  accounting.copy_waits(list)
  for number, name in pairs_of(names) do route_name[number] = name end
  return n, list, route_name
end

-- The wall time of this worker's requests: a Profile whose stacks end in a route.
-- @param names of routes, by number
-- @param walls function that returns the wall time of the turns at this moment: see accounting.walls
-- @param[opt] only a route's name
-- @param[opt] pause called now and then
function M.profile(names, walls, only, pause)
  local list, total, samples = {}, 0, 0
  local frame = memo(state_frame)
  local function add(stack, weight, count)
    if weight == 0 and count == 0 then return end
    list[#list + 1] = { stack = stack, weight = weight, count = count }
    total, samples = total + weight, samples + count
  end
  local n, rows, route_name = snapshot(names)
  local wall, seen = walls(), {}
  for i = 0, n - 1 do
    local row = rows + 5 * i
    local route, site = row[0], M.describe(row[1])
    local name = route_name[route] or "(other)"
    seen[route] = name
    if not only or name == only then
      local function stack_of(innermost)
        local stack = { innermost }
        for _, f in ipairs(site.stack) do stack[#stack + 1] = f end
        stack[#stack + 1] = frame[site.kind == "nginx" and "until " .. site.phase or site.phase]
        stack[#stack + 1] = frame[name]
        return stack
      end
      add(stack_of(frame["(waiting) " .. site.kind .. (site.peer ~= "" and " " .. site.peer or "")]), row[3], row[2])
      add(stack_of(frame["(worker busy)"]), row[4], 0)
    end
    if pause then pause() end
  end
  for route, name in pairs_of(seen) do
    for phase, text in ipairs(route_name[route] and (not only or name == only) and accounting.phases or {}) do
      local ns = wall(route, phase)
      if ns > 0 then add({ frame["(running)"], frame[text], frame[name] }, ns, 1) end
    end
    if pause then pause() end
  end
  list = sorted(list, function(a, b) return a.weight > b.weight end, pause)
  return Profile.new({ event = "wall clock", unit = "ns", total = total, lost = 0, sample_count = samples, period = 1,
    started = ngx.now(), duration_ns = 0, pid = ngx.worker.pid(), tid = ngx.worker.pid(), comm = "nginx", memory = 0,
    method = "waits" }, list, nil, pause)
end

M.BUCKETS = ffi.sizeof(ffi.typeof "struct pf_wait_row") / 8 - 5

return M
