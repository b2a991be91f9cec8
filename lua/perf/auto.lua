--- Profile or count a program without changing it.
--
--     luajit -lperf.auto script.lua                         # a profile in luaperf.json, for luaperf report
--     PERF_OUTPUT=flame.html luajit -lperf.auto script.lua
--     PERF_EVENTS=page-faults PERF_PERIOD=1 luajit -lperf.auto script.lua
--     PERF_MODE=stat PERF_EVENTS=instructions:u,task-clock lua5.4 -lperf.auto script.lua
--
-- It begins where it is required and ends with the program: at the end of the script, at os.exit, or after an error.
--
-- * `PERF_MODE`: record (the default) or stat
-- * `PERF_EVENTS`: the event to profile by (default: task-clock); with stat the list to count (default: perf.measure's)
-- * `PERF_FREQ`: samples a second; `PERF_PERIOD`: the event's count from one sample to the next
-- * `PERF_NATIVE`: 1 includes C and kernel functions
-- * `PERF_COROUTINES`: creator or resumer: the stack under which a coroutine is shown
-- * `PERF_OUTPUT`: the file, whose ending selects the format as in luaperf record (default: luaperf.json). Counts go to stderr
--   when not given
-- * `PERF_VERBOSE`: 1 prints the profile at the end; `PERF_QUIET`: 1 prints nothing unless the file could not be written
-- @module perf.auto
local function set(name)
  local text = os.getenv(name)
  return text ~= "" and text or nil
end

local function fail(...)
  io.stderr:write("perf.auto: ", string.format(...), "\n")
  os.exit(255)
end

local function number(name)
  local text = set(name)
  local v = text and tonumber(text)
  local good = v and v >= 1 and v == math.floor(v)
  if text and not good then fail("%s: a whole number, 1 or more, expected, got '%s'", name, text) end
  return v
end

local function flag(name)
  local text = set(name)
  if text and text ~= "0" and text ~= "1" then fail("%s: 0 or 1 expected, got '%s'", name, text) end
  return text == "1" or nil
end

local mode = set "PERF_MODE" or "record"
if mode ~= "record" and mode ~= "stat" then fail("PERF_MODE: record or stat expected, got '%s'", mode) end
local freq, period = number "PERF_FREQ", number "PERF_PERIOD"
if freq and period then fail "PERF_FREQ and PERF_PERIOD exclude each other" end

require "perf.command.session".start { mode = mode, events = set "PERF_EVENTS", freq = freq, period = period,
  native = flag "PERF_NATIVE", coroutines = set "PERF_COROUTINES",
  output = set "PERF_OUTPUT" or mode == "record" and "luaperf.json" or nil,
  verbose = flag "PERF_VERBOSE", quiet = flag "PERF_QUIET" }

return {}
