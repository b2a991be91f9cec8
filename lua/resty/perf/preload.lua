-- Prepares what the pages and profiles need, before there are workers. It loads the modules: a worker's user may not be allowed
-- to read the files, and requests would wait while a worker loads one.
for _, name in ipairs { "c_functions", "collect", "lua_frame", "native", "since" } do require("perf.profile." .. name) end
for _, format in ipairs(require "perf.profile.report.formats") do
  if format.content_type then require("perf.profile.report." .. format.name) end
end
for _, name in ipairs { "diff", "html", "path", "report", "rows" } do require("perf.heap." .. name) end
for _, name in ipairs { "idle", "probe", "refusal.invalid", "refusal.permission", "refusal.unavailable" } do
  require("perf.event." .. name)
end
pcall(require, "zlib") -- profiles in pprof's format use it
require "perf.profile.native".load()
-- Learn LuaJIT's structures, for which the first snapshot of the heap would stop its worker. If this fails, snapshots say why.
require "perf.core".heap_learn()
