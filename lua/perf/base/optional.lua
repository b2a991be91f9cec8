-- Loading the parts of this module that stand on a library of their own, and may not have been built.
local blame = require "perf.base.argument"
local every = require "perf.base.pairs"

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

-- Check a table of options: unknown names and wrong types raise at the caller of the public function.
-- @tab allowed name to type name; several types as "number|string"
-- @param opts the table or nil
-- @int arg its position among the arguments
-- @int[opt=3] level as in `error`
-- @treturn table opts, or an empty one
function M.options(allowed, opts, arg, level)
  level = level or 3
  if opts == nil then return {} end
  if type(opts) ~= "table" then
    error(("bad argument #%d (table of options expected, got %s)"):format(arg, type(opts)), level)
  end
  for key, value in every(opts) do
    local want = allowed[key]
    if not want then error(("bad argument #%d (unknown option '%s')"):format(arg, tostring(key)), level) end
    if not ("|" .. want .. "|"):find("|" .. type(value) .. "|", 1, true) then
      error(("bad argument #%d (option '%s': %s expected, got %s)")
        :format(arg, key, want:gsub("|", " or "), type(value)), level)
    end
  end
  return opts
end

-- The same, raised where the library was called, however many of its functions are in between.
function M.check(allowed, opts, arg)
  return blame.on(arg, "", M.options, allowed, opts, arg, 0)
end

return M
