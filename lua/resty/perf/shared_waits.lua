-- Waits and wall times of the requests of all workers, in a shared dictionary. resty.perf.shared_totals does the same for the
-- counts.
--
--   FAMILY n, FAMILY r1 ...        the rows: "route NUL phase NUL kind NUL peer NUL line", or "route NUL status NUL method"
--   FAMILY ROW NUL c, l, w, t      count, and the sums of how long it lasted, of waiting and of being late, in ns
--   FAMILY ROW NUL hBUCKET         histogram of how long it lasted: bucket b has the durations of b bits
--
-- A family has at most MOST rows; what has no row is counted in that of "(other)".
local ffi = require "ffi"
local pairs_of = require "perf.base.pairs"
local waits = require "resty.perf.waits"

local M = {}

local MOST = 1000
local FIELDS = { c = "count", l = "lasted", w = "waiting", t = "late" }
local FAMILIES = { wait = { "route", "phase", "kind", "peer", "line" }, latency = { "route", "status", "method" } }

local row_type = ffi.typeof "struct pf_wait_row"

-- The row's name in the dictionary, which is added if there is room.
local function announce(dict, family, text)
  if dict:get(family .. " i " .. text) then return text end
  dict:safe_add(family .. " n", 0)
  local n = dict:incr(family .. " n", 1)
  if not n then return text end
  if n > MOST then
    dict:incr(family .. " n", -1)
    local other = { "(other)" }
    for i = 2, #FAMILIES[family] do other[i] = "" end
    text = table.concat(other, "\0")
    if not dict:safe_add(family .. " i " .. text, true) then return text end
    n = MOST + 1
  else
    dict:safe_set(family .. " i " .. text, true)
  end
  dict:safe_set(family .. " r" .. n, text)
  return text
end

-- Add to the dictionary.
-- @param names of routes, by number
-- @return {add=, merging=}: add() adds what came since the last call, and returns nil or the dictionary's error
function M.writer(dict, names)
  local written = { wait = {}, latency = {} } -- {name=, before=} by key
  local refused

  local function add(key, delta)
    if delta == 0 then return end
    if dict:incr(key, delta) then return end
    local ok, message = dict:safe_add(key, 0) -- never in the place of another key
    if ok or message == "exists" then dict:incr(key, delta) else refused = message end
  end

  local function add_row(family, row, name)
    local key = tostring(row.key)
    local w = written[family][key]
    if not w then
      w = { before = row_type() }
      written[family][key] = w
    end
    local before = w.before
    if row.count == before.count then return end
    w.name = w.name or ("%s %s\0"):format(family, announce(dict, family, name()))
    for short, field in pairs_of(FIELDS) do add(w.name .. short, tonumber(row[field] - before[field])) end
    for b = 0, waits.BUCKETS - 1 do
      add(w.name .. "h" .. b, tonumber(row.histogram[b] - before.histogram[b]))
    end
    ffi.copy(before, row, ffi.sizeof(row_type))
  end

  local writer = {}

  function writer.add()
    refused = nil
    for route, number, row in waits.rows() do
      add_row("wait", row, function()
        local site, line = waits.describe(number)
        return table.concat({ names[route] or "(other)", site.phase, site.kind, site.peer, line }, "\0")
      end)
    end
    for route, status, method, row in waits.latencies() do
      add_row("latency", row, function()
        return table.concat({ names[route] or "(other)", status > 0 and status or "", waits.method(method) }, "\0")
      end)
    end
    return refused
  end

  -- Call `merge`, which adds a route of the accounting to another one. All of its counts have been written by then, and are in
  -- rows of another key afterwards.
  function writer.merging(merge)
    writer.add()
    merge()
    local function rebase(family, row, now)
      local key = tostring(row.key)
      local w = written[family][key] or { before = row_type() }
      ffi.copy(w.before, row, ffi.sizeof(row_type))
      now[key] = w
    end
    local now = { wait = {}, latency = {} }
    for _, _, row in waits.rows() do rebase("wait", row, now.wait) end
    for _, _, _, row in waits.latencies() do rebase("latency", row, now.latency) end
    written = now
  end

  return writer
end

local function read(dict, family, name_of, pause)
  local rows, by_text = {}, {}
  for n = 1, math.min(dict:get(family .. " n") or 0, MOST) + 1 do
    local text = dict:get(family .. " r" .. n)
    if text then
      local key = family .. " " .. text .. "\0"
      text = text:gsub("^%Z+", name_of)
      local row = by_text[text]
      if not row then
        local i = 0
        row = { histogram = {}, count = 0, lasted_ns = 0, waiting_ns = 0, late_ns = 0 }
        for part in (text .. "\0"):gmatch "(%Z*)%z" do
          i = i + 1
          row[FAMILIES[family][i]] = part
        end
        by_text[text], rows[#rows + 1] = row, row
      end
      for short, field in pairs_of(FIELDS) do
        field = field == "count" and field or field .. "_ns"
        row[field] = row[field] + (dict:get(key .. short) or 0)
      end
      for b = 0, waits.BUCKETS - 1 do
        local v = dict:get(key .. "h" .. b)
        if v then row.histogram[b] = (row.histogram[b] or 0) + v end
      end
      if pause then pause() end
    end
  end
  table.sort(rows, function(a, b) return a.waiting_ns + a.lasted_ns > b.waiting_ns + b.lasted_ns end)
  return rows
end

-- The sums of all workers: {waits = {{route=, phase=, kind=, peer=, line=, count=, lasted_ns=, waiting_ns=, late_ns=,
-- histogram=}}, requests = {{route=, status=, method=, count=, lasted_ns=, histogram=}}}.
-- @param name_of function(name): the name under which a route is shown
-- @param[opt] pause called now and then
function M.read(dict, name_of, pause)
  return { waits = read(dict, "wait", name_of, pause), requests = read(dict, "latency", name_of, pause) }
end

return M
