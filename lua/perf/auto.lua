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
-- * `PERF_FILTER`: a filter for the hits of a tracepoint
-- * `PERF_OUTPUT`: the file, whose ending selects the format as in luaperf record (default: luaperf.json). Counts go to stderr
--   when not given
-- * `PERF_VERBOSE`: 1 prints the profile at the end; `PERF_QUIET`: 1 prints nothing unless the file could not be written
-- @module perf.auto
local options = require "perf.command.options"

local M = {} -- made before the profile begins, so that it is not in the profile

local opts, wrong = options.environment(options.variables)
if not opts then
  io.stderr:write("perf.auto: ", wrong, "\n")
  os.exit(255)
end
opts.mode = opts.mode or "record"
opts.source = opts.events and "PERF_EVENTS: "
opts.output = opts.output or opts.mode == "record" and "luaperf.json" or nil
require "perf.command.session".start(opts)

return M
