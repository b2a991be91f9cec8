-- The pages: HTML, JSON, Prometheus metrics, and flame graphs of the worker; and, by POST, to start and stop.
--
-- They show paths and counts, so by default only this machine may see them (resty.perf.clients). A proxy in front of nginx on the
-- same machine counts as this machine.
local argument = require "perf.base.argument"
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"
local exposition = require "resty.perf.metrics"
local formats = require "perf.profile.report.formats"
local json = require "perf.base.json"
local live_heap = require "resty.perf.live_heap"
local keys_of = require "perf.base.keys"
local checks = require "perf.api.check"
local clients = require "resty.perf.clients"
local slices = require "resty.perf.slices"
local slow = require "resty.perf.slow"

local take_heap, heap_text = require "perf.heap".heap, require "perf.heap.report".heap -- tostring, with pauses

local BUCKETS = require "resty.perf.accounting".BUCKETS

local M = {}

-- The status page draws the JSON from its own address (?format=json), again every two seconds. It loads nothing else, and shows
-- the content of requests only as text.
local STATUS = core.web_file("resty/perf/status/page.html"):gsub("@(%u+)@", {
  STYLE = core.web_file "resty/perf/status/style.css", SCRIPT = core.web_file "resty/perf/status/script.js" })

local function refuse(status, text)
  ngx.status = status
  ngx.header.content_type = "text/plain"
  ngx.say(text)
end

-- The value below which a given share of the requests lies: the upper bound of the histogram's bucket.
function M.quantile(buckets, requests, share)
  local below = 0
  for b = 0, BUCKETS - 1 do
    below = below + (buckets and buckets[b] or 0)
    if below > 0 and below >= share * requests then return 2 ^ b - 1 end
  end
end

-- Arrays from 0 become objects by the event's label; "lua" is the wall time.
local function by_label(totals, counts)
  local t = { lua = counts[0] }
  for i, e in ipairs(totals.events) do
    if not e.why then t[e.label] = counts[i] end
  end
  return t
end

-- A route in the JSON page.
local function route_report(totals, r)
  local sum, phases, median, most = {}, {}, {}, {}
  for row = 0, #totals.events do sum[row] = 0 end
  for name, counts in pairs_of(r.phases) do
    phases[name] = by_label(totals, counts)
    for row, v in pairs_of(counts) do sum[row] = sum[row] + v end
  end
  for row, buckets in pairs_of(r.histograms) do
    median[row], most[row] = M.quantile(buckets, r.requests, 0.5), M.quantile(buckets, r.requests, 0.99)
  end
  return { name = r.name, requests = r.requests, sum = by_label(totals, sum), phases = phases, p50 = by_label(totals, median),
    p99 = by_label(totals, most) }
end

