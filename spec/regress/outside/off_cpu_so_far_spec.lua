-- The story: luaperf top -p PID -e context-switches asks for the profile so far while the profiler still has samples to read.
-- A thread that had returned to its CPU, but whose return was not read yet, counted as off its CPU up to that moment. So the sum
-- was up to twice as large as the time.
-- Later: some of its processes keep the CPUs busy until they are ended.
local core = require "perf.core"
local host = require "perf.kernel.host"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local function clock() return tonumber(kit.clock_ns()) end

local function start(n, fn)
  local children = {}
  for i = 1, n do children[i] = assert(kit.start(fn)) end
  return children
end

local function deep(n, fn)
  if n == 0 then return fn() end
  return (deep(n - 1, fn))
end

local function naps() kit.sleeps(300, 5e6) end

local function flood() kit.sleeps(5000, 1) end

-- Stacks of 100 frames take longer to read than to copy.
local function sleepers_and_floods()
  local sleepers = start(10, function()
    local began = clock()
    naps()
    return ("%d"):format(clock() - began)
  end)
  local floods = start(3, function() deep(100, flood) end)
  for _, child in ipairs(sleepers) do child:go() end
  for _, child in ipairs(floods) do child:go() end
  local sum = 0
  for _, child in ipairs(sleepers) do sum = sum + select(2, child:wait()) end
  for _, child in ipairs(floods) do child:wait() end
  return ("%d"):format(sum)
end

it("a profile so far has no time off the CPU after a thread's return", function()
  outside.requires { tracepoint = "sched:sched_switch" }
  local child = assert(kit.start(sleepers_and_floods))
  local p = assert(perf.profiler { pid = child:pid(), event = "context-switches", native = true })
  assert(p:start())
  child:go()
  repeat
    p.sampler:snapshot()
    core.watch({}, 0.05)
  until not host.is_running(child:pid())
  local status, most = child:wait()
  local prof = assert(p:stop())
  p:close()
  assert.equal(0, status, most)
  local found, text = profiling.under(prof, "naps"), most .. "\n" .. profiling.text(prof)
  assert.is_true(found > 0, text)
  assert.is_true(found <= 1.05 * tonumber(most), text) -- it was up to twice as much; once, with little memory, 0.1 % more
end)
