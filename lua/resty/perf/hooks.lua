-- The hooks of the phases: a request becomes known, its turn begins, and ends.
--
-- A hook takes any arguments, and LuaJIT compiles no trace that begins at such a function. So the work of a hook is in functions
-- with fixed arguments: each is one trace, in which the address of the request needs no memory.
local accounting = require "resty.perf.accounting"
local base = require "resty.core.base"
local code_cache = require "resty.perf.code_cache"
local host = require "resty.perf.host"
local log = require "resty.perf.log"
local nesting = require "resty.perf.nesting"
local numbers = require "resty.perf.route_numbers"
local options = require "resty.perf.options"
local pairs_of = require "perf.base.pairs"
local report = require "resty.perf.request_report"
local spans = require "resty.perf.spans"

local get_request = base.get_request
local enter, exit, turn, finish = accounting.enter, accounting.exit, accounting.turn, accounting.finish

local M = {}

local ENOENT, EBUSY = accounting.ENOENT, accounting.EBUSY
local TIMER, LOG, EXIT_WORKER = accounting.number.timer, accounting.number.log, accounting.number.exit_worker
local TIMERS = options.TIMERS
M.apart = {} -- routes of phases that belong to no request, by the phase's number
for phase, route in pairs_of(options.apart) do M.apart[accounting.number[phase]] = route end
local apart_by_phase = M.apart

local config, names -- the checked options of perf.start, nil before; the routes' names, by number
local running = false

-- Set the checked options of perf.start.
function M.configure(options_of_start)
  config = options_of_start
  accounting.sample(config.sampler)
end

-- Count requests from now on, or none: hooks then only call the functions that they are given.
-- @param[opt] names_by_number of routes
function M.count(names_by_number) names, running = names_by_number, names_by_number ~= nil end

-- Whether a sampler chooses a request. After each decision the core is told how many of the sampler's next requests to skip, so
-- these do not come here.
local function is_chosen(number)
  if accounting.skipped(number) then return false end
  local sampler = config.sampler
  local chosen = sampler.decide[number]()
  accounting.skip(number, sampler.skip[number]())
  return chosen
end

-- Whether a request of a route is counted.
local function is_sampled(r, route, apart)
  local sampler = config.sampler
  if sampler.header and not apart and sampler.trusts(host.variable(r, sampler.header)) then return true end
  local number = sampler.of(route)
  if sampler.by_route and not apart then accounting.learn(r, number) end
  return is_chosen(number)
end

-- Make a main request known, and count it if it is sampled.
local function admit(r, phase)
  accounting.see(r)
  -- nginx reports the end of a request before its log phase, and does not report the end of exit_worker_by_lua's request. Both
  -- count as ended.
  local ended = (phase == LOG and r == get_request() or phase == EXIT_WORKER) and 1 or 0
  local apart, sampler, route = apart_by_phase[phase], config.sampler, nil
  if sampler.by_route then
    route = apart or config.find(host.variable(r, "uri") or "")
  end
  if not is_sampled(r, route, apart) then return accounting.admit(r, -1, ended, 0) end
  route = route or apart or config.find(host.variable(r, "uri") or "")
  local start = config.reports and not apart and host.start_time(r) or 0
  if accounting.admit(r, numbers.number(config.names.admit(route)), ended, start) ~= 0 then return end
  if config.spans and not apart then spans.begin(config.spans, r, route, start) end
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

-- A hook is called while nothing is counted: report it if the reason is lua_code_cache.
local function idle()
  if config or not code_cache.is_off() then return end
  log.write(ngx.ERR, "resty.perf: lua_code_cache is off: each request runs in a separate Lua state, so none can be counted")
end

-- A turn of the running request begins. Returns the same as `enter`, but 0 instead of an error.
local function begin_turn(phase)
  if not running then
    idle()
    return 0
  end
  local r = get_request()
  local code = enter(r, phase)
  return code >= 0 and code or admit_and_enter(r, phase, code)
end

local function end_turn(outer) return exit(get_request(), outer) end

local function done(outer, ...)
  end_turn(outer)
  return ...
end

-- The hook of a phase, by its number. It reads little memory, since the CPU's caches have none of it after nginx's own work.
function M.new(phase)
  local function run(fn, ...)
    local code = begin_turn(phase)
    if fn == nil then
      if code > 0 then end_turn(code - 1) end
      return
    end
    if code <= 0 then return fn(...) end
    return done(code - 1, fn(...))
  end
  nesting.hooks[run] = true
  return run
end

-- Whether the log phase of the running request has a hook already, which has called the present one.
local function is_in_log() return turn(get_request()) == LOG and nesting.in_hook() end

local function finish_request()
  local r = get_request()
  local route = finish(r)
  if route == nil or not config.reports then return end
  -- A slow request is reported even if it was not counted.
  local start = host.start_time(r)
  if not route or accounting.finished_start() == start then report(config, names, r, route, start) end
end

local function finish_alone()
  if not running then return idle() end
  if not is_in_log() then finish_request() end
end

local function finished(...)
  finish_request()
  return ...
end

-- The hook of the log phase.
function M.log(fn, ...)
  if fn == nil then
    finish_alone() -- not as a tail call, which would hide this hook from `nesting`
    return
  end
  if not running then
    idle()
    return fn(...)
  end
  if is_in_log() then return fn(...) end
  if begin_turn(LOG) <= 0 then return finished(fn(...)) end
  return finished(done(0, fn(...)))
end
nesting.hooks[M.log] = true

-- Run a timer's callback.
function M.timer(fn, ...)
  if not running then return fn(...) end
  local r = get_request()
  local route = config.timers and numbers.number(config.names.admit(options.timer_route(fn))) or numbers.number(TIMERS)
  if accounting.admit(r, route, 0, 0) ~= 0 or enter(r, TIMER) <= 0 then return fn(...) end
  return done(0, fn(...))
end
nesting.hooks[M.timer] = true

return M
