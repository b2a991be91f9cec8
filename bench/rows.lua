--- The rows of the benchmark. A row:
--
--   id         what the contestants know it by
--   title      for the table
--   n          repetitions a sample
--   events     the groups that the floor works on, by name; nil where there is no floor
--   target     {contestant = the ratio to the floor, or with `absolute` the value, that is aimed at}
--   over       {contestant = the time over the floor that suffices instead, in ns}
--   by         "median" where the minimum would be that of a moment when another process had events of the kind open
--   unit       "ns" unless said
--   group      heading
--   picture    its title in the picture, where it is in it
local rows = {}
local heading

local function row(t)
  t.group, t.unit = heading, t.unit or "ns"
  rows[#rows + 1] = t
end

local MEASURE, MEASURE_OVER = { luajit = 1.1, ["lua5.4"] = 1.3 }, { luajit = 50, ["lua5.4"] = 150 }
local READ, READ_OVER = { luajit = 1.15, ["lua5.4"] = 1.6 }, { luajit = 40 }
local FIRST, FIRST_OVER = { luajit = 1.5, ["lua5.4"] = 2 }, { luajit = 1500 }
local FOUR = "task-clock,page-faults,context-switches,cpu-migrations"

heading = "Measure an empty function, events open"
row { id = "measure-event", title = "one event, task-clock: event:measure(fn)", n = 500, events = "task-clock",
  target = { luajit = 1.1 }, over = MEASURE_OVER }
row { id = "measure-one", title = "the same by its name: perf.measure(name, fn)", n = 500, events = "task-clock",
  picture = "One event, measured", target = MEASURE, over = MEASURE_OVER }
row { id = "measure-faults", title = "page-faults: perf.measure(name, fn)", n = 500, events = "page-faults",
  target = MEASURE, over = MEASURE_OVER }
row { id = "measure-group", title = "a group of 4: group:measure(fn)", n = 500, events = FOUR,
  picture = "A group of 4 events, measured", target = MEASURE, over = MEASURE_OVER }
row { id = "measure-list", title = "a list of 4: perf.measure(list, fn)", n = 500, events = FOUR,
  picture = "A list of 4: perf.measure(list, fn)", target = MEASURE, over = MEASURE_OVER }
row { id = "measure-kept", title = "the same, every Counts kept", n = 500, events = FOUR,
  target = MEASURE, over = MEASURE_OVER }
row { id = "measure-default", title = "no list: perf.measure(fn)", n = 500, events = "default",
  picture = "No list: perf.measure(fn)", target = MEASURE, over = MEASURE_OVER }
row { id = "measure-interpreted", title = "a list of 4, LuaJIT's compiler off", n = 500, events = FOUR,
  target = { luajit = 1.5 } }

heading = "Read without measuring"
row { id = "read-event", title = "one event: event:read()", n = 500, events = "task-clock", target = READ, over = READ_OVER,
  picture = "One event, read" }
row { id = "read-group", title = "a group of 4: group:read()", n = 500, events = FOUR,
  picture = "A group of 4 events, read", target = READ, over = READ_OVER }

heading = "First use: open, read, close"
row { id = "first-event", title = "an Event: task-clock", n = 100, events = "task-clock", target = FIRST, over = FIRST_OVER }
row { id = "first-list", title = "perf.measure of a list that is not open: task-clock", n = 100, events = "task-clock",
  target = FIRST, over = FIRST_OVER }
row { id = "first-list4", by = "median", title = "perf.measure of a list of 4 that is not open", n = 20, events = FOUR,
  target = FIRST, over = FIRST_OVER }
row { id = "first-faults", by = "median", title = "perf.measure of a list that is not open: page-faults", n = 10,
  events = "page-faults",
  target = FIRST, over = FIRST_OVER }
row { id = "first-faults-kept", title = "the same, another of the kind open", n = 100, events = "page-faults",
  target = FIRST, over = FIRST_OVER }
row { id = "first-tracepoint", by = "median", title = "the same: a system call's tracepoint", n = 1, rounds = 9,
  events = "syscalls:sys_enter_getppid" }
row { id = "first-tracepoint-kept", title = "the same, another of the kind open", n = 20,
  events = "syscalls:sys_enter_getppid" }

heading = "Spans"
row { id = "span", title = "a span with four counts: tracer:start(name):finish()", n = 200, events = FOUR,
  target = { luajit = 1, ["lua5.4"] = 1 }, over = { luajit = 500, ["lua5.4"] = 1200 } }

heading = "Records out of a ring, four fields read"
row { id = "ring", title = "a sample: read_record(0, record), one Record reused", n = 4000, events = "page-faults",
  target = { luajit = 4, ["lua5.4"] = 40 } }
row { id = "ring-fresh", title = "a sample: for record in event:records()", n = 4000, events = "page-faults",
  target = { luajit = 10, ["lua5.4"] = 40 } }
row { id = "ring-each", title = "a sample: for i, ip, tid, time, addr in event:each()", n = 4000, events = "page-faults",
  target = { ["lua5.4"] = 20 } }
row { id = "ring-tally", title = "a sample: tally:take(event), by ip and tid; C adds all four up", n = 4000,
  events = "page-faults", target = { luajit = 3, ["lua5.4"] = 3 } }

heading = "perf.data files, four fields of each sample read"
row { id = "data", title = "a sample: perf.data.open(path):records(); perf script is a process", n = 50000, rounds = 9 }
row { id = "data-each", title = "a sample: perf.data.open(path):each(); perf script is a process", n = 50000, rounds = 9,
  target = { luajit = 60, ["lua5.4"] = 120 }, absolute = true }

heading = "Many at once"
row { id = "many-events-10", title = "each of 10 open events", n = 10, rounds = 9, events = "task-clock" }
row { id = "many-events-100", title = "each of 100 open events", n = 100, rounds = 9, events = "task-clock" }
row { id = "many-events-1000", title = "each of 1,000 open events", n = 1000, rounds = 9, events = "task-clock" }
row { id = "many-rings-8", title = "each of 8 rings of 8 pages", n = 8, rounds = 15, events = "page-faults" }
row { id = "many-rings-64", title = "each of 64 rings of 8 pages", n = 64, rounds = 15, events = "page-faults" }

heading = "Loading"
row { id = "load", title = "require \"perf\", in CPU time", n = 1, rounds = 15 }
row { id = "load-measure", title = "the same, and the first perf.measure(fn)", n = 1, rounds = 15,
  target = { luajit = 4e6, ["lua5.4"] = 4e6 }, absolute = true }
row { id = "load-memory", title = "the Lua memory of both", n = 1, rounds = 3, unit = "bytes",
  target = { luajit = 150 * 1024, ["lua5.4"] = 150 * 1024 }, absolute = true }

heading = "Memory"
row { id = "garbage", title = "garbage of perf.measure(list, fn)", n = 1000, rounds = 9, unit = "bytes" }
row { id = "garbage-group", title = "garbage of group:measure(fn)", n = 1000, rounds = 9, unit = "bytes" }
row { id = "garbage-ring", title = "garbage of a sample, one Record reused", n = 1000, rounds = 9, unit = "bytes" }
row { id = "memory-event", title = "Lua memory of an open Event", n = 1000, rounds = 9, unit = "bytes" }

return rows
