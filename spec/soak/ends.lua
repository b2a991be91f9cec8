--- Ends of profiled programs: each kind of spec/soak/ending.lua, with 0 to 100,000 finalizers, sampled 5,000 times a second.
--
--     ENDS=1000 luajit spec/soak/ends.lua
--
-- A program must end with the status that it has without a profiler, within a minute, and leave a complete profile. A spec runs
-- fewer.
local util = require "spec.support.util"

local M = {}

local jit = rawget(_G, "jit")
local puc51 = _VERSION == "Lua 5.1" and not jit

-- Status: negative for a signal. The interpreters turn SIGINT into an error.
local kinds = {
  returns = 0, raises = 1, raises_a_table = 1, exits = 3, exits_and_closes = 3, exits_in_coroutine = 3,
  terminated = -15, terminated_twice = -15, hung_up = -1, quits = -3, interrupted = 1, interrupted_twice = { 1, -2 },
  coroutines_die = 0, nests = 0, forks = 0, collects = 0, finalizer_raises = 0, finalizer_exits = 4,
  compiler_off = 0, flushes = 0,
  profiles_by_itself = 0, profiles_to_the_end = 0, stops_what_runs = 0, another_state = 0,
}
local own = { left_running = 0, forgotten = 0, closed_late = 0, stopped_late = 0, of_a_dead_coroutine = 0,
  of_a_failed_coroutine = 0, of_a_closed_state = 0, started_by_a_finalizer = 0 }
if puc51 then kinds.finalizer_raises = { 0, 1 } end

local order = {}
for _, list in ipairs { kinds, own } do
  for kind in next, list do order[#order + 1] = kind end
end
table.sort(order)
M.kinds = #order

local function expected(want, got)
  if type(want) == "number" then return want == got end
  for _, status in ipairs(want) do
    if status == got then return true end
  end
  return false
end

-- The complete profile in a file; or nil and the error.
local function check(path)
  local profiles, why = require("perf.profile.load").all(path)
  if not profiles then return nil, "no profile: " .. tostring(why) end
  local prof = profiles[1]
  local sum = 0
  for _, s in ipairs(prof:samples()) do sum = sum + s.weight end
  if not (prof.total > 0 and sum == prof.total) then
    return nil, ("total %s, sum %s"):format(tostring(prof.total), tostring(sum))
  end
  return prof
end

--- Runs the i-th program. Returns nil, or the error.
function M.run(i, finalizers)
  local kind = order[(i - 1) % #order + 1]
  local wrong
  util.with_tmpname(function(path)
    os.remove(path)
    local auto = kinds[kind] and ("PERF_FREQ=5000 PERF_QUIET=1 PERF_OUTPUT=%s"):format(path) or ""
    local command = "%s env --default-signal=INT,QUIT timeout -s KILL 600 %s %s spec/soak/ending.lua %s %d"
    local output, status = util.shell(command:format(auto, util.lua(),
      kinds[kind] and "-lperf.auto" or "", kind, finalizers))
    if not expected(kinds[kind] or own[kind], status) then
      wrong = ("status %d: %s"):format(status, output)
    elseif kinds[kind] and status ~= -2 then -- the interpreter lets a second SIGINT kill it while the state closes
      wrong = select(2, check(path))
      if wrong then wrong = wrong .. ": " .. output end
    end
  end)
  return wrong and ("%s with %d finalizers: %s"):format(kind, finalizers, wrong), kind
end

local SIZES = { 0, 10, 0, 1000, 100, 0, 10000, 10, 1000, 100000 }

--- Runs this many programs: returns an array of errors.
function M.run_all(from, to)
  local wrong = {}
  for i = from, to do wrong[#wrong + 1] = M.run(i, SIZES[(math.floor((i - 1) / #order) + i) % #SIZES + 1]) end
  return wrong
end

if arg and (arg[0] or ""):find "ends%.lua$" then
  local most = tonumber(os.getenv "ENDS") or 1000
  local wrong = M.run_all(1, most)
  for _, text in ipairs(wrong) do print("  " .. text) end
  print(("ends: %s: %d programs of %d kinds, %d wrong"):format(jit and jit.version or _VERSION, most, #order, #wrong))
  os.exit(#wrong == 0 and 0 or 1)
end

return M
