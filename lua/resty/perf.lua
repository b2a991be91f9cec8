--- Counts of single requests in OpenResty: doc/openresty.md is its manual.
--
-- A worker is one thread, and one group of events counts it. A hook begins a request's turn, each function that may yield ends it
-- (resty.perf.yields), and csrc/core/resty/accounting.h adds the counts between to the request's account. This module has the
-- policy: which requests are counted, under which name, and where the counts go.
--
-- A request is identified by the address of its structure, which lasts through internal redirects, unlike ngx.ctx; nginx reports
-- its end to the accounting. A subrequest shares the account of its main request.
-- @module resty.perf
if not rawget(_G, "ngx") then
  error("resty.perf needs nginx's Lua module: require it in OpenResty's init_by_lua_block, not in a plain interpreter", 2)
end
local argument = require "perf.base.argument"
local at_exit = require "perf.base.at_exit"
local clock = require "perf.base.clock"
local pairs_of = require "perf.base.pairs"
local base = require "resty.core.base"
local blocked = require "resty.perf.blocked"
local code_cache = require "resty.perf.code_cache"
local commands = require "resty.perf.commands"
local events = require "resty.perf.worker_events"
local handover = require "resty.perf.handover"
local host = require "resty.perf.host"
local accounting = require "resty.perf.accounting"
local chunks = require "resty.perf.chunks"
local clients = require "resty.perf.clients"
local log = require "resty.perf.log"
local nesting = require "resty.perf.nesting"
local options = require "resty.perf.options"
local pages = require "resty.perf.pages"
local profiles = require "resty.perf.profiles"
local numbers = require "resty.perf.route_numbers"
local routes = require "resty.perf.routes"
local slices = require "resty.perf.slices"
local slow = require "resty.perf.slow"
local spans = require "resty.perf.spans"
local shared_waits = require "resty.perf.shared_waits"
local totals = require "resty.perf.shared_totals"
local waits = require "resty.perf.waits"
local yields = require "resty.perf.yields"

local check_install = require "perf.api.check".options "resty.perf.install"
local get_request = base.get_request
local enter, exit, finish = accounting.enter, accounting.exit, accounting.finish
local start_time = ngx.req.start_time
local tick_every = ngx.timer.every

local M = { _VERSION = require "perf.version" }

local ENOENT, EBUSY = accounting.ENOENT, accounting.EBUSY
local TIMER, LOG, EXIT_WORKER = accounting.number.timer, accounting.number.log, accounting.number.exit_worker
local TIMERS = options.TIMERS
local apart_by_phase = {} -- routes
for phase, route in pairs_of(options.apart) do apart_by_phase[accounting.number[phase]] = route end

local config -- the checked options of perf.start; nil before
local running = false
local writer, waits_writer -- they write totals, and waits if these are counted
local names -- the routes' names, by number: see resty.perf.route_numbers
local ticking, dict_refused
local refused -- the error of the last write to the dictionary, or nil
local newest_exit -- {exit=}: the finalizer of the open accounting

local function warn(level, ...) log.write(level, "resty.perf: ", ...) end

-- A function that pauses, and then returns whether the accounting is still the same.
local function pausing(pause)
  local mine = writer
  return function()
    pause()
    return running and writer == mine
  end
end

-- Requests become known -----------------------------------------------------------------------------------------------

local function note_uses(pause)
  config.names.used(numbers.take_uses(), function(name) numbers.forget(name, waits_writer) end)
  config.names.turn_over()
  if waits_writer then waits.note_uses(pause and pausing(pause)) end
end

-- Make a main request known, and count it if it is sampled.
local function admit(r, phase)
  accounting.see()
  -- nginx reports the end of a request before its log phase, and does not report the end of exit_worker_by_lua's request. Both
  -- count as ended.
  local ended = (phase == LOG and r == get_request() or phase == EXIT_WORKER) and 1 or 0
  if config.blind and not config.decide() then return accounting.admit(r, -1, ended, 0) end
  local apart = apart_by_phase[phase]
  local route = apart or config.find(host.variable(r, "uri") or "")
  local counted = config.blind or config.decide(route, not apart and config.header and host.variable(r, config.header))
  if counted then route = config.names.admit(route) end
  local start = config.reports and not apart and host.start_time(r) or 0
  if accounting.admit(r, counted and numbers.number(route) or -1, ended, start) ~= 0 then return end
  if counted and config.spans and not apart then spans.begin(config.spans, r, route, start) end
