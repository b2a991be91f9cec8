-- Waits and wall times of the requests of all workers, in records of a shared dictionary (resty.perf.slots).
--
-- A record has a section for each row: "wait NUL route NUL phase NUL kind NUL peer NUL line", or "latency NUL route NUL status
-- NUL method", with the row's count, the sums in ns, and the histogram of how long it lasted: bucket b has the durations of b
-- bits. A family has at most MOST rows; what has no row is counted in that of "(other)".
local ffi = require "ffi"
local pairs_of = require "perf.base.pairs"
local slots = require "resty.perf.slots"
local sorted = require "perf.base.sorted"
local waits = require "resty.perf.waits"

local M = {}

local MOST, KIND, PREFIX = 1000, "waits", "waits "
local FIELDS = { "count", "lasted", "waiting", "late" }
local HISTOGRAM = #FIELDS -- the histogram's index in FIELDS
local LENGTH = HISTOGRAM + waits.BUCKETS
local FAMILIES = { wait = { "route", "phase", "kind", "peer", "line" }, latency = { "route", "status", "method" } }

-- A struct pf_wait_row as numbers: its key, the fields, and the histogram.
local words_type, words_pointer = ffi.typeof(("uint64_t[%d]"):format(1 + LENGTH)), ffi.typeof "uint64_t *"

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
      section.moved, section.gone, to.changed = to, true, true
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
-- @return {add=, finish=, merging=}: add(go_on) writes what came since the last call, and returns nil or the dictionary's error,
-- after which a later call loses nothing; go_on() is called now and then, and false ends it; finish() is the last add
function M.writer(dict, names, shown)
  local rows = new_rows(shown or {})
  local record = slots.record(dict, KIND, PREFIX)
  local written = { wait = {}, latency = {} } -- {section=, before=} by the row's index

  -- Return the entry of `written` for a row if the row has changed, else nil; and the row as numbers.
  local function changed(family, row, i)
    local w, now = written[family][i], ffi.cast(words_pointer, row)
    if not w then
      w = { before = words_type() }
      written[family][i] = w
    end
    return now[1] ~= w.before[1] and w or nil, now
  end

  local function add_row(w, now, section)
    while section.moved do section = section.moved end
    w.section, section.changed = section, true
    local values, before = section.values, w.before
    for i = 0, LENGTH - 1 do values[i] = values[i] + tonumber(now[1 + i] - before[1 + i]) end
    ffi.copy(before, now, ffi.sizeof(words_type))
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

  -- Returns whether to go on.
  local function update(go_on)
    for route, number, row, i in waits.rows() do
      local w, now = changed("wait", row, i)
      if w then add_row(w, now, w.section or wait_section(route, number)) end
      if go_on and not go_on() then return false end
    end
    for route, status, method, row, i in waits.latencies() do
      local w, now = changed("latency", row, i)
      if w then add_row(w, now, w.section or latency_section(route, status, method)) end
      if go_on and not go_on() then return false end
    end
    return true
  end

  local function values_of(name, n)
    local section = n == LENGTH and rows.at(name) or nil
    if section then section.changed = true end
    return section and section.values
  end

  local function put(over, go_on)
    if not update(go_on) then return end
    if not record.number() then
      record.take(values_of)
      if not record.number() then return "no memory" end
    end
    if not over then record.adopt(values_of) end
    return record.write(rows.all, over, go_on)
  end

  local writer = {}

  function writer.add(go_on) return put(false, go_on) end
  function writer.finish() return put(true) end

  -- Call `merge`, which adds a route of the accounting to another one. All of its counts are in its own rows by then, and are in
  -- rows of another key afterwards.
  function writer.merging(merge)
    update()
    local by_key = { wait = {}, latency = {} }
    for family, list in pairs_of(written) do
      for _, w in pairs_of(list) do by_key[family][tostring(w.before[0])] = w end
    end
    merge()
    written = { wait = {}, latency = {} }
    local function rebase(family, row, i)
      local w = by_key[family][tostring(row.key)] or { before = words_type() }
      ffi.copy(w.before, row, ffi.sizeof(words_type))
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
  return { waits = sorted(lists.wait, longer, pause), requests = sorted(lists.latency, longer, pause) }
end

return M
