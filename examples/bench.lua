--- perf.bench and perf.compare: costs with their uncertainty, and the differences that are real.
--
--     luajit examples/bench.lua 0.001    runs of at least a millisecond
local perf = require "perf"

local OPTIONS = { events = "task-clock,page-faults:u", min_time = tonumber(arg and arg[1]) }

local words = {}
for i = 1, 200 do words[i] = "word" .. i end

local function by_concat()
  return table.concat(words, " ")
end

local function by_dots()
  local s = words[1]
  for i = 2, #words do s = s .. " " .. words[i] end
  return s
end

local function by_format()
  return (("%s "):rep(#words - 1) .. "%s"):format((table.unpack or unpack)(words))
end

assert(by_concat() == by_dots() and by_concat() == by_format())

print "table.concat of 200 words:\n"
local stats = assert(perf.bench(by_concat, { min_time = OPTIONS.min_time }))
print(stats)
print(("\n%.0f a second; the median is in %.0f .. %.0f ns with 95 %%\n"):format(1e9 / stats.wall.median,
  stats.wall.ci[1], stats.wall.ci[2]))

print "Three ways to join them:\n"
print(assert(perf.compare({ { "concat", by_concat }, { "dots", by_dots }, { "format", by_format } }, OPTIONS)))

print "\nA function against itself:\n"
local same = assert(perf.compare({ { "a", by_concat }, { "b", by_concat } }, OPTIONS))
print(same)

-- For a program: the same as fields, plain tables or JSON.
local clock = same["task-clock"].candidates.b
print(("\nreal: %s, ratio %.3f, p %.3f\n%d bytes of JSON"):format(tostring(clock.real), clock.ratio, clock.p_adjusted,
  #same:json()))
