-- The sums of all workers, in a shared dictionary (resty.perf.slots).
--
-- Each worker writes its record about once a second and when it ends. So requests do not access the dictionary, and a worker that
-- is killed loses at most a second of counts. Sums outlive workers and reloads. The key "events" has the events that are counted
-- now, a line for each, "label TAB unit TAB why", after a line with the phases; another list begins anew. The key "refused" has
-- how often the dictionary refused a worker's record: a worker that ends then loses the record.
--
-- Sections of a record: "", with the worker's own counts, and one for each route: its name.
local ffi = require "ffi"
local pairs_of = require "perf.base.pairs"
local slots = require "resty.perf.slots"

local BUCKETS = require "resty.perf.accounting".BUCKETS

local M = {}

-- The places in a worker's section; from FIRST on are `whole`, `unattributed` and `running`, each with a row for each event.
local ABANDONED, SEEN, FIRST = 0, 1, 2

-- The places in a section of a route: 0 has the requests; then each phase has a row for each event, row 0 is wall time; then each
-- row has a histogram.
local function layout_of(rows, phases)
  local each = rows + 1
  return { each = each, worker = FIRST + 3 * each, histograms = 1 + phases * each, route = 1 + phases * each + each * BUCKETS }
end

-- The sections of some records.
-- @param[opt] used arrays for routes of the same layout
-- @return array_of(name, n), for resty.perf.slots, which also returns whether the array is new; the sections by name
local function sections_of(layout, used)
  local sections = {}
  return function(name, n)
    if n ~= (name == "" and layout.worker or layout.route) then return nil end
    local section = sections[name]
    local new = not section
    if new then
      section = { name = name, values = slots.array(n, name ~= "" and used and table.remove(used) or nil), n = n }
      sections[name] = section
    end
    section.changed = true
    return section.values, new
  end, sections
end

local function add(to, from, n)
  for i = 0, n - 1 do to[i] = to[i] + from[i] end
end

local function text_of(rows, phases)
  local lines = { table.concat(phases, " ") }
  for i, row in ipairs(rows) do lines[i + 1] = table.concat({ row.label, row.unit or "", row.why or "" }, "\t") end
  return table.concat(lines, "\n")
end