end

-- Call this if `enter` returned a negative `code`. Makes an unknown request known, and enters it if it is counted. Returns the
-- same as enter; also 0 in a hook that another hook has called, since the outer turn continues.
local function admit_and_enter(r, phase, code)
  if code == EBUSY and not nesting.in_hook() then return math.max(enter(r, phase + accounting.ANEW), 0) end
  if code ~= ENOENT then return 0 end
  local main = accounting.main(r)
  if not main and ngx.is_subrequest then return 0 end
  if not main or main == r then
    admit(r, phase)
  elseif accounting.alias(r, main) == ENOENT then
    admit(main, phase)
    accounting.alias(r, main)
  end
  code = enter(r, phase)
  return code > 0 and code or 0
end

-- Hooks ---------------------------------------------------------------------------------------------------------------

local function idle(fn, ...)
  if not config and code_cache.is_off() then
    warn(ngx.ERR, "lua_code_cache is off: each request runs in a separate Lua state, so none can be counted")
  end
  if fn then return fn(...) end
end

local function done(outer, ...)
  exit(get_request(), outer)
  return ...
end

local function hook(phase)
  local function run(fn, ...)
    if not running then return idle(fn, ...) end
    local r = get_request()
    local code = enter(r, phase)
    if code < 0 then code = admit_and_enter(r, phase, code) end
    if fn == nil then
      if code > 0 then exit(r, code - 1) end
      return
    end
    if code <= 0 then return fn(...) end
    return done(code - 1, fn(...))
  end
  nesting.hooks[run] = true
  return run
end

--- Run a phase's code and count it: `content_by_lua_block { perf.content(require("app").run) }`.
-- @function resty.perf.content, resty.perf.server_rewrite, resty.perf.rewrite, resty.perf.access, resty.perf.set,
-- resty.perf.balancer, resty.perf.header_filter, resty.perf.body_filter, resty.perf.ssl_client_hello, resty.perf.ssl_certificate,
-- resty.perf.ssl_session_fetch, resty.perf.ssl_session_store, resty.perf.exit_worker
-- @tparam[opt] function fn the code, called with the other arguments; it may yield
-- @tparam any ... its arguments
-- @treturn any its results; its errors are raised unchanged
for phase, name in ipairs(accounting.phases) do
  if phase ~= LOG and phase ~= TIMER then M[name] = hook(phase) end
end

-- A request has ended: log it if it was slow, and finish its span.
-- @param[opt] route its number, if it was counted
local function report(r, route)
  local counts
  local function finished()
    if route then counts = counts or accounting.finished() end
    return counts
  end
  if route and config.spans then spans.finish(r, names[route], finished(), config.span_waits) end
  if not config.is_slow then return end
  local seconds = clock.seconds() - start_time()
  if not config.is_slow(seconds, finished) then return end
  local var = ngx.var
  local request = { seconds = seconds, route = names[route] or config.find(var.uri), method = var.request_method,
    uri = config.redact(var.request_uri), status = ngx.status, counts = finished(),
    wait = route and waits.longest(slow.show) or nil }
  log.later(ngx.WARN, slow.line(request))
  slow.keep(config.dict, request)
end

local function finished(...)
  local r = get_request()
  local route = finish(r)
  -- A slow request is reported even if it was not sampled; that takes two readings of the clock.
  if config.reports and (route == false or route and accounting.finished_start() == start_time()) then report(r, route) end
  return ...
end

--- The log phase of a request: `log_by_lua_block { perf.log() }`. Slow requests are logged, and spans finished, here.
-- @tparam[opt] function fn code of this phase, counted like that of other phases
-- @tparam any ... its arguments
-- @treturn any its results
function M.log(fn, ...)
  if not running then return idle(fn, ...) end
  local r = get_request()
  if accounting.turn(r) == LOG and nesting.in_hook() then return fn and fn(...) end
  if fn == nil then return finished() end
  local code = enter(r, LOG)
  if code < 0 then code = admit_and_enter(r, LOG, code) end
  if code <= 0 then return finished(fn(...)) end
  return finished(done(0, fn(...)))
