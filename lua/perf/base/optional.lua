-- Loads the parts of this module that need a library and may not have been built.

local argument = require "perf.base.argument"
local late = require "perf.base.late"

local loaded = package.loaded -- below, `package` is an argument

local M = {}

-- Load the C half of perf.NAME.
-- @string name "bpf" for perf.ext.bpf
-- @string library the library that it uses, "libbpf"
-- @string package Debian's package to install, "libbpf-dev"
-- @string module the module that calls this, "perf.bpf"
-- @treturn table the C module. Raises an error with a remedy if the part was not built; for any other failure (a library that is
-- gone, a file of another Lua) the loader's error.
function M.load(name, library, package, module)
  local ok, result = pcall(late, "perf.ext." .. name)
  if ok then return result end
  if tostring(result):find("module 'perf.ext." .. name .. "' not found", 1, true) then
    result = ("not built (%s's headers were missing: apt-get install %s, then make)"):format(library, package)
  end
  -- Lua 5.1 and LuaJIT leave a mark here if a module raises, and then the next `require` reports a loop instead of this reason.
  loaded[module] = nil
  argument.raise(("perf.%s: %s"):format(name, tostring(result)), 0)
end

return M
