-- Waits and wall times of the requests of all workers, in records of a shared dictionary (resty.perf.slots).
--
-- A record has a section for each row: "wait NUL route NUL phase NUL kind NUL peer NUL line", or "latency NUL route NUL status
-- NUL method", with the row's count, the sums in ns, and the histogram of how long it lasted: bucket b has the durations of b
-- bits. A family has at most MOST rows; what has no row is counted in that of "(other)".
local ffi = require "ffi"
local pairs_of = require "perf.base.pairs"
local slices = require "resty.perf.slices"
local slots = require "resty.perf.slots"
local waits = require "resty.perf.waits"

local M = {}

local MOST, KIND, PREFIX = 1000, "waits", "waits "
local FIELDS = { "count", "lasted", "waiting", "late" }
local HISTOGRAM = #FIELDS -- the histogram's index in FIELDS
local LENGTH = HISTOGRAM + waits.BUCKETS
local FAMILIES = { wait = { "route", "phase", "kind", "peer", "line" }, latency = { "route", "status", "method" } }

local row_type = ffi.typeof "struct pf_wait_row"

local function add(to, from)
  for i = 0, LENGTH - 1 do to[i] = to[i] + from[i] end
end

-- The parts of a row: its family, and its labels by name, as they are shown.
local function parse(name, shown)
  local family, rest = name:match "^(%Z*)%z(.*)$"
  local row, i = {}, 0
  for part in (rest .. "\0"):gmatch "(%Z*)%z" do
    i = i + 1
    local label = FAMILIES[family][i]
    row[label] = shown[label] and part ~= "" and shown[label](part) or part
  end
  return family, row
end

local function name_of(family, row)
  local parts = { family }
  for i, label in ipairs(FAMILIES[family]) do parts[i + 1] = row[label] end
  return table.concat(parts, "\0")
end

