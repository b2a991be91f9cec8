-- The sums of all workers, in a shared dictionary.
--
-- Each worker adds its counts since the last time, about once a second and when it ends. So requests do not access the
-- dictionary, and a worker that is killed loses at most a second of counts. Sums outlive workers and reloads.
--
-- Keys begin with a mark of the counted events, so that another list of events begins anew:
--
--   events                       the list that is counted now: a line for each, "label TAB unit TAB why"
--   MARK n, MARK r1 ...          the routes
--   MARK route NUL q             requests            MARK a             abandoned turns
--   MARK route NUL pPHASE:ROW    sums of a phase     MARK u:ROW, w:ROW  unattributed, whole; row 0 is wall time
--   MARK route NUL hROW:BUCKET   histograms          MARK s             requests that hooks have seen
local pairs_of = require "perf.base.pairs"

local BUCKETS = require "resty.perf.accounting".BUCKETS

local M = {}

local function mark_of(text) return ("%08x "):format(ngx.crc32_short(text)) end

-- A writer of one worker's counts.
-- @param dict ngx.shared.DICT
-- @param accounting resty.perf.accounting, open
-- @return {route=, add=}: route(name, number) announces a route; add() adds the counts since the last call and
-- returns nil, or the dictionary's error
function M.writer(dict, accounting)
  local rows, lines = accounting.events(), {}
  for i, row in ipairs(rows) do lines[i] = table.concat({ row.label, row.unit or "", row.why or "" }, "\t") end
  local text = table.concat(lines, "\n")
  local mark, refused = mark_of(text), nil
  dict:set("events", text)

  local function add(key, delta)
    if delta == 0 then return end
    local _, err, forced = dict:incr(mark .. key, delta, 0)
    if err then refused = err elseif forced then refused = "it is full, and other entries were removed" end
  end

  local function add_counts(key, counts)
    add(key .. "0", tonumber(counts.wall_ns))
    for i, e in ipairs(counts) do add(key .. i, tonumber(e.value or 0)) end
  end

  local routes = {}
  local function route(name, number)
    routes[number] = { key = name .. "\0", requests = 0, phases = {}, histograms = {} }
    if dict:add(mark .. "i " .. name, true) then
      local n = dict:incr(mark .. "n", 1, 0)
      if n then dict:set(mark .. "r" .. n, name) end
    end
  end

  local function add_histogram(r, number, row)
    local now, before = accounting.histogram(number, row), r.histograms[row] or {}
    if not now then return end
    r.histograms[row] = before
    for b = 0, BUCKETS - 1 do
      local n = tonumber(now[b])
      if n ~= (before[b] or 0) then
        add(r.key .. "h" .. row .. ":" .. b, n - (before[b] or 0))
        before[b] = n
      end
    end
  end

  local befores, abandoned = { whole = accounting.zeros(), unattributed = accounting.zeros() }, 0
  local seen = 0
  local function add_all()
    refused = nil
    local whole, unattributed = accounting.balance(befores)
    add_counts("w:", whole)
    add_counts("u:", unattributed)
    add("a", accounting.abandoned() - abandoned)
    abandoned = accounting.abandoned()
    add("s", accounting.seen() - seen)
    seen = accounting.seen()
    for number, r in pairs_of(routes) do
      local requests = accounting.requests(number)
      if requests ~= r.requests then
        add(r.key .. "q", requests - r.requests)
        r.requests = requests
        for phase = 1, #accounting.phases do
          r.phases[phase] = r.phases[phase] or accounting.zeros()
          local counts = accounting.phase_counts(number, phase, r.phases[phase])
          if counts then add_counts(r.key .. "p" .. phase .. ":", counts) end
        end
        for row = 0, #rows do add_histogram(r, number, row) end
      end
    end
    return refused
  end

  return { route = route, add = add_all }
end

-- The sums of all workers, in the form for resty.perf.metrics; nil before the first worker has begun.
-- @param dict ngx.shared.DICT
-- @param phases names of the phases
function M.read(dict, phases)
  local text = dict:get "events"
  if not text then return nil end
  local mark = mark_of(text)
  local function get(key) return dict:get(mark .. key) end

  local events = {}
  for label, unit, why in text:gmatch "([^\t\n]*)\t([^\t\n]*)\t([^\n]*)" do
    events[#events + 1] = { label = label, unit = unit ~= "" and unit or nil, why = why ~= "" and why or nil }
  end

  local function counts(key)
    local t = {}
    for row = 0, #events do t[row] = get(key .. row) or 0 end
    return t
  end

  local routes = {}
  for n = 1, get "n" or 0 do
    local name = get("r" .. n)
    local requests = name and get(name .. "\0q")
    if requests then
      local route = { name = name, requests = requests, phases = {}, histograms = {} }
      for i, phase in ipairs(phases) do
        local key = name .. "\0p" .. i .. ":"
        if get(key .. "0") then route.phases[phase] = counts(key) end
      end
      for row = 0, #events do
        local buckets
        for b = 0, BUCKETS - 1 do
          local v = get(name .. "\0h" .. row .. ":" .. b)
          if v then
            buckets = buckets or {}
            buckets[b] = v
          end
        end
        route.histograms[row] = buckets
      end
      routes[#routes + 1] = route
    end
  end
  table.sort(routes, function(a, b) return a.name < b.name end)
  return { events = events, phases = phases, routes = routes, unattributed = counts "u:", worker = counts "w:",
    abandoned = get "a" or 0, seen = get "s" or 0 }
end

return M
