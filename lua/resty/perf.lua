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
local base = require "resty.core.base"
local blocked = require "resty.perf.blocked"
local code_cache = require "resty.perf.code_cache"
local commands = require "resty.perf.commands"
local events = require "resty.perf.worker_events"
local handover = require "resty.perf.handover"
local hooks = require "resty.perf.hooks"
local host = require "resty.perf.host"
local accounting = require "resty.perf.accounting"
local chunks = require "resty.perf.chunks"
local clients = require "resty.perf.clients"
local live_heap = require "resty.perf.live_heap"
local log = require "resty.perf.log"
local options = require "resty.perf.options"
local pages = require "resty.perf.pages"
local profiles = require "resty.perf.profiles"
local numbers = require "resty.perf.route_numbers"
local routes = require "resty.perf.routes"
local slices = require "resty.perf.slices"
local spans = require "resty.perf.spans"
local shared_waits = require "resty.perf.shared_waits"
local totals = require "resty.perf.shared_totals"
local waits = require "resty.perf.waits"
local worker_counts = require "resty.perf.worker_counts"
local yields = require "resty.perf.yields"
local zones = require "resty.perf.zones"

local check_install = require "perf.api.check".options "resty.perf.install"
local get_request = base.get_request
local tick_every = ngx.timer.every

local M = { _VERSION = require "perf.version" }

local TIMER, LOG = accounting.number.timer, accounting.number.log
local TIMERS = options.TIMERS

local config -- the checked options of perf.start; nil before
local CHANGEABLE = { "events", "sample", "heap" }
local changes = {} -- {events=, sample=, heap=}: the options that commands have changed since perf.start
local missed = {} -- those of the newest command that this worker could not follow
local running = false
local writer, waits_writer -- they write totals, and waits if these are counted
local names -- the routes' names, by number: see resty.perf.route_numbers
local ticking, dict_refused
local refused -- the error of the last write to the dictionary, or nil
local newest_exit -- {exit=}: the finalizer of the open accounting

local function warn(level, ...) log.write(level, "resty.perf: ", ...) end

local function count(on)
  running = on
  hooks.count(on and names or nil)
end

-- A function that pauses, and then returns whether the accounting is still the same.
local function pausing(pause)
  local mine = writer
  return function()
    pause()
    return running and writer == mine
  end
end

-- Hooks ---------------------------------------------------------------------------------------------------------------

--- Run a phase's code and count it: `content_by_lua_block { perf.content(require("app").run) }`.
-- @function resty.perf.content, resty.perf.server_rewrite, resty.perf.rewrite, resty.perf.access, resty.perf.set,
-- resty.perf.balancer, resty.perf.header_filter, resty.perf.body_filter, resty.perf.ssl_client_hello, resty.perf.ssl_certificate,
-- resty.perf.ssl_session_fetch, resty.perf.ssl_session_store, resty.perf.exit_worker
-- @tparam[opt] function fn the code, called with the other arguments; it may yield
-- @tparam any ... its arguments
-- @treturn any its results; its errors are raised unchanged
for phase, name in ipairs(accounting.phases) do
  if phase ~= LOG and phase ~= TIMER then M[name] = hooks.new(phase) end
end

--- The log phase of a request: `log_by_lua_block { perf.log() }`. Slow requests are logged, and spans finished, here.
-- @tparam[opt] function fn code of this phase, counted like that of other phases
-- @tparam any ... its arguments
-- @treturn any its results
-- @function resty.perf.log
M.log = hooks.log

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
    { timer = hooks.timer, find = function(path) return config.find(path) end })
  if not opts.auto then return end
  local ok, message = chunks.install(M)
  if not ok then warn(ngx.ERR, "auto: ", message) end
end

-- The route of a blocked turn, a result of accounting.blocked.
local function blocked_route(turn)
  if turn.phase == 0 then return options.NGINX end
  if turn.route then return names[turn.route] or routes.OTHER end
  return hooks.apart[turn.phase] or config.names.admit(config.find(turn.uri:match "^[^?]*"))
end

local function note_uses(pause)
  config.names.used(numbers.take_uses(), function(name) numbers.forget(name, waits_writer) end)
  config.names.turn_over()
  if waits_writer then waits.note_uses(pause and pausing(pause)) end
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
  count(false)
  live_heap.stop()
  spans.forget()
  accounting.close()
end

-- Watch which memory stays alive, if the option `heap` is set.
local function watch_heap()
  local ok, message, code = live_heap.set(config.heap, names)
  if not ok then warn(ngx.WARN, "heap: ", message) end
  return ok, message, code
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
    count(false)
    log.flush() -- those of the last blocked turns
  end)
  newest_exit = mine
end

-- Prepare the accounting that was just opened: its writer, and the route of timers.
local function begin()
  accounting.main(get_request()) -- the request is that of a worker's start or of a timer, and not a subrequest
  waits.bound_peers(config.peers)
  writer = totals.writer(config.dict, accounting, config.names.admit)
  accounting.go_on(writer.kind)
  accounting.set_slow(config.slow or math.huge)
  if config.blocked then
    local ok, message = accounting.watch(config.blocked * 1e9, log.writes(ngx.WARN))
    if not ok then warn(ngx.WARN, "blocked: ", message) end
  end
  names = numbers.begin(writer, config.blocked, TIMERS)
  zones.attach()
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
    count(false)
    accounting.close()
    error(failure, 0)
  end
  count(true)
  publish_at_end()
  watch_heap()
  return true
