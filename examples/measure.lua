--- perf.measure: the cost of a function, in the events of your choice.
local perf = require "perf"

local function build(n)
  local t = {}
  for i = 1, n do t[i] = ("line %d"):format(i) end
  return table.concat(t, "\n"), n
end

-- The arguments after the function are passed to it; its results follow the counts.
local counts, text, lines = perf.measure(build, 1e5)
print(("%d lines, %d bytes; the events this machine has (%s):\n%s\n"):format(lines, #text, counts.source, tostring(counts)))

-- Another list, as for perf stat -e. The events stay open for the next time.
counts = perf.measure("page-faults:u,minor-faults:u,major-faults:u,task-clock", build, 1e5)
print("Page faults alone:")
for _, event in ipairs(counts) do
  print(("  %-14s %12s %s"):format(event.label, tostring(event.value or event.why), event.unit or ""))
end

-- Measurements nest, and each counts what happened within it.
local inner
local outer = perf.measure("page-faults:u", function()
  build(2e5)
  inner = perf.measure("page-faults:u", build, 2e5)
end)
print(("\nTwice the work: %d page faults, %d of them in the second half"):format(outer["page-faults:u"], inner["page-faults:u"]))

-- Counts are values: subtract, add, divide; and ratios if the events allow them.
print("\nThe first half:\n" .. tostring(outer - inner))
counts = perf.measure(build, 1e5)
local metrics = counts:metrics()
print(("\nCPUs used: %s; instructions per cycle: %s"):format(
  metrics.cpus_utilized and ("%.2f"):format(metrics.cpus_utilized) or "not counted here",
  metrics.ipc and ("%.2f"):format(metrics.ipc) or "not counted here"))