-- The JSON page without its routes and slow requests.
local function report(totals, state)
  local events = { { label = "lua", unit = "ns" } }
  for _, e in ipairs(totals and totals.events or {}) do events[#events + 1] = e end
  return { running = state.running, sample = state.sample, heap = state.heap, source = state.source, worker = state.pid,
    events = events,
    token = not state.secret and state.token or nil, secret = state.secret, dictionary = state.dictionary,
    refused = state.refused, phases = totals and totals.phases or json.empty_array,
    unattributed = totals and by_label(totals, totals.unattributed), unfinished = totals and by_label(totals, totals.running),
    whole = totals and by_label(totals, totals.worker), abandoned = totals and totals.abandoned }
end

local DONE = "done; the other workers follow within a second"
local CHANGES = { sample = true, events = true, heap = true }
local COMMANDS = "expected do=stop, do=snapshot with as=html or json, "
  .. "or do=start with sample=N, events=LIST and heap=BYTES, each once"

local function start(perf, args)
  local sample, bytes = tonumber(args.sample), tonumber(args.heap)
  if args.sample and not sample then return refuse(400, "sample: number expected") end
  if args.heap and not bytes then return refuse(400, "heap: number expected") end
  local called, ok, message = pcall(perf.start, { sample = sample, events = args.events, heap = bytes })
  if not called then return refuse(400, argument.why(ok)) end
  if not ok then return refuse(500, message) end
  return refuse(200, DONE)
end

local taken = setmetatable({}, { __mode = "v" }) -- the snapshot that is being taken: if its client has left, it is collected
local taken_at
local LONGEST = 60 -- seconds

local function snapshot_text(heap) ngx.print(("worker %d: %s\n"):format(ngx.worker.pid(), heap_text(heap))) end

-- The forms of a snapshot: the type of the answer's content, and a function that writes it.
local SNAPSHOTS = {
  html = { "text/html", function(heap) heap:html() end },
  json = { "application/json", function(heap) ngx.print(heap:json(), "\n") end },
}

-- Answer with all objects of this worker's Lua state, and what holds them. The child of a fork takes the snapshot.
local function snapshot(form)
  if taken[1] and ngx.now() - taken_at < LONGEST then return refuse(409, "a snapshot of this worker is being taken already") end
  if taken[1] then taken[1]:close() end
  local heap, message = take_heap { fork = true }
  if not heap then return refuse(501, message) end
  taken[1], taken_at = heap, ngx.now()
  local ok, why, code
  repeat
    ngx.sleep(0.05)
    if taken[1] ~= heap then return refuse(503, "the snapshot took too long, and another one was asked for") end
    ok, why, code = heap:wait(0)
  until ok or code ~= "ETIMEDOUT" or ngx.now() - taken_at > LONGEST
  if ok then
    ngx.header.content_type = form and form[1] or "text/plain"
    heap.stream = { put = ngx.print, pause = slices.pausing() }
    ok, why = pcall(form and form[2] or snapshot_text, heap)
  end
  heap:close()
  if taken[1] == heap then taken[1] = nil end -- otherwise it was given up, and this is the next one
  if not ok then return refuse(503, why) end
end

local function command(perf, secret, page_token)
  local reason = clients.refusal(secret, page_token)
  if reason then return refuse(403, reason) end
  local args = ngx.req.get_uri_args()
  local what = args["do"]
  args["do"] = nil
  local form = what == "snapshot" and SNAPSHOTS[args.as]
  if form then args.as = nil end
  for k, v in pairs_of(args) do
    if what ~= "start" or not CHANGES[k] or type(v) ~= "string" then return refuse(400, COMMANDS) end
  end
  if what == "start" then return start(perf, args) end
  if what == "snapshot" then return snapshot(form) end
  if what ~= "stop" then return refuse(400, COMMANDS) end
  local ok, message = perf.stop()
  if not ok then return refuse(500, message) end
  return refuse(200, DONE)
end

-- The formats that a page can have, by name; and their names for a message.
local FORMS, names = {}, {}
for _, format in ipairs(formats) do
  if format.content_type then FORMS[format.name], names[#names + 1] = format, format.name end
end
local EXPECTED = ("expected %s or %s"):format(table.concat(names, ", ", 1, #names - 1), names[#names])

local function send_profile(prof, form, name, pause)
  local format = FORMS[form]
  ngx.header.content_type = format.content_type
  if format.download then ngx.header.content_disposition = ('attachment; filename="%s.%s"'):format(name, format.download) end
  prof.stream = { put = ngx.print, pause = pause }
  prof[form](prof)
end

local STATUS_OF = { EBUSY = 409, EINVAL = 400, ESRCH = 404 }

local function text_of(arg) return type(arg) == "string" and arg or nil end

local LEAST = 4096 -- bytes: with a shorter period, a worker that allocates much would be several times slower

local function flame(perf, args, secret)
  local reason = clients.no_profile(secret)
  if reason then return refuse(403, reason) end
  local form = args.as or "flamegraph"
  if not FORMS[form] then return refuse(400, "as: " .. EXPECTED) end
  local seconds = args.seconds == nil and 2 or tonumber(text_of(args.seconds))
  if not seconds then return refuse(400, "seconds: number expected") end
  local workers = text_of(args.workers)
  local event, opts = text_of(args.flame) or "task-clock", { workers = tonumber(workers) or workers, route = text_of(args.route) }
  for _, name in ipairs { "period", "survived" } do
    opts[name] = tonumber(text_of(args[name]))
    if args[name] and not opts[name] then return refuse(400, name .. ": number expected") end
  end
  if (event == "alloc" or event == "heap") and opts.period and opts.period < LEAST then
    return refuse(400, ("period: at least %d bytes expected here"):format(LEAST))
  end
  local called, prof, message, code = pcall(perf.profile, event, seconds, opts)
  if not called then return refuse(400, argument.why(prof)) end
  if not prof then return refuse(STATUS_OF[code] or 500, message) end
  send_profile(prof, form, "profile", slices.pausing())
end

local function waiting(perf, args, secret)
  local reason = clients.no_profile(secret)
  if reason then return refuse(403, reason) end
  if not FORMS[args.waits] then return refuse(400, "waits: " .. EXPECTED) end
  local pause = slices.pausing()
  local prof = perf.wait_profile(text_of(args.route), pause)
  if not prof then return refuse(503, "this worker does not count waits: set the option `waits` of perf.start") end
  send_profile(prof, args.waits, "waits", pause)
end

-- The parameters of each kind of page that GET shows.
local PARAMETERS = { flame = { "as", "flame", "period", "route", "seconds", "survived", "workers" },
  heap = { "heap", "route", "seconds" }, waits = { "route", "waits" }, page = { "format" } }

-- The page that the arguments select: "flame", "heap", "waits" or "page"; and the error in their names, or nil.
local function kind_of(args)
  local kind, known = args.waits and "waits" or args.flame and "flame" or args.heap and "heap" or "page", {}
  for _, name in ipairs(PARAMETERS[kind]) do known[name] = true end
  for _, name in ipairs(keys_of(args)) do
    local shown = tostring(name):sub(1, 60):gsub("[^%g ]", "?")
    if type(args[name]) == "table" then return kind, ("parameter '%s' is given more than once"):format(shown) end
    if not known[name] then
      local hint = checks.hint(name, known)
      return kind, ("unknown parameter '%s'%s"):format(shown, hint ~= "" and hint
        or "; this page has " .. checks.enumerate(PARAMETERS[kind]))
    end
  end
  return kind
end

-- The memory that is alive; with `seconds`, its growth in this time.
local function heap(perf, args, secret)
  local reason = clients.no_profile(secret)
  if reason then return refuse(403, reason) end
  if not FORMS[args.heap] then return refuse(400, "heap: " .. EXPECTED) end
  local seconds = tonumber(text_of(args.seconds))
  if args.seconds and not (seconds and seconds > 0 and seconds <= 60) then
    return refuse(400, "seconds: a number above 0 and at most 60 expected")
  end
  local pause, route = slices.pausing(), text_of(args.route)
  local prof, message, code = perf.live_heap(route, pause)
  if prof and seconds then
    ngx.sleep(seconds)
    local before = prof
    prof, message, code = perf.live_heap(route, pause)
    if prof then prof = live_heap.growth(before, prof, pause) end
  end
  if not prof then return refuse(code == "EINVAL" and 503 or STATUS_OF[code] or 500, message) end
  send_profile(prof, args.heap, "heap", pause)
end

local DENIED = "this address may not see the page: see the option `from` of perf.status and perf.metrics"
local NOTHING = "nothing is counted: perf.start has not been called, or has failed; see the error log\n"

local function metrics(state, shape)
  local pause = slices.pausing()
  local totals = state.sums(pause)
  if not totals then return refuse(503, NOTHING) end
  totals.dictionary = state.dictionary
  ngx.header.content_type = "text/plain; version=0.0.4; charset=utf-8"
  ngx.print(exposition.text(totals, ngx.print, shape, pause))
end

local SHOWN = 100 -- rows of waits

-- A row of waits in the JSON page. longest_ns is an upper bound: that of the highest bucket in use.
local function wait_report(row)
  local longest = 0
  for b in pairs_of(row.histogram) do longest = math.max(longest, 2 ^ b - 1) end
  return { route = row.route, phase = row.phase, kind = row.kind, peer = row.peer, line = row.line, count = row.count,
    lasted_ns = row.lasted_ns, waiting_ns = row.waiting_ns, late_ns = row.late_ns, longest_ns = longest }
end

-- Write a member of the JSON page: an array, with a pause after each value.
local function print_array(name, list, value_of, pause)
  ngx.print(',"', name, '":[')
  for i, value in ipairs(list) do
    ngx.print(i > 1 and "," or "", json.encode(value_of(value)))
    pause()
  end
  ngx.print "]"
end

local function itself(value) return value end

local function as_json(state)
  local reason = clients.foreign() -- it has the page's token
  if reason then return refuse(403, reason) end
  local pause = slices.pausing()
  local totals = state.sums(pause)
  ngx.header.content_type = "application/json"
  ngx.print((json.encode(report(totals, state)):gsub("}$", "")))
  totals = totals or { routes = {} }
  print_array("routes", totals.routes, function(route) return route_report(totals, route) end, pause)
  if totals.waits then print_array("waits", { unpack(totals.waits.waits, 1, SHOWN) }, wait_report, pause) end
  if totals.blocked then
    print_array("blocked", totals.blocked.recent, itself, pause)
    print_array("blocked_routes", totals.blocked.routes, itself, pause)
  end
  ngx.print(',"slow":[', table.concat(state.dict and slow.recent(state.dict) or {}, ","), "]}\n")
end

local status_options = clients.options "resty.perf.status"
local metrics_options = clients.options("resty.perf.metrics", exposition.shape)

-- Content handler.
function M.status(perf, opts)
  opts = status_options(opts)
  if not opts.allows(ngx.var.remote_addr) then return refuse(403, DENIED) end
  local state = perf.state()
  state.secret = opts.token ~= nil
  local method = ngx.req.get_method()
  if method == "POST" then return command(perf, opts.token, state.token) end
  if method ~= "GET" and method ~= "HEAD" then
    ngx.header.allow = "GET, HEAD, POST"
    return refuse(405, "expected GET, HEAD or POST")
  end
  local args = ngx.req.get_uri_args()
  local kind, mistake = kind_of(args)
  if mistake then return refuse(400, mistake) end
  if kind == "waits" then return waiting(perf, args, opts.token) end
  if kind == "heap" then return heap(perf, args, opts.token) end
  if kind == "flame" then return flame(perf, args, opts.token) end
  if args.format == "metrics" then return metrics(state) end
  if args.format == "json" then return as_json(state) end
  local forms = { json = true, metrics = true }
  if args.format then return refuse(400, "format: json or metrics expected" .. checks.hint(args.format, forms)) end
  ngx.header.content_type = "text/html; charset=utf-8"
  ngx.print(STATUS)
end

-- Content handler.
function M.metrics(perf, opts)
  opts = metrics_options(opts)
  if not opts.allows(ngx.var.remote_addr) then return refuse(403, DENIED) end
  return metrics(perf.state(), opts.more)
end

return M