end

-- True if nothing can be counted or reported before another start: `sample = 0`, without a header, routes, `slow`, `blocked` and
-- `heap`.
local function asleep()
  local sampler = config.sampler
  return config.every == 0 and not (sampler.header or sampler.by_route) and config.heap == 0
    and not (config.is_slow or config.blocked)
end

-- Follow a command. Options that it does not have stay as they are. Traces are flushed: they were compiled for the old state.
local function follow(command)
  jit.flush()
  local list, heap, ok, message, code = command.events or config.events, config.heap, true, nil, nil
  config.heap = command.heap or heap
  local sample = command.sample or not command.stop and not running and asleep() and 1 or nil
  local sampler = options.sampler(sample)
  if command.stop then
    halt()
  elseif command.events or sample or not running then
    ok, message, code = go(list)
  elseif command.heap then
    ok, message, code = watch_heap()
  end
  if not ok then
    config.heap = heap
    return nil, message, code
  end
  config.events = list
  if sample then
    config.every, config.sampler = sample, sampler
    accounting.sample(sampler)
  end
  local new = { events = command.events, sample = sample, heap = command.heap }
  for _, name in ipairs(CHANGEABLE) do
    if new[name] then changes[name], missed[name] = new[name], nil end
  end
  return true
end

-- Follow a command of another worker. If this worker cannot, the command's changes stay those of the others, and of workers that
-- start later.
local function obey(command)
  local ok, message, code = follow(command)
  missed = ok and {} or command
  return ok, message, code
end

-- Follow the newest command, unless this worker has followed it already. A command has all changes so far, since a worker may
-- have missed earlier commands.
local function catch_up()
  local command = commands.newest(config.dict, config.mark)
  if not command then return end
  for _, name in ipairs(CHANGEABLE) do
    if command[name] == changes[name] then command[name] = nil end
  end
  local ok, message = obey(command)
  if not ok then warn(ngx.ERR, message) end
end

-- Publish all changes, for the other workers and for those that start later.
local function publish_changes(stop)
  return commands.publish(config.dict, config.mark,
    { stop = stop, events = missed.events or changes.events, sample = missed.sample or changes.sample,
      heap = missed.heap or changes.heap })
end

local function tick(premature)
  log.flush()
  code_cache.mark(config.dict)
  local pause = not premature and slices.pausing() or nil
  if running then note_uses(pause) end
  publish(false, pause)
  if premature then return end
  profiles.follow(config.dict, names)
  catch_up()
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
    catch_up()
    local ok, message, code = follow(opts)
    if ok then ok, message = publish_changes() end
    if ok then return true end
    return nil, message, code
  end

  local c = options.check(opts)
  M.install()
  config = c
  hooks.configure(c)
  handover.join()
  code_cache.mark(config.dict)
  commands.prepare(config.dict)
  config.dict:safe_add("refused", 0) -- while there is room
  local command = commands.newest(config.dict, config.mark)
  local ok, message, code = true, nil, nil
  if command then ok, message, code = obey(command) elseif not asleep() then ok, message, code = go(config.events) end
  if not ok then warn(ngx.WARN, message) end
  if not ticking then
    ticking = true
    tick_every(1, tick)
  end
  if ok then return true end
  return nil, message, code
end

--- Stop counting, in all workers within a second. Hooks then only call the functions that they are given.
-- @treturn boolean true @fails this worker has stopped, but the others do not
function M.stop()
  if not config then return true end
  catch_up()
  halt()
  return publish_changes(true)
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
  return waits.profile(names, accounting.walls, route, type(pause) == "function" and pause or nil)
end

--- The Profile of the memory that is alive, of what this worker has allocated since it began to watch its heap.
-- @tparam[opt] string route only what requests of this route have allocated
-- @treturn Profile @fails "EINVAL" unless `heap` is on; "EBUSY" while it is being made already
function M.live_heap(route, pause)
  pause = type(pause) == "function" and pause or nil
  local prof, message, code = live_heap.profile(pause)
  if not prof then return nil, message, code end
  return route and prof:zone(route, pause) or prof
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
  return worker_counts(names)
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
  local c = config or {}
  return { running = running, sample = c.every, heap = c.heap, source = running and select(2, accounting.events()) or nil,
    pid = ngx.worker.pid(), dict = c.dict, token = config and clients.page_token(c.dict), refused = refused, sums = sums,
    dictionary = config and { capacity = c.dict:capacity(), free = c.dict:free_space() } }
end

--- A page of the counts, for content_by_lua: HTML, or JSON with `?format=json`. See doc/openresty.md.
-- @tparam[opt] table options
function M.status(opts) return pages.status(M, opts) end

--- Prometheus metrics, for content_by_lua. See doc/openresty.md.
-- @tparam[opt] table options
function M.metrics(opts) return pages.metrics(M, opts) end

return M