end
nesting.hooks[M.log] = true

local function run_timer(fn, ...)
  if not running then return fn(...) end
  local r = get_request()
  local route = config.timers and numbers.number(config.names.admit(options.timer_route(fn))) or numbers.number(TIMERS)
  if accounting.admit(r, route, 0, 0) ~= 0 or enter(r, TIMER) <= 0 then return fn(...) end
  return done(0, fn(...))
end

-- To start and stop ---------------------------------------------------------------------------------------------------

--- Wrap the functions that yield. perf.start does it too; but call it in init_by_lua before modules that keep `local sleep =
-- ngx.sleep`. A second call does nothing.
-- @tparam[opt] table options
function M.install(opts)
  opts = check_install(opts, 1)
  if M.installed then return end
  M.installed = true
  if ngx.get_phase() == "init" then handover.prepare() end
  require "resty.perf.preload"
  yields.install(ngx, { leave = accounting.leave, back = accounting.back, turn = accounting.turn, nested = accounting.nested,
    serial = accounting.serial, at = waits.at, request = get_request },
    { timer = run_timer, find = function(path) return config.find(path) end })
  if not opts.auto then return end
  local ok, message = chunks.install(M)
  if not ok then warn(ngx.ERR, "auto: ", message) end
end

-- The route of a blocked turn, a result of accounting.blocked.
local function blocked_route(turn)
  if turn.phase == 0 then return options.NGINX end
  if turn.route then return names[turn.route] or routes.OTHER end
  return apart_by_phase[turn.phase] or config.names.admit(config.find(turn.uri:match "^[^?]*"))
end

-- Write the worker's record in the shared dictionary.
-- @param[opt] over it is the last one
-- @param[opt] pause called now and then
local function publish(over, pause)
  if not running then return end
  local part, go_on = over and "finish" or "add", pause and pausing(pause)
  local failure = writer[part](go_on)
  if go_on and not go_on() then return end
  if waits_writer then failure = waits_writer[part](go_on) or failure end
  if go_on and not go_on() then return end
  refused = failure
  if failure then config.dict:incr("refused", 1) end
  if config.blocked then blocked.report(config.dict, blocked_route, config.redact, go_on) end
  if failure and not dict_refused then
    dict_refused = true
    warn(ngx.ERR, "lua_shared_dict ", config.dict_name, ": ", failure, "; make it larger. Until then, other workers do not see",
      " the counts of this one, and they are lost when it ends")
  end
end

local function halt()
  if not running then return end
  publish(true)
  running = false
  spans.forget()
  accounting.close()
end

-- A worker that gets SIGTERM calls no more timers, so its last counts are published when its Lua state closes. Lua runs the
-- newest finalizers first, so this one must be made after the accounting.
local function publish_at_end()
  local mine = {}
  mine.exit = at_exit(function()
    if newest_exit ~= mine then return end
    log.close()
    log.flush()
    publish(true)
    running = false
    log.flush() -- those of the last blocked turns
  end)
  newest_exit = mine
end

-- Prepare the accounting that was just opened: its writer, and the route of timers.
local function begin()
  accounting.main(get_request()) -- the request is that of a worker's start or of a timer, and not a subrequest
  waits.bound_peers(config.peers)
  writer = totals.writer(config.dict, accounting, config.names.admit)
  if config.blocked then
    local ok, message = accounting.watch(config.blocked * 1e9, log.writes(ngx.WARN))
    if not ok then warn(ngx.WARN, "blocked: ", message) end
  end
  names = numbers.begin(writer, config.blocked, TIMERS)
  waits_writer = config.waits and accounting.count_waits() and shared_waits.writer(config.dict, names, config.shown) or nil
end

