--- Stacks that the unwinder finds in the handler of a clock's signals, without a profiler.
local kit = require "testkit"

local PERIOD, LONGEST = 50000, 180e9 -- nanoseconds of CPU time; long, since emulated machines take few samples

local sampled = {}

--- Calls fn(...) repeatedly until there are enough samples: a busy virtual machine takes them rarely. Returns the stacks.
function sampled.run(fn, ...)
  assert(kit.unwind.start(PERIOD))
  local from = kit.clock_ns "thread"
  local ok, err
  repeat ok, err = pcall(fn, ...) until not ok or kit.unwind.samples() >= 2000 or kit.clock_ns "thread" - from > LONGEST
  local stacks = kit.unwind.stop()
  if not ok then error(err, 0) end
  assert(stacks.lost == 0, "the kit had no room for a stack")
  assert(stacks.samples >= 2000)
  return stacks
end

--- The percentage of the samples for which the function is true.
function sampled.share(stacks, fn)
  local sum = 0
  for _, stack in ipairs(stacks) do
    if fn(stack.places, stack) then sum = sum + stack.count end
  end
  return 100 * sum / stacks.samples
end

--- Is the stack missing or cut? For `share`.
function sampled.unknown(_, stack)
  return stack.failed ~= nil
end

--- The failures, and how many samples have each, as text.
function sampled.failures(stacks)
  local by, list = {}, {}
  for _, stack in ipairs(stacks) do
    if stack.failed then by[stack.failed] = (by[stack.failed] or 0) + stack.count end
  end
  for reason, n in pairs(by) do list[#list + 1] = reason .. ": " .. n end
  return ("%d samples; %s"):format(stacks.samples, table.concat(list, ", "))
end

--- Writes "whole" if 99.5 % of the samples have their whole stacks, else what they have. For spec.support.whole_stacks.
function sampled.say_whole(stacks, percent)
  io.write(percent >= 99.5 and "whole" or ("%.1f %% are whole, of %s"):format(percent, sampled.failures(stacks)))
end

return sampled
