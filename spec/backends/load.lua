--- Sends spans at a rate to a collector: sent and dropped spans add up to all spans made, and memory does not grow.
--
--     LUA spec/backends/load.lua URL SECONDS SPANS-A-SECOND
local clock = require "perf.base.clock"
local perf = require "perf"

local url, seconds, rate = arg[1], tonumber(arg[2]), tonumber(arg[3])
local tracer = assert(perf.tracer { service = "load", events = "task-clock,page-faults,context-switches,cpu-migrations",
  exporter = perf.exporter.otlp { endpoint = url }, queue = 8192, batch = 1024, delay = 1 })

local function resident()
  for line in io.lines "/proc/self/status" do
    local kb = line:match "^VmRSS:%s*(%d+)"
    if kb then return tonumber(kb) end
  end
end

local began, made, early, most = clock.now(), 0, nil, 0
while true do
  local passed = (clock.now() - began) / 1e9
  if passed >= seconds then break end
  local due = math.min(passed * rate, seconds * rate)
  if made < due then
    for _ = 1, math.min(100, math.ceil(due - made)) do
      tracer:start "load":finish()
      made = made + 1
    end
  else
    tracer:poll()
  end
  if made % 1000 < 100 then
    local kb = resident()
    if passed > seconds / 4 and not early then early = kb end
    if kb > most then most = kb end
  end
end
local took = (clock.now() - began) / 1e9
tracer:flush(30)
local s = tracer:stats()
print(("%d spans in %.1f s (%.0f a second): %d sent, %d dropped, %d failures; %d KB resident at the first quarter, %d at most")
  :format(s.made, took, s.made / took, s.sent, s.dropped, s.failures, early or 0, most))
tracer:close()
s = tracer:stats()
assert(s.made == made and s.made == s.sent + s.dropped and s.queued == 0, "the books do not balance")
assert(most < (early or most) * 1.5 + 20000, "memory grew")