local function other(family) return family .. "\0(other)" .. ("\0"):rep(#FAMILIES[family] - 1) end

-- Rows by their names, at most MOST of each family.
-- @param[opt] shown {[label] = function(text)}: the name under which a route or peer is shown; nil: all names are shown already
-- @return {at=, all=}: at(name) returns the section of a row, or of "(other)" if there is no room; all: sections by name
local function new_rows(shown)
  local rows = { all = {} }
  local number, collapsed = { wait = 0, latency = 0 }, 0

  local function section_of(family, name)
    local section = rows.all[name]
    if not section then
      section = { name = name, values = slots.array(LENGTH), n = LENGTH }
      rows.all[name], number[family] = section, number[family] + 1
    end
    return section
  end

  -- Add the rows of routes and peers that have lost their places to those of "(other)", at most once a second.
  local function collapse()
    if ngx.time() == collapsed then return end
    collapsed = ngx.time()
    local moves = {}
    for name, section in pairs_of(rows.all) do
      local now = name_of(parse(name, shown))
      if now ~= name then moves[section] = now end
    end
    for section, now in pairs_of(moves) do
      local family = now:match "^%Z*"
      rows.all[section.name], number[family] = nil, number[family] - 1
      local to = section_of(family, now)
      add(to.values, section.values)
      section.moved, to.changed = to, true
    end
  end

  function rows.at(name)
    if rows.all[name] then return rows.all[name] end
    local family = name:match "^%Z*"
    if shown and number[family] >= MOST then collapse() end
    return section_of(family, number[family] < MOST and name or other(family))
  end

  return rows
end

-- A writer of this worker's record.
-- @param names of routes, by number
-- @param[opt] shown as for `read`
-- @return {add=, finish=, merging=}: add() writes what came since the last call, and returns nil or the dictionary's error, after
-- which a later call loses nothing; finish() is the last add
function M.writer(dict, names, shown)
  local rows = new_rows(shown or {})
  local record = slots.record(dict, KIND, PREFIX)
  local written = { wait = {}, latency = {} } -- {section=, before=} by the row's index

  -- Return the entry of `written` for a row if the row has changed, else nil.
  local function changed(family, row, i)
    local w = written[family][i]
    if not w then
      w = { before = row_type() }
      written[family][i] = w
    end
    return row.count ~= w.before.count and w or nil
  end

  local function add_row(w, row, section)
    while section.moved do section = section.moved end
    w.section = section
    local values, before = section.values, w.before
    for i, field in ipairs(FIELDS) do values[i - 1] = values[i - 1] + tonumber(row[field] - before[field]) end
    for b = 0, waits.BUCKETS - 1 do
      values[HISTOGRAM + b] = values[HISTOGRAM + b] + tonumber(row.histogram[b] - before.histogram[b])
    end
    section.changed = true
    ffi.copy(before, row, ffi.sizeof(row_type))
  end

  local function wait_section(route, number)
    local site, line = waits.describe(number)
    return rows.at(name_of("wait", { route = names[route] or "(other)", phase = site.phase, kind = site.kind, peer = site.peer,
      line = line }))
  end

  local function latency_section(route, status, method)
    return rows.at(name_of("latency", { route = names[route] or "(other)", status = status > 0 and status or "",
      method = waits.method(method) }))
  end

  local function update()
    for route, number, row, i in waits.rows() do
      local w = changed("wait", row, i)
      if w then add_row(w, row, w.section or wait_section(route, number)) end
    end
    for route, status, method, row, i in waits.latencies() do
      local w = changed("latency", row, i)
      if w then add_row(w, row, w.section or latency_section(route, status, method)) end
    end
  end

  local function values_of(name, n)
    local section = n == LENGTH and rows.at(name) or nil
    if section then section.changed = true end
    return section and section.values
  end

  local function put(over)
    update()
    if not record.number() then
      record.take(values_of)
      if not record.number() then return "no memory" end
    end
    if not over then record.adopt(values_of) end
    local list = {}
    for _, section in pairs_of(rows.all) do list[#list + 1] = section end
    return record.write(list, over)
  end

  local writer = {}

  function writer.add() return put(false) end
  function writer.finish() return put(true) end

  -- Call `merge`, which adds a route of the accounting to another one. All of its counts are in its own rows by then, and are in
  -- rows of another key afterwards.
  function writer.merging(merge)
    update()
    local by_key = { wait = {}, latency = {} }
    for family, list in pairs_of(written) do
      for _, w in pairs_of(list) do by_key[family][tostring(w.before.key)] = w end
    end
    merge()
    written = { wait = {}, latency = {} }
    local function rebase(family, row, i)
      local w = by_key[family][tostring(row.key)] or { before = row_type() }
      ffi.copy(w.before, row, ffi.sizeof(row_type))
      written[family][i] = w
    end
    for _, _, row, i in waits.rows() do rebase("wait", row, i) end
    for _, _, _, row, i in waits.latencies() do rebase("latency", row, i) end
  end

  return writer
end

-- The sums of all workers: {waits = {{route=, phase=, kind=, peer=, line=, count=, lasted_ns=, waiting_ns=, late_ns=,
-- histogram=}}, requests = {{route=, status=, method=, count=, lasted_ns=, histogram=}}}.
-- @param shown {[label] = function(text)}: the name under which a route or peer is shown
-- @param[opt] pause called now and then
function M.read(dict, shown, pause)
  local rows = new_rows()
  slots.read(dict, KIND, function(name, n)
    if n == LENGTH then return rows.at(name_of(parse(name, shown))).values end
  end, nil, pause, PREFIX)
  local lists = { wait = {}, latency = {} }
  for name, section in pairs_of(rows.all) do
    local family, row = parse(name, {})
    for i, field in ipairs(FIELDS) do row[field == "count" and field or field .. "_ns"] = section.values[i - 1] end
    row.histogram = {}
    for b = 0, waits.BUCKETS - 1 do
      local v = section.values[HISTOGRAM + b]
      if v > 0 then row.histogram[b] = v end
    end
    table.insert(lists[family], row)
    if pause then pause() end
  end
  local function longer(a, b) return a.waiting_ns + a.lasted_ns > b.waiting_ns + b.lasted_ns end
  return { waits = slices.sorted(lists.wait, longer, pause), requests = slices.sorted(lists.latency, longer, pause) }
end

return M
