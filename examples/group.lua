--- Events and groups by hand: events of one group count over the same instants, and one read gives them all.
local perf = require "perf"

local function check(value, message) -- a refusal by the machine is returned as nil and a message
  if value then return value end
  io.stderr:write("group: ", message, "\n")
  os.exit(1)
end

local function work()
  local sum = 0
  for i = 1, 1e6 do sum = sum + i % 7 end
  return sum
end

-- With hardware counters: cycles and instructions. Without: clocks.
local group = perf.group { "cycles:u", "instructions:u" }
if not group then
  print "No hardware counters here: clocks instead.\n"
  group = check(perf.group { "task-clock", "cpu-clock", "page-faults:u" })
end

print(("A group of %d, around a function:"):format(#group))
local counts, sum = group:measure(work)
print(counts)

-- The same in pieces: work is not counted while the group is disabled.
group:disable()
group:reset()
for round = 1, 3 do
  group:enable()
  work()
  group:disable()
  work()
  print(("\nAfter round %d of 3:\n%s"):format(round, tostring(group:read())))
end
group:close()
assert(work() == sum)

-- One event; the options of open select the process, thread, CPU or cgroup that it counts.
local event = check(perf.open("task-clock", { pid = 0 }))
print("\n" .. tostring(event:measure(work).value / 1e6) .. " ms of CPU time, by one event")
event:close()