-- Count these events from now on. If they are refused, nothing changes.
local function go(list)
  local set, message, code = events.open(list)
  if not set then return nil, message, code end
  local ok
  ok, message, code = accounting.open(set, host.functions, function() publish(true) end)
  if not ok then return nil, message, code end
  spans.forget()
  local called, failure = pcall(begin)
  if not called then
    running = false
    accounting.close()
    error(failure, 0)
  end
  running = true
  publish_at_end()
  return true
end

-- True if nothing can be counted or reported before another start: `sample = 0`, without a header, routes, `slow` and `blocked`.
local function asleep() return config.every == 0 and config.blind and not (config.is_slow or config.blocked) end

-- Flush traces: they were compiled for the old state.
local function follow(command)
  jit.flush()
  if command.stop then return halt() or true end
  local list, sample = command.events or config.events, command.sample or not running and asleep() and 1 or nil
  local decide, header, blind = options.sampler(sample)
  if command.events or sample or not running then
    local ok, message, code = go(list)
    if not ok then return nil, message, code end
  end
  config.events = list
  if sample then config.every, config.decide, config.header, config.blind = sample, decide, header, blind end
  return true
end

local function tick(premature)
  log.flush()
  code_cache.mark(config.dict)
  local pause = not premature and slices.pausing() or nil
  if running then note_uses(pause) end
  publish(false, pause)
  if premature then return end
  profiles.follow(config.dict, names)
  local command = commands.newest(config.dict, config.mark)
  if command then
    local ok, message = follow(command)
    if not ok then warn(ngx.ERR, message) end
  end
end

--- Begin to count. Call it in init_worker_by_lua with the worker's options; later, in any worker, to begin again after a stop or
-- with other `events` (text) or another `sample` (a number): the other workers follow within a second.
-- @tparam[opt] table options
-- @treturn boolean true @fails requests are then served as usual, and not counted
-- @raise for an unknown option or event
function M.start(opts)
  if opts ~= nil and type(opts) ~= "table" then argument.raise("table expected, got " .. type(opts)) end
  if ngx.get_phase() == "init" then
    argument.raise("call perf.start in init_worker_by_lua: events that the master opens do not count its workers", 0)
  end
  if config then
    opts = opts or {}
    options.change(opts)
    local ok, message, code = follow(opts)
    if ok then ok, message = commands.publish(config.dict, config.mark, opts) end
    return ok, message, code
  end

  local c = options.check(opts)
  M.install()
  config = c
  handover.join()
  code_cache.mark(config.dict)
  commands.prepare(config.dict)
  config.dict:safe_add("refused", 0) -- while there is room
  local command = commands.newest(config.dict, config.mark)
  local ok, message, code = true, nil, nil
  if command then ok, message, code = follow(command) elseif not asleep() then ok, message, code = go(config.events) end
  if not ok then warn(ngx.WARN, message) end
  if not ticking then
    ticking = true
    tick_every(1, tick)
  end
  return ok, message, code
end

--- Stop counting, in all workers within a second. Hooks then only call the functions that they are given.
-- @treturn boolean true @fails this worker has stopped, but the others do not
function M.stop()
  if not config then return true end
  halt()
  return commands.publish(config.dict, config.mark, { stop = true })
end

-- Results -------------------------------------------------------------------------------------------------------------

--- The counts of the running request so far.
-- @treturn ?Counts nil if it is not counted
function M.request() return running and accounting.request(get_request()) or nil end

--- The running request's span, to put its context into requests that it makes: `perf.span():inject(headers)`.
-- @treturn ?Span nil if it is not counted, or there is no tracer
function M.span() return running and config.spans and spans.current(accounting.main(get_request()) or get_request()) or nil end

--- Profile workers for some seconds; the calling request waits.
-- @tparam string|table event as for `perf.profiler`
-- @tparam number seconds the duration, at most 60
-- @tparam[opt] table options
-- @treturn Profile the zone of a sample is the request's route @fails
function M.profile(event, seconds, opts) return profiles.profile(event, seconds, opts, config and config.dict, names) end

