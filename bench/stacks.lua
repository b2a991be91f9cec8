--- A profile of many samples, each of a different stack: the profiler's memory, and the time for each report.
--
--     make testkit && eval "$(make -s env)" && luajit bench/stacks.lua [SAMPLES, 1000000]
--
-- Ten functions call each other by the digits of a number, under ten that are the same each time; each such stack faults one
-- page. Seconds are CPU time; memory is the profiler's at the stop.
local perf, kit = require "perf", require "testkit"

local N = tonumber(arg[1]) or 1000000

local digits = {}
local source = [[
local digits, kit, floor = ...
return function(n, left)
  if left == 0 then
    kit.touch_pages(1)
    return 1
  end
  local v = digits[n %% 10](floor(n / 10), left - 1)
  return v + %d
end]]
for d = 0, 9 do
  local code, name = source:format(d), ("@digit%d.lua"):format(d)
  digits[d] = assert((rawget(_G, "loadstring") or load)(code, name))(digits, kit, math.floor)
end

local function deep(depth, n, left)
  local v = depth == 0 and digits[0](n, left) or deep(depth - 1, n, left)
  return v + 1
end

local function seconds(fn)
  local before = os.clock()
  local value = fn()
  return os.clock() - before, value
end

local left = 0
while 10 ^ left < N do left = left + 1 end
local p = assert(perf.profiler { event = "page-faults" })
assert(p:start())
local took = seconds(function()
  for i = 0, N - 1 do deep(10, i, left) end
end)
print(("%d samples taken in %.2f s"):format(N, took))
local prof
took, prof = seconds(function() return p:stop() end)
print(("stop       %6.2f s  %d stacks, %.1f MB in the profiler, %d lost"):format(took, #prof:samples(), prof.memory / 1e6,
  prof.lost))

local path = os.tmpname()
for _, report in ipairs { "top", "folded", "speedscope", "pprof", "perf_data", "flamegraph" } do
  collectgarbage()
  collectgarbage()
  took = seconds(function()
    if report == "top" then return tostring(prof:top()) end
    return assert(prof[report](prof, path))
  end)
  print(("%-10s %6.2f s"):format(report, took))
end
os.remove(path)
os.remove(path .. ".symbols")