-- A writer of one worker's counts.
-- @param dict ngx.shared.DICT
-- @param accounting resty.perf.accounting, open
-- @param admit function(name): the name under which a route of the record's earlier owners goes on
-- @return {kind=, route=, merge=, add=, finish=, own=}: kind: a text that names what is counted; route(name, number) announces a
-- route; merge(name, number, other, other_number) adds a route to another one, number is nil for one that this worker has not
-- announced; add(go_on) writes the record and returns nil, or the dictionary's error; go_on() is called now and then, and false
-- ends it; finish() is the last add: what running requests have counted is then unattributed; own() returns the sections, the
-- record's number, and the kind of the counts
function M.writer(dict, accounting, admit)
  local rows = accounting.events()
  local text = text_of(rows, accounting.phases)
  local layout = layout_of(#rows, #accounting.phases)
  local each = layout.each
  local whole, unattributed, running = FIRST, FIRST + each, FIRST + 2 * each
  local array_of, sections = sections_of(layout)
  local record = slots.record(dict, text)
  local own = array_of("", layout.worker)
  local before = { whole = accounting.zeros(), unattributed = accounting.zeros(), abandoned = 0, seen = 0 }
  local routes = {}

  local frozen -- a copy of the routes' sums, of the moment when `own` was updated
  local due = {} -- the numbers of the routes whose sections are not updated from `frozen` yet

  local function update(number, values)
    local r = routes[number]
    local requests = accounting.requests(number, frozen)
    if requests == r.requests then return end
    values[0], r.requests, r.section.changed = values[0] + requests - r.requests, requests, true
    for phase, words in accounting.ran(frozen, number, r.walls) do
      accounting.add_values(words, r.phases[phase], values, 1 + (phase - 1) * each)
    end
    for row = 0, #rows do
      accounting.add_histogram(frozen, number, row, r.buckets, values, layout.histograms + row * BUCKETS)
    end
  end

  -- Update the sections that are due. Returns true if none was due, false if some were, or nil if go_on() ended this early.
  local function complete(go_on)
    local number = table.remove(due)
    if not number then return true end
    while number do
      if routes[number] then update(number, routes[number].section.values) end
      if go_on and not go_on() then return nil end
      number = table.remove(due)
    end
    return false
  end

  -- Update all sections to the sums of this moment. The routes' sums are copied first, so requests may go on meanwhile, and may
  -- call this function again. Returns false if go_on() ended it early.
  local function update_all(go_on)
    complete()
    local words = accounting.settle()
    accounting.add_values(words.whole, before.whole, own, whole)
    accounting.add_values(words.unattributed, before.unattributed, own, unattributed)
    for i = running, running + #rows do own[i] = 0 end
    accounting.add_values(words.last, nil, own, running)
    for place, name in pairs_of { [ABANDONED] = "abandoned", [SEEN] = "seen" } do
      local n = accounting[name]()
      own[place], before[name] = own[place] + n - before[name], n
    end
    sections[""].changed = true
    frozen = accounting.freeze(frozen)
    for number in pairs_of(routes) do due[#due + 1] = number end
    return complete(go_on) ~= nil
  end

  -- Requests that were open when their worker ended are in no route.
  local function drop_running(values)
    add(values + unattributed, values + running, each)
    for i = running, running + #rows do values[i] = 0 end
  end

  -- Add what ended workers have counted.
  -- @param from record.take or record.adopt
  local function add_earlier(from)
    local earlier = slots.array(layout.worker)
    local any = from(function(name, n)
      if name ~= "" then return array_of(admit(name), n) end
      return n == layout.worker and earlier or nil
    end)
    drop_running(earlier)
    add(own, earlier, layout.worker)
    return any
  end

  local function put(over, go_on)
    if not record.number() then add_earlier(record.take) end
    if not over then add_earlier(record.adopt) end
    local refused = not record.number() and "no memory" or record.write(sections, over, go_on, complete)
    if go_on and not go_on() then return end
    if not refused and dict:get "events" ~= text then
      local ok, message = dict:safe_set("events", text)
      refused = not ok and message or nil
    end
    return refused
  end

  local writer = { kind = text }

  function writer.route(name, number)
    array_of(name, layout.route)
    local phases = {}
    for phase = 1, #accounting.phases do phases[phase] = accounting.zeros() end
    routes[number] = { section = sections[name], requests = 0, phases = phases, walls = ffi.new("uint64_t[?]", #phases),
      buckets = slots.array(each * BUCKETS) }
  end

  function writer.merge(name, number, other, other_number)
    local from = sections[name]
    if number then
      update_all()
      accounting.merge(number, other_number)
      frozen = accounting.freeze(frozen)
      update(other_number, slots.array(layout.route)) -- into an array that is dropped: the section gets these sums below
      routes[number] = nil
    end
    sections[name] = nil
    if from then
      from.gone = true
      add(array_of(other, layout.route), from.values, layout.route)
    end
  end

  function writer.add(go_on)
    if update_all(go_on) then return put(false, go_on) end
  end

  function writer.finish()
    update_all()
    drop_running(own)
    return put(true)
  end

  function writer.own()
    update_all()
    if add_earlier(record.adopt) then put(false) end
    return sections, record.number(), text
  end

  return writer
end

-- Arrays that a reading no longer needs, by their length: making them anew for each page would be most of the garbage.
local spare = {}

-- The sums of all workers, in the form for resty.perf.metrics; nil before the first worker has begun.
-- @param dict ngx.shared.DICT
-- @param phases names of the phases
-- @param name_of function(name): the name under which a route is shown
-- @param[opt] writer of this worker: its counts are up to date, and known even if the dictionary has refused them
-- @param[opt] pause called now and then
function M.read(dict, phases, name_of, writer, pause)
  local own, number, text
  if writer then own, number, text = writer.own() end
  text = text or dict:get "events"
  if not text then return nil end
  local events = {}
  for label, unit, why in text:gmatch "([^\t\n]*)\t([^\t\n]*)\t([^\n]*)" do
    events[#events + 1] = { label = label, unit = unit ~= "" and unit or nil, why = why ~= "" and why or nil }
  end
  local layout = layout_of(#events, #phases)
  local each = layout.each
  spare[layout.route] = spare[layout.route] or {}
  local array_of, sections = sections_of(layout, spare[layout.route])
  local function shown(name, n) return array_of(name == "" and "" or name_of(name), n) end
  for name, section in pairs_of(own or {}) do -- without a pause, since they are of one moment
    local values, new = shown(name, section.n)
    if new then ffi.copy(values, section.values, 8 * section.n) else add(values, section.values, section.n) end
  end
  slots.read(dict, text, shown, number, pause)

  local worker = array_of("", layout.worker)
  local function rows(values, at)
    local t = {}
    for row = 0, #events do t[row] = values[at + row] end
    return t
  end
  local routes = {}
  for name, section in pairs_of(sections) do
    local values = section.values
    if name ~= "" and values[0] > 0 then
      local route = { name = name, requests = values[0], phases = {}, histograms = {} }
      for i, phase in ipairs(phases) do
        local at = 1 + (i - 1) * each
        if values[at] > 0 then route.phases[phase] = rows(values, at) end
      end
      for row = 0, #events do
        local at, buckets = layout.histograms + row * BUCKETS, nil
        for b = 0, BUCKETS - 1 do
          if values[at + b] > 0 then
            buckets = buckets or {}
            buckets[b] = values[at + b]
          end
        end
        route.histograms[row] = buckets
      end
      routes[#routes + 1] = route
      if pause then pause() end
    end
  end
  for name, section in pairs_of(sections) do
    if name ~= "" then table.insert(spare[section.n], section.values) end
  end
  table.sort(routes, function(a, b) return a.name < b.name end)
  return { events = events, phases = phases, routes = routes, worker = rows(worker, FIRST),
    unattributed = rows(worker, FIRST + each), running = rows(worker, FIRST + 2 * each), abandoned = worker[ABANDONED],
    refused = dict:get "refused" or 0, seen = worker[SEEN] }
end

return M