--- The waits of requests, of all workers, up to a second ago.
-- @treturn ?table `{waits = {{route=, phase=, kind=, peer=, line=, count=, lasted_ns=, waiting_ns=, late_ns=, histogram=}, ...},
-- requests = {{route=, status=, method=, count=, lasted_ns=, histogram=}, ...}}`, the longest first; nil unless `waits` is on
function M.waits()
  publish()
  return config and config.waits and shared_waits.read(config.dict, config.shown) or nil
end

--- Turns that were longer than `blocked`, of all workers, up to a second ago.
-- @treturn ?table `{routes = {{route=, count=, lasted_ns=}, ...}, recent = {{at=, pid=, route=, uri=, phase=, wall_ns=, seen_ns=,
-- call=, lines=, counts=}, ...}}`, the newest 50 first; nil unless `blocked` is given
function M.blocked()
  publish()
  return config and config.blocked and blocked.read(config.dict, config.names.shown) or nil
end

--- The wall time of the requests of this worker that have ended, by what they did: `perf.wait_profile():flamegraph()`.
-- @tparam[opt] string route only this route
-- @treturn ?Profile nil unless `waits` is on
function M.wait_profile(route, pause)
  if not (running and accounting.waits) then return nil end
  return waits.profile(names, accounting.route_wall, route, pause)
end

--- Add up the running request under another name.
-- @tparam string name a route's name; there are at most 100
-- @treturn boolean whether the request is counted
function M.route(name)
  argument.check_type(name, "string")
  return running and accounting.reroute(get_request(), numbers.number(config.names.admit(routes.valid(name)))) or false
end

--- The counts of this worker since it began. For every event, whole = unattributed + pending + all phases of all routes.
-- @treturn ?table `{whole=, unattributed=, pending=, routes={[name]={requests=, phases={[phase]=Counts}, wall_ns=, waiting_ns=,
-- late_ns=}}, abandoned=, known=}`: the three times are there if `waits` is on, and wall = the phases' wall + waiting + late;
-- of `whole`, `unattributed` belongs to no request and `pending` to requests that are not finished (Counts); `abandoned` turns;
-- `known` requests; nil while it does not count
function M.worker()
  if not running then return nil end
  local whole, unattributed, pending = accounting.balance()
  local by_name = {}
  for n, name in pairs_of(names) do
    local phases = {}
    for phase, label in ipairs(accounting.phases) do phases[label] = accounting.phase_counts(n, phase, accounting.zeros()) end
    by_name[name] = { requests = accounting.requests(n), phases = phases }
  end
  waits.add_to(by_name, names)
  return { whole = whole, unattributed = unattributed, pending = pending, routes = by_name, abandoned = accounting.abandoned(),
    known = accounting.known() }
end

-- The sums of all workers; `pause` is called now and then. This worker's counts are published first, so that a counter that a
-- page has shown never goes back, even if this worker is killed immediately afterwards.
local function sums(pause)
  if not config then return nil end
  publish(false, pause)
  if pause then pause() end
  -- If the dictionary has refused this worker's counts, they are read from its writer, in one piece.
  local found = totals.read(config.dict, accounting.phases, config.names.shown, running and refused and writer or nil, pause)
  if found and config.waits then
    found.waits = shared_waits.read(config.dict, config.shown, pause)
  end
  if found and config.blocked then found.blocked = blocked.read(config.dict, config.names.shown, pause) end
  return found
end

--- The sums of all workers, up to a second ago.
-- @treturn ?table nil before the first worker has begun
function M.totals() return sums() end

-- The state for the pages.
function M.state()
  return { running = running, sample = config and config.every, events = running and accounting.events() or nil,
    source = running and select(2, accounting.events()) or nil, pid = ngx.worker.pid(), dict = config and config.dict,
    token = config and clients.page_token(config.dict), refused = refused, sums = sums,
    dictionary = config and { capacity = config.dict:capacity(), free = config.dict:free_space() } }
end

--- A page of the counts, for content_by_lua: HTML, or JSON with `?format=json`. See doc/openresty.md.
-- @tparam[opt] table options
function M.status(opts) return pages.status(M, opts) end

--- Prometheus metrics, for content_by_lua. See doc/openresty.md.
-- @tparam[opt] table options
function M.metrics(opts) return pages.metrics(M, opts) end

return M
