-- Loads the parts of this module that need a library, and may not have been built.

local M = {}

-- Load the C half of perf.NAME.
-- @string name "bpf" for perf.ext.bpf
-- @string library what it is made with, "libbpf"
-- @string package Debian's name of what to install, "libbpf-dev"
-- @treturn table the C module. Raises, with what to do, where it was not built; any other failure (a library that is
-- gone, a file of another Lua) is raised with the loader's words.
function M.load(name, library, package)
  local ok, result = pcall(require, "perf.ext." .. name)
  if ok then return result end
  if tostring(result):find("module 'perf.ext." .. name .. "' not found", 1, true) then
    error(("perf.%s: not built (%s's headers were missing: apt-get install %s, then make)"):format(name, library, package), 0)
  end
  error(("perf.%s: %s"):format(name, tostring(result)), 0)
end

return M
