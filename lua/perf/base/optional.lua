-- Loads the parts of this module that need a library and may not have been built.

local M = {}

-- Load the C half of perf.NAME.
-- @string name "bpf" for perf.ext.bpf
-- @string library the library that it uses, "libbpf"
-- @string package Debian's package to install, "libbpf-dev"
-- @treturn table the C module. Raises an error with a remedy if the part was not built; for any other failure (a library that is
-- gone, a file of another Lua) the loader's error.
function M.load(name, library, package)
  local ok, result = pcall(require, "perf.ext." .. name)
  if ok then return result end
  if tostring(result):find("module 'perf.ext." .. name .. "' not found", 1, true) then
    error(("perf.%s: not built (%s's headers were missing: apt-get install %s, then make)"):format(name, library, package), 0)
  end
  error(("perf.%s: %s"):format(name, tostring(result)), 0)
end

return M
