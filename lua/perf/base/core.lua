-- Loads perf.core, the part in C. If it was built for another Lua, the error says so; the loader's own message does not.
local found, core = pcall(require, "perf.core")
if found then
  -- The chunks of modules that are built in have the names of the files, by which errors and profiles recognize this library.
  local debug = package.loaded.debug -- a program may have removed the debug library, or getinfo alone
  local getinfo = debug and debug.getinfo
  core.add_searcher(getinfo and getinfo(1, "S").source:match "^(@.*)perf/base/core%.lua$" or "@")
  return core
end
local message = tostring(core)
local file = message:match "from file '([^\n]*)'"
if file and message:find("symbol", 1, true) then
  local name = rawget(_G, "jit") and "luajit" or "lua" .. _VERSION:match "%d.%d"
  error(("%s is for another Lua, not for %s; in the source tree: eval \"$(make -s env LUA=%s)\" (%s)"):format(file,
    rawget(_G, "jit") and jit.version or _VERSION, name, message:match "([^:%s][^:\n]*symbol[^\n]*)$" or message), 0)
end
error(core, 0)
